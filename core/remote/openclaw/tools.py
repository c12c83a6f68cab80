"""Session tools that an OpenClaw gateway runs itself, where its owner opened them to calls over the wire."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, cast

from core.gateway import Gateway, NativeTool
from core.model import json_codec
from core.model.access import Caller, Operator
from core.model.errors import Forbidden, Invalid, SwitchboardError, Unavailable
from core.model.json_codec import mapping
from core.remote.openclaw.cache import GatewayCache
from core.remote.openclaw.rows import text
from core.remote.profile import Profile, check_open
from core.remote.refusal import RequestNotTaken
from core.remote.websocket import tls_context

NATIVE: Final = frozenset({"sessions_send", "sessions_spawn"})
"""Only what needs the gateway: what follows a send or a spawn; everything else is the same over the port."""
_DEFAULT_SECONDS: Final = 30.0
_SPARE_SECONDS: Final = 30.0


class ToolDenied(Forbidden):
    """The gateway does not run this tool for calls over the wire."""


def how_to_open(tool: str) -> str:
    """Return the sentence that says what opens a tool to calls over the wire."""
    return (
        f"{tool} is denied over the wire on this gateway: its owner can open it by setting gateway.tools.allow to"
        f' include "{tool}"'
    )


class Tools:
    """The tools of one gateway; `gateway` runs those that it does not run itself."""

    def __init__(self, gateway: Gateway, known: GatewayCache, profile: Profile) -> None:
        self._gateway = gateway
        self._known = known
        self._profile = profile
        self._denied: set[str] = set()

    def open(self, name: str) -> bool:
        """Whether a tool may be open to calls over the wire, as far as is known."""
        allowed = self._known.allowed
        return name not in self._denied and (allowed is None or name in allowed)

    def native(self, name: str) -> NativeTool | None:
        """Return a tool that the gateway runs itself, None for one that runs here."""
        if name not in NATIVE or not self.open(name):
            return None
        return partial(self._call, name)

    async def _call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        session = caller.acting_for if isinstance(caller, Operator) else caller.key
        if session is None and name == "sessions_send":  # the operator's own message has nothing that follows it
            return await self._here(name, arguments, caller)
        try:
            details = await self._invoke(name, arguments, session or self._gateway.rules.main_key)
        except ToolDenied:
            self._denied.add(name)
            return await self._here(name, arguments, caller)
        return _read_result(details)

    async def _here(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        from core.tools.dispatch import run_here

        return await run_here(self._gateway, caller, name, arguments)

    async def _invoke(self, name: str, arguments: Mapping[str, Any], session: str) -> Mapping[str, Any]:
        seconds = arguments.get("timeoutSeconds", _DEFAULT_SECONDS)
        patience = (float(seconds) if isinstance(seconds, int | float) else _DEFAULT_SECONDS) + _SPARE_SECONDS
        args = dict(arguments)
        params = {"name": name, "args": args, "sessionKey": session}
        try:
            answer = await self._known.features.ask("tools.invoke", params, timeout=patience)
        except RequestNotTaken:
            if self._profile.tls.fingerprint is not None or self._profile.token() is None:
                raise ToolDenied(how_to_open(name), ("gateway.tools.allow",)) from None  # HTTP needs both
            answer = await _invoke_over_http(self._profile, name, args, session, patience)
        if answer.get("ok") is not True:
            raise _refused(name, mapping(answer.get("error")))
        result = mapping(answer.get("output") or answer.get("result"))
        return mapping(result.get("details"))


def _refused(name: str, error: Mapping[str, Any]) -> SwitchboardError:
    sentence = text(error, "message") or f"{name} was refused"
    if sentence.startswith("Tool not available"):
        return ToolDenied(how_to_open(name), ("gateway.tools.allow",))
    return Unavailable(f"{name}: {sentence}")


def _read_result(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return their result as ours: the three states stay apart, and what follows cannot be seen from here."""
    result = {key: value for key, value in details.items() if key not in {"delivery", "sessionKey"}}
    delivery = details.get("delivery")
    if isinstance(delivery, Mapping):
        state = cast("Mapping[str, Any]", delivery).get("status")
        result["delivery"] = {"state": state if isinstance(state, str) else "unknown"}
    if "reply" in result or result.get("status") in {"ok", "accepted", "timeout"}:
        result["exchange"] = {"state": "unavailable"}
    return result


async def _invoke_over_http(
    profile: Profile, name: str, arguments: Mapping[str, Any], session: str, seconds: float
) -> Mapping[str, Any]:
    """Return the answer of `POST /tools/invoke`, also when it refuses; for gateways without `tools.invoke`.

    Args:
        seconds: How long the answer may take.

    Raises `Unavailable` when there is no answer, or none that can be read.
    """
    import httpx

    check_open(profile)
    origin = profile.origin
    url = f"{'https' if origin.secure else 'http'}{str(origin).removeprefix(origin.scheme)}/tools/invoke"
    token = profile.token()
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    body = {"tool": name, "args": dict(arguments), "sessionKey": session}
    verify = await asyncio.to_thread(tls_context, profile.tls)
    try:
        async with httpx.AsyncClient(
            verify=verify,
            follow_redirects=False,
            timeout=httpx.Timeout(seconds, connect=10.0),
            trust_env=not origin.loopback,
        ) as client:
            answer = await client.post(url, content=json_codec.encode(body), headers=headers)
        return mapping(json_codec.heal(answer.content))
    except (httpx.HTTPError, Invalid, ImportError) as error:  # a SOCKS proxy needs a library of its own
        why = "its answer is not JSON" if isinstance(error, Invalid) else type(error).__name__
        raise Unavailable(f"{profile.name or origin} did not take the call of {name}: {why}") from None
