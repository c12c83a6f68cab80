"""What OpenClaw's gateways of several versions refuse, in their own words, as it was seen on the wire of each."""

from typing import Any, Final

BOOL: Final = "must be boolean"
PROTOCOL_3: Final = "2026.4.14"
EARLIEST: Final = "2026.3.13"
VERSIONS: Final = (EARLIEST, PROTOCOL_3, "2026.5.28", "2026.7.35", "2026.9.6")
NEWEST: Final = VERSIONS[-1]

_LIST: Final = {"includeGlobal", "includeUnknown", "limit", "includeLastMessage"}
_HISTORY: Final = {"sessionKey", "limit", "maxChars"}
_PATCH: Final = {"key", "label", "model", "thinkingLevel", "verboseLevel", "sendPolicy"}
_SEND: Final = {"sessionKey", "message", "idempotencyKey", "timeoutMs"}
_CLOSED: Final[dict[str, dict[str, set[str]]]] = {
    EARLIEST: {"sessions.list": _LIST, "chat.history": _HISTORY, "sessions.patch": _PATCH, "chat.send": _SEND},
    "2026.5.28": {"sessions.list": _LIST | {"offset"}, "chat.send": _SEND | {"sessionId"}},
    "2026.7.35": {
        "sessions.list": _LIST | {"offset", "archived"},
        "chat.history": _HISTORY | {"offset"},
        "sessions.patch": _PATCH | {"archived"},
    },
    "2026.9.6": {
        "sessions.patch": _PATCH | {"archived", "expectedSessionId"},
        "sessions.search": {"query", "limit", "agentId", "sessionKeys", "scope"},
        "models.list": {"agentId"},
    },
}
"""Properties that each version takes; what it does not name is as in the version before it."""
_SINCE: Final = {
    "sessions.subscribe": PROTOCOL_3,
    "sessions.describe": "2026.5.28",
    "tools.invoke": "2026.5.28",
    "sessions.search": "2026.9.6",
}


def methods(version: str) -> list[str]:
    """Return the methods that a gateway of a version names; it has more."""
    known = [name for name, since in _SINCE.items() if VERSIONS.index(version) >= VERSIONS.index(since)]
    return ["sessions.list", "agents.list", "models.list", *known]


def refusal(version: str, method: str, params: dict[str, Any], *, selection: bool = False) -> str | None:
    """Return the sentence with which a gateway of a version refuses a request, None when it takes it.

    Args:
        selection: It has several agents and no default one.
    """
    since = _SINCE.get(method)
    if since is not None and VERSIONS.index(version) < VERSIONS.index(since):
        return f"unknown method: {method}"
    wrong = [f"at root: unexpected property '{name}'" for name in params if name not in _taken(version, method, params)]
    if method == "sessions.list" and version == "2026.7.35" and not isinstance(params.get("archived", True), bool):
        wrong.append(f"at /archived: {BOOL}")
    if wrong:
        return f"invalid {method} params: {'; '.join(wrong)}"
    if method == "sessions.patch" and version == NEWEST and "archived" in params and "expectedSessionId" not in params:
        return f"expectedSessionId required for session lifecycle patch: {params['key']}"
    if method == "sessions.search":
        return _unowned(params, selection=selection)
    if method == "models.list" and selection and "agentId" not in params:
        return "Multiple agents are configured, but this Gateway request has no explicit owner."
    return None


def _taken(version: str, method: str, params: dict[str, Any]) -> set[str]:
    taken = set(params)
    for each in VERSIONS[: VERSIONS.index(version) + 1]:
        taken = _CLOSED.get(each, {}).get(method, taken)
    return taken


def _unowned(params: dict[str, Any], *, selection: bool) -> str | None:
    if "scope" in params:
        return None
    if "sessionKeys" not in params:
        if "agentId" in params:
            return "agentId requires sessionKeys"
        return 'Multiple agents are configured, but session key "main" has no explicit owner.' if selection else None
    owners = {key.split(":")[1] for key in params["sessionKeys"]}
    return "sessions.search supports one agent per call" if len(owners) > 1 else None
