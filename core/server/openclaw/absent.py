"""What clients of OpenClaw ask for at every start and is not done here: each answer says that there is none.

A method stands here only where "none" is the truth; what would pretend to do something is an unknown method.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from pydantic import ConfigDict

from core.server.auth import READ
from core.server.conversation.client import Client
from core.server.method import Method
from core.server.params import MethodParams

_CHANNELS: Final[Mapping[str, Any]] = {
    "channelOrder": [],
    "channelLabels": {},
    "channelDetailLabels": {},
    "channelSystemImages": {},
    "channelMeta": [],
    "channels": {},
    "channelAccounts": {},
    "channelDefaultAccountId": {},
    "statusIssues": [],
}
_TALK: Final[Mapping[str, Any]] = {
    "modes": [],
    "transports": [],
    "brains": [],
    "speech": {"providers": []},
    "transcription": {"ready": False, "providers": []},
    "realtime": {"ready": False, "providers": []},
}
_PAGE: Final[Mapping[str, Any]] = {
    "snapshotRevision": "none",
    "total": 0,
    "offset": 0,
    "limit": 1,
    "hasMore": False,
    "nextOffset": None,
}


class Anything(MethodParams):
    """Parameters of what there is none of: whichever are given, the answer is the same."""

    model_config = ConfigDict(extra="allow")


def _nothing(answer: Mapping[str, Any] | list[Any], clock: str | None = None) -> Callable[..., Awaitable[object]]:
    """Return what answers that there is nothing; a field `clock`, if there is one, holds the time."""

    async def run(client: Client, params: Anything) -> object:  # noqa: ARG001 - one shape
        return answer if clock is None else {clock: client.gateway.now_ms(), **dict(answer)}

    return run


ABSENT: Final = tuple(
    Method(name, READ, Anything, run)
    for name, run in {
        "channels.status": _nothing(_CHANNELS, "ts"),
        "cron.list": _nothing({"jobs": [], "deliveryPreviews": {}, **_PAGE}),
        "cron.status": _nothing({"enabled": False, "jobs": 0, "nextWakeAtMs": None}),
        "exec.approval.list": _nothing([]),
        "models.authStatus": _nothing({"providers": []}, "ts"),
        "openclaw.approval.list": _nothing([]),
        "plugin.approval.list": _nothing([]),
        "progressCard.get": _nothing({"card": None}),
        "question.list": _nothing({"questions": []}),
        "sessions.branches.list": _nothing({"branches": []}),
        "sessions.companion.state": _nothing({"exchanges": []}),
        "skills.status": _nothing({"skills": []}),
        "talk.catalog": _nothing(_TALK),
        "taskSuggestions.list": _nothing({"suggestions": []}),
        "tasks.list": _nothing({"tasks": []}),
        "update.status": _nothing({"sentinel": None, "updateAvailable": None}),
        "usage.status": _nothing({"providers": []}, "updatedAt"),
    }.items()
)
