"""`POST /tools/invoke`: one tool for one client (G7, protocol#http)."""

import asyncio
from typing import Any, Final, cast

from starlette.requests import ClientDisconnect, Request

from core.model import json_codec
from core.model.errors import Invalid, Unavailable
from core.model.json_codec import encode
from core.model.keys import quoted
from core.server.auth import READ
from core.server.context import ServerContext
from core.server.http.answers import Json, problem
from core.server.http.visitor import admit, guest_of
from core.server.run_tool import run_tool

BODY_SECONDS: Final = 30.0
"""How long a client may take to send what it asks."""
_FIELDS: Final = ("tool", "name", "args", "sessionKey", "idempotencyKey", "action", "dryRun")
"""Of the body; the last two have no effect, as on other gateways."""
MAX_KEY: Final = 200
"""Characters of an idempotency key."""


class TooLarge(Invalid):
    """The request is larger than the gateway takes."""


async def invoke(context: ServerContext, request: Request) -> Json:
    """Answer the route.

    Raises:
        SwitchboardError: The body or the arguments are wrong, there is no such tool, or the sender may not use it.
    """
    access = await admit(context, request, READ)
    try:
        body = _fields(await _body(request, context.limits.body))
    except TooLarge as error:
        return problem(request.url.path, 413, "invalid_request", error.message)
    finally:
        guest_of(request).hold(0)
    name, args = body.get("tool", body.get("name")), body.get("args", {})
    session_key = body.get("sessionKey")
    if not isinstance(name, str) or not name:
        raise Invalid("tools.invoke needs tool, the name of one")
    if not isinstance(args, dict):
        raise Invalid("tools.invoke: args must be an object")
    if session_key is not None and not isinstance(session_key, str):
        raise Invalid("tools.invoke: sessionKey must be text")
    once = _once(body.get("idempotencyKey"), request.headers.get("idempotency-key"))
    result = await run_tool(context, access, name, cast("dict[str, Any]", args), session_key, once=once)
    text = encode(result)
    return Json(f'{{"ok":true,"result":{{"content":[{{"type":"text","text":{encode(text)}}}],"details":{text}}}}}')


def _once(in_body: object, in_header: str | None) -> str | None:
    """Return the idempotency key of a request, from either place."""
    if in_body is not None and in_header is not None and in_body != in_header:
        raise Invalid("tools.invoke: idempotencyKey and the header Idempotency-Key differ: give one of them")
    key = in_body if in_body is not None else in_header
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= MAX_KEY):
        raise Invalid(f"tools.invoke: idempotencyKey must be text of 1 to {MAX_KEY} characters")
    return key


async def _body(request: Request, limit: int) -> bytes:
    """Read the body; raises `TooLarge` when it holds more than `limit` bytes."""
    if int(request.headers.get("content-length", "0")) > limit:
        raise TooLarge(f"the request is larger than {limit} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                guest_of(request).hold(len(body))
                if len(body) > limit:
                    raise TooLarge(f"the request is larger than {limit} bytes")
    except TimeoutError:
        raise Invalid(f"the request did not come within {BODY_SECONDS:g} seconds") from None
    except ClientDisconnect:
        raise Unavailable("the client went away") from None
    return bytes(body)


def _fields(body: bytes) -> dict[str, Any]:
    try:
        data = json_codec.decode(body)
    except Invalid as error:
        raise Invalid(f"the body of the request: {error.message}") from None
    if not isinstance(data, dict):
        raise Invalid("the body must be a JSON object: {tool, args, sessionKey}")
    fields = cast("dict[str, Any]", data)
    if unknown := sorted(fields.keys() - _FIELDS):
        raise Invalid(f"tools.invoke has no parameter {quoted(unknown[0])}: use {', '.join(_FIELDS)}")
    return {name: value for name, value in fields.items() if value is not None}
