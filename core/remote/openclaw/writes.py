"""What is changed at an OpenClaw gateway, and what is not possible there."""

from collections.abc import Mapping
from typing import Any, Final

from core.gateway import Action
from core.model.access import ALL, Caller, Operator
from core.model.commands import Command, parse_command
from core.model.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from core.model.exchanges import Delivery
from core.model.ids import new_id
from core.model.json_codec import mapping
from core.model.keys import parse, quoted
from core.model.messages import Draft, Message, text_of
from core.model.runs import RunRequest, RunTicket
from core.model.sessions import NewSession, Override, Session, SessionPatch
from core.remote.hello import strings
from core.remote.openclaw.cache import LIST
from core.remote.openclaw.reads import OpenClawReads
from core.remote.openclaw.rows import text
from core.remote.openclaw.tools import Tools, how_to_open
from core.wire.errors import SEND_BLOCKED
from core.wire.scopes import ACTION_SCOPES, WRITE

SEND_SECONDS: Final = 60.0
POLICY_WORDS: Final[dict[str, str | None]] = {"on": "allow", "off": "deny", "inherit": None}
THEIRS: Final = frozenset({"status"})
"""Commands that the gateway carries out itself when they are sent as a message."""


class OpenClawWrites(OpenClawReads):
    """The writes of an `OpenClawGateway`, and what is not possible there; see `core.gateway.Gateway`."""

    _tools: Tools

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        """Have a message accepted; it is the gateway's from then on."""
        self._check("spawn" if request.spawn is not None else "send")
        if request.spawn is not None:
            raise Unavailable(how_to_open("sessions_spawn"))
        session = self._target(request)
        run_id = request.run_id or new_id()
        key = session.key if session is not None else request.target
        command = parse_command(request.message) if request.provenance is None else None
        if command is not None and command.name not in THEIRS and session is not None:
            answer = await self._carry_out(session.key, command, caller)
            return RunTicket(run_id, session.key, session.session_id, "done", reply=answer)
        answer = await self._hand_over(request, session, key, run_id)
        run_id = text(answer, "runId") or run_id
        session_id = session.session_id if session is not None else ""
        if answer.get("status") == "error":
            raise Unavailable(text(answer, "summary") or "the gateway did not start the run")
        run = self._known.live.begin(run_id, key, session_id)
        self._known.follower.hint(key)
        return RunTicket(run_id, key, session_id, run.state, created=session is None)

    async def abort(self, ref: str, caller: Caller, *, run_id: str | None = None) -> list[str]:  # noqa: ARG002
        """Stop what runs in a session; without a run id the sub-agents that it spawned too."""
        self._check("abort")
        session = self._known.find(ref, ALL)
        params: dict[str, Any] = {"sessionKey": session.key} | ({"runId": run_id} if run_id else {})
        answer = await self._known.features.ask("chat.abort", params, again=True)
        stopped = strings(answer.get("runIds"))
        keys = (
            []
            if run_id is not None
            else [row.key for row in self._known.index.below(session.key) if row.status == "running"]
        )
        if not stopped and session.status == "running":
            keys.insert(0, session.key)
        for key in keys:
            params = {"key": key} | ({"runId": run_id} if run_id and key == session.key else {})
            answer = await self._known.features.ask("sessions.abort", params, again=True)
            if (name := text(answer, "abortedRunId")) is not None:
                stopped.append(name)
        return stopped

    async def patch(self, ref: str, patch: SessionPatch, caller: Caller) -> Session:
        fields = dict(patch.fields)
        unknown = fields.keys() - {"label", "model", "thinkingLevel", "verboseLevel", "sendPolicy"}
        if unknown:
            raise Invalid(f"a session has no field {quoted(min(unknown))} that can be changed")
        self._check("policy" if "sendPolicy" in fields else "patch")
        if "sendPolicy" in fields and not (isinstance(caller, Operator) and caller.owner):
            raise Forbidden("only the owner may change the send policy of a session", ("owner",))
        session = self._known.find(ref, ALL)
        params: dict[str, Any] = {"key": session.key, **fields}
        await self._known.features.ask("sessions.patch", params, again=True)
        model = fields.get("model", session.model)
        changed = session._replace(
            label=fields.get("label", session.label) or None,
            model=model,
            used_model=model or session.used_model,
            thinking_level=fields.get("thinkingLevel", session.thinking_level),
            verbose_level=fields.get("verboseLevel", session.verbose_level),
            send_policy=_policy(fields["sendPolicy"]) if "sendPolicy" in fields else session.send_policy,
        )
        return self._known.index.put(changed)

    async def reset(self, ref: str, caller: Caller) -> Session:  # noqa: ARG002
        self._check("reset")
        session = self._known.find(ref, ALL)
        if session.status == "running":
            raise Conflict("a run of this session is not over: abort it first")
        await self._known.follower.sync(session.key)  # what it held last is needed to know the new one from it
        await self._known.features.ask("sessions.reset", {"key": session.key})
        await self._known.follower.sync(session.key)
        return self._known.index.rows.get(session.key, session)

    async def archive(self, ref: str, caller: Caller, *, archived: bool) -> Session:  # noqa: ARG002
        self._check("archive")
        session = self._known.find(ref, ALL)

        def params() -> dict[str, Any]:
            seen = self._known.features.pick("sessions.patch", expectedSessionId=session.session_id.partition("~")[0])
            return {"key": session.key, "archived": archived} | seen

        await self._known.features.ask("sessions.patch", params, again=True)
        return self._known.index.put(session._replace(archived_at=self._known.link.now_ms() if archived else None))

    async def create(self, new: NewSession, caller: Caller) -> Session:
        self._check("create")
        if not isinstance(caller, Operator):
            raise Forbidden("only the operator creates sessions", ("operator",))
        if new.origin is not None:
            raise Invalid("this gateway keeps no origin with a session: name it by its key, as cron:<id> or hook:<id>")
        if new.key is not None and (known := self._known.index.rows.get(new.key)) is not None:
            return known
        agent_id = new.agent_id or (parse(new.key).agent_id if new.key else None)
        if agent_id is not None and agent_id not in {agent.agent_id for agent in self._known.agents}:
            raise NotFound(f"there is no agent {quoted(agent_id)} on this gateway")
        given = {"key": new.key, "agentId": new.agent_id, "label": new.label, "model": new.model}
        given["parentSessionKey"] = new.parent
        params = {name: value for name, value in given.items() if value is not None}
        answer = await self._known.features.ask("sessions.create", params)
        key = text(answer, "key") or new.key or ""
        entry = {**mapping(answer.get("entry")), "key": key, "sessionId": text(answer, "sessionId")}
        session = self._known.index.rows.get(key) or self._known.index.take(entry)
        if session is None:
            raise Unavailable("the gateway made a session and did not say which")
        return session

    async def delete(self, ref: str, caller: Caller) -> None:  # noqa: ARG002
        session = self._known.find(ref, ALL)
        self._check("delete", session.key)
        await self._known.features.ask("sessions.delete", {"key": session.key}, again=True)
        self._known.follower.forget(session.key)
        self._known.index.remove(session.key)

    async def append(self, ref: str, draft: Draft, caller: Caller) -> Message:  # noqa: ARG002
        """Append a message without a run; these gateways take what an agent might have said, and nothing else."""
        self._check("append")
        if draft.role != "assistant":
            raise Unavailable("this gateway appends messages as its agent's only: send it instead")
        session = self._known.find(ref, ALL)
        params = {"sessionKey": session.key, "message": text_of(draft.content)}
        answer = await self._known.features.ask("chat.inject", params)
        cached = await self._known.follower.sync(session.key)
        for message in reversed(await self._known.follower.read(cached, cached.last_seq - 10, cached.last_seq)):
            if message.id == text(answer, "messageId") or message.text == params["message"]:
                return message
        raise Unavailable("the message was appended, and cannot be read back")

    async def retry_delivery(self, delivery_id: str, caller: Caller) -> Delivery:  # noqa: ARG002
        """Refuse: these gateways keep their deliveries to themselves."""
        raise Unavailable(self.refusal("deliver") or "this gateway keeps its deliveries to itself")

    async def drop_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Refuse, as `retry_delivery` does."""
        return await self.retry_delivery(delivery_id, caller)

    def refusal(self, action: Action, key: str | None = None) -> str | None:
        if (unready := self.unready()) is not None:
            return unready
        needed = self._needed(action)
        if not self._known.may(needed):
            return f"this connection may not do that: the gateway did not grant it {needed}"
        if action == "spawn" and not self._tools.open("sessions_spawn"):
            return how_to_open("sessions_spawn")
        if action == "exchange" and not self._tools.open("sessions_send"):
            return f"only the first run of such a send happens here: {how_to_open('sessions_send')}"
        if action == "archive" and not self._archives():
            return "this gateway cannot archive sessions: reset or delete them instead"
        if action == "deliver":
            return "this gateway keeps its deliveries to itself: they cannot be listed or tried again from here"
        if action == "delete" and key is not None and parse(key).kind == "main":
            return "the main session of an agent cannot be deleted: reset it instead"
        return None

    def _check(self, action: Action, key: str | None = None) -> None:
        """Let an action pass, as far as is known.

        Raises:
            Forbidden: The connection was not granted what it needs.
            Unavailable: It is not possible here.
        """
        reason = self.refusal(action, key)
        if reason is None:
            return
        if self._known.link.live and not self._known.may(self._needed(action)):
            raise Forbidden(reason, (self._needed(action),))
        raise Unavailable(reason)

    def _needed(self, action: Action) -> str:
        """Return the scope that an action needs; some gateways want more for a change than others."""
        if action == "archive":
            return WRITE
        return (self._known.features.needs("sessions.patch") if action == "patch" else None) or ACTION_SCOPES[action]

    def _archives(self) -> bool:
        """Whether sessions can be archived, and be found again."""
        return self._known.features.takes("sessions.patch", "archived") and self._known.features.takes(LIST, "archived")

    async def _carry_out(self, key: str, command: Command, caller: Caller) -> str:
        """Carry out a command of ours, since theirs are said in other ways or not at all; return what to answer."""
        argument = command.argument or None
        match command.name:
            case "send":
                patch = SessionPatch({"sendPolicy": POLICY_WORDS[argument or ""]})
                return f"send policy: {(await self.patch(key, patch, caller)).send_policy or 'inherit'}"
            case "model" | "label":
                await self.patch(key, SessionPatch({command.name: argument}), caller)
                return f"{command.name}: {argument or 'removed'}"
            case "abort":
                return f"{len(await self.abort(key, caller))} stopped"
            case "reset":
                await self.reset(key, caller)
                return "an empty transcript has begun"
            case "archive":
                await self.archive(key, caller, archived=True)
                return "archived"
            case _:
                raise Unavailable(self.refusal("spawn") or f"/{command.name} is not a command of this gateway")

    def _target(self, request: RunRequest) -> Session | None:
        """Return the session that a message is for, None for one that it makes.

        Raises `NotFound` when there is none, and the message may not make one.
        """
        session = self._known.index.by_ref(request.target)
        if session is not None:
            return session
        if not request.create or ":" not in request.target:
            raise NotFound(f"there is no session {quoted(request.target)}")
        key = parse(request.target)
        agent_ids = {agent.agent_id for agent in self._known.agents}
        if not key.structured or (key.agent_id is not None and key.agent_id not in agent_ids):
            raise NotFound(f"there is no session {quoted(request.target)}, and no agent of this gateway to make it for")
        return None

    async def _hand_over(
        self, request: RunRequest, session: Session | None, key: str, run_id: str
    ) -> Mapping[str, Any]:
        """Hand a message over; a refusal by send policy says which control decided, where that is known.

        What comes from another session goes a way of its own: there it keeps its provenance also when it has to wait.
        """
        params: dict[str, Any] = {"sessionKey": key, "message": request.message, "idempotencyKey": run_id}
        decision = self.policy_of(session) if session is not None else None
        if request.provenance is not None:
            if decision is not None and not decision.allowed:  # some gateways do not ask their policy on this way
                raise Forbidden(decision.refusal, decision.decided_by)
            if request.timeout_ms:
                params["timeout"] = -(-request.timeout_ms // 1000)
            params |= {"deliver": False, "inputProvenance": request.provenance.as_json()}
            return await self._known.features.ask("agent", params, timeout=SEND_SECONDS, again=True)
        if request.timeout_ms:
            params["timeoutMs"] = request.timeout_ms
        expected = {}
        if session is not None and request.target != key:
            expected = {"sessionId": session.session_id.partition("~")[0]}
        try:
            return await self._known.features.ask(
                "chat.send",
                lambda: params | self._known.features.pick("chat.send", **expected),
                timeout=SEND_SECONDS,
                again=True,
            )
        except Forbidden as error:
            if decision is None or decision.allowed or not error.message.startswith(SEND_BLOCKED):
                raise
            raise Forbidden(decision.refusal, decision.decided_by) from None


def _policy(value: str | None) -> Override | None:
    return "allow" if value == "allow" else "deny" if value == "deny" else None
