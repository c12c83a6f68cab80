"""Calls of tools over HTTP, for gateways that do not take them over the WebSocket."""

import asyncio
from collections.abc import Mapping
from typing import Any

from core.model.errors import Unavailable
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
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    body = {"tool": name, "args": dict(arguments), "sessionKey": session}
    verify = await asyncio.to_thread(tls_context, profile.tls)
    try:
        async with httpx.AsyncClient(
            verify=verify, follow_redirects=False, timeout=httpx.Timeout(seconds, connect=10.0), trust_env=origin.secure
        ) as client:
            answer = await client.post(url, json=body, headers=headers)
        return mapping(answer.json())
    except (httpx.HTTPError, ValueError) as error:
        why = type(error).__name__ if isinstance(error, httpx.HTTPError) else "its answer is not JSON"
        raise Unavailable(f"{profile.name or origin} did not take the call of {name}: {why}") from None
