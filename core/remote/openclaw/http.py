"""Calls of tools over HTTP, for gateways that do not take them over the WebSocket."""

import asyncio
from collections.abc import Mapping
from typing import Any

from core.model import json_codec
from core.model.errors import Invalid, Unavailable
from core.remote.hello import mapping
from core.remote.profile import Profile, check_open
from core.remote.websocket import tls_context


async def invoke_over_http(
    profile: Profile, name: str, arguments: Mapping[str, Any], session: str, seconds: float
) -> Mapping[str, Any]:
    """Return the answer of `POST /tools/invoke`, also when it refuses.

    Args:
        seconds: How long the answer may take.

    Raises:
        Unavailable: There is no answer, or none that can be read.
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
