"""`sessions_spawn`: a sub-agent on a task of its own (W1, W2, W4, W8)."""

import math
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from core.gateway import Gateway
from core.model.access import Caller, Operator
from core.model.attachments import MAX_BYTES, MAX_FILES, Attachment
from core.model.errors import Forbidden
from core.model.json_codec import encodable
from core.model.runs import RunRequest, SpawnSpec
from core.tools.params import Number, Text, ToolParams
from core.tools.target import Refusal, agent_acting

NAME = "sessions_spawn"
DESCRIPTION = (
    "Start a sub-agent in a session of its own on one task. It returns at once; the result is posted to this session"
    " when the sub-agent is done."
)
MAX_SECONDS = 366 * 86_400.0


class AttachmentParams(ToolParams):
    """One of `attachments` (W8)."""

    name: str = Field(description="Name of the file, without a folder.")
    content: str = Field(description="Its text, or its bytes in base64.")
    encoding: Literal["utf8", "base64"] = Field(default="utf8", description="How content is written.")
    mime_type: str | None = Field(default=None, max_length=127, description="What it holds, for the task.")


class AttachAsParams(ToolParams):
    """`attachAs` (W8)."""

    mount_path: str | None = Field(default=None, max_length=1024, description="Where the files should be seen; a hint.")


class SessionsSpawnParams(ToolParams):
    """Parameters of `sessions_spawn`."""

    task: str = Field(description="What the sub-agent is to do; it knows nothing else.")
    label: Text | None = Field(default=None, max_length=120, description="A short name for lists and logs.")
    runtime: Literal["subagent"] = Field(default="subagent", description="What runs it; only sub-agents run here.")
    agent_id: Text | None = Field(default=None, description="Whose sub-agent, as agents_list shows; default your own.")
    model: Text | None = Field(default=None, description="Another model than the agent's own.")
    thinking: Literal["off", "minimal", "low", "medium", "high"] | None = Field(
        default=None, description="Another thinking level than the agent's own."
    )
    run_timeout_seconds: Number | None = Field(
        default=None, ge=0, le=MAX_SECONDS, description="Stop the sub-agent after that long; 0 for never."
    )
    thread: bool = Field(default=False, description="Only false: there are no threads here.")
    mode: Literal["run"] = Field(default="run", description="The sub-agent ends with its task.")
    sandbox: Literal["inherit", "require"] = Field(
        default="inherit", description="require: refuse unless the sub-agent is sandboxed."
    )
    cleanup: Literal["delete", "keep"] = Field(
        default="keep", description="delete: archive the sub-agent at once when its result is posted."
    )
    attachments: list[AttachmentParams] = Field(
        default=[], description=f"Files for the sub-agent: at most {MAX_FILES}, {MAX_BYTES >> 20} MB in all."
    )
    attach_as: AttachAsParams = Field(default_factory=AttachAsParams, description="How the files should be seen.")

    @model_validator(mode="before")
    @classmethod
    def _without_older_names(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in arguments.items() if name != "timeoutSeconds"}  # has no effect (W1)

    @field_validator("task")
    @classmethod
    def _some_task(cls, task: str) -> str:
        if not task.strip():
            raise ValueError("say what the sub-agent is to do")
        return task

    @field_validator("runtime", mode="before")
    @classmethod
    def _runs_here(cls, runtime: object) -> object:
        if runtime == "acp":
            raise ValueError("nothing here runs harnesses over the Agent Client Protocol yet; use subagent")
        return runtime

    @field_validator("thread")
    @classmethod
    def _no_threads(cls, thread: bool) -> bool:  # noqa: FBT001 - a validator
        if thread:
            raise ValueError(
                "no channel here has threads yet; leave it out, and use sessions_send to write to the child"
            )
        return thread

    @field_validator("mode", mode="before")
    @classmethod
    def _no_bound_sessions(cls, mode: object) -> object:
        if mode == "session":
            raise ValueError(
                "that needs a thread, and no channel here has threads yet; use run, and sessions_send later"
            )
        return mode


async def run(gateway: Gateway, caller: Caller, params: SessionsSpawnParams) -> dict[str, Any]:
    """Return `{status: "accepted", runId, childSessionKey, attachments?}`, or what refuses it."""
    requester = _requester(gateway, caller)
    agent_id = (params.agent_id or await agent_acting(gateway, caller)).lower()
    limit = None if params.run_timeout_seconds is None else math.ceil(params.run_timeout_seconds * 1000)
    spec = SpawnSpec(
        requester,
        agent_id,
        params.label,
        params.model,
        params.thinking,
        sandboxed=params.sandbox == "require",
        cleanup=params.cleanup == "delete",
        attachments=tuple(
            Attachment(encodable(file.name), file.content, file.encoding, file.mime_type) for file in params.attachments
        ),
        mount_path=params.attach_as.mount_path,
    )
    try:
        ticket = await gateway.start_run(RunRequest("", params.task, spawn=spec, timeout_ms=limit), caller)
    except Forbidden as error:
        raise Refusal(error.message, error.decided_by) from None
    result: dict[str, Any] = {"status": "accepted", "runId": ticket.run_id, "childSessionKey": ticket.key}
    return result | ({"attachments": ticket.attachments.as_json()} if ticket.attachments is not None else {})


def _requester(gateway: Gateway, caller: Caller) -> str:
    """Return who spawns: the calling session, the one the operator acts for, or the operator's main session."""
    if not isinstance(caller, Operator):
        return caller.key
    return caller.acting_for or gateway.rules.main_key
