"""The application: its routes, and what stands before all of them (architecture#server, architecture#threats)."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from core.model.errors import Invalid, SwitchboardError, Unavailable
from core.model.json_codec import encode
from core.server.auth import READ
from core.server.context import ServerContext
from core.server.http.answers import TOOLS_PATH, Json, problem, refusal
from core.server.http.follow import Encoder
from core.server.http.history import history
from core.server.http.invoke import invoke
from core.server.http.visitor import admit, guest_of
from core.server.status import unready

PROBES: Final = frozenset({"/health", "/healthz", "/ready", "/readyz"})
_log = logging.getLogger("switchboard.server")


def create_app(context: ServerContext) -> Starlette:
    """Return the application of a gateway."""

    async def socket(websocket: WebSocket) -> None:
        from core.server.http.socket import serve_socket  # the methods and their parameters are not needed to listen

        await serve_socket(websocket, context)

    def get(path: str, endpoint: Callable[..., Awaitable[ASGIApp]]) -> Route:
        return Route(path, endpoint, methods=["GET"])

    return Starlette(
        routes=[
            get("/sessions/{key:path}/history", partial(history, context, Encoder())),
            Route(TOOLS_PATH, partial(invoke, context), methods=["POST"]),
            *(get(path, partial(_health, context)) for path in ("/health", "/healthz")),
            *(get(path, partial(_ready, context)) for path in ("/ready", "/readyz")),
            get("/metrics", partial(_metrics, context)),
            *(WebSocketRoute(path, socket) for path in ("/", "/ws")),
        ],
        middleware=[Middleware(RequestGuard, context)],
        exception_handlers={HTTPException: _not_routed},
    )


class _TwoEnds(Invalid):
    """A request whose end two headers put in different places."""


class RequestGuard:
    """Stands before every route: the names the gateway is reached by, errors as JSON, and the count of answers."""

    def __init__(self, app: ASGIApp, context: ServerContext) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        started = False
        guest = guest_of(HTTPConnection(scope))

        async def counted(message: Message) -> None:
            nonlocal started
            if guest.gone and message["type"].startswith("http."):
                return  # asyncio warns of each write that nobody gets
            if message["type"] == "http.response.start":
                started = True
                self._context.metrics.add("http_requests", label=str(message["status"]))
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, counted)
        except SwitchboardError as error:
            answer = refusal(scope["path"], error)
            if isinstance(error, _TwoEnds):
                answer.headers["connection"] = "close"  # what follows may be the body of what was refused
        except Exception:  # noqa: BLE001 - whatever it was, the client gets one sentence and the log the rest
            _log.exception("a request for %s failed", scope["path"].partition("/history")[0][:80])
            self._context.metrics.add("errors")
            answer = problem(scope["path"], 500, "error", "the gateway failed: its log says more")
        else:
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
        elif not started:
            await answer(scope, receive, counted)

    def _check(self, scope: Scope) -> None:
        headers, server = Headers(scope=scope), scope.get("server")
        if "content-length" in headers and "transfer-encoding" in headers:
            raise _TwoEnds("a request has Content-Length or Transfer-Encoding, not both: its end is in doubt")
        self._context.sites.check(headers.get("host"), headers.get("origin"), server[0] if server else None)
        if self._context.closing.is_set() and scope["path"] not in PROBES:
            raise Unavailable("the gateway is closing: try again when it is back")


async def _health(context: ServerContext, request: Request) -> Json:  # noqa: ARG001 - the shape of all routes
    return Json('{"ok":true,"status":"live"}')


async def _ready(context: ServerContext, request: Request) -> Json:
    """Say whether work is accepted now; why not is for those who have a token."""
    reason = unready(context)
    uptime = context.gateway.now_ms() - context.facts.started_at
    if reason is None:
        return Json(encode({"ready": True, "failing": [], "uptimeMs": uptime}))
    try:
        await admit(context, request, READ)
    except SwitchboardError:
        reason = "unready"
    body = {"ready": False, "failing": [reason], "uptimeMs": uptime}
    return Json(encode(body), 503, {"retry-after": "1"})


async def _metrics(context: ServerContext, request: Request) -> Response:
    await admit(context, request, READ)
    uptime = (context.gateway.now_ms() - context.facts.started_at) / 1000
    own = (
        "# HELP switchboard_info The program that runs.",
        "# TYPE switchboard_info gauge",
        f"switchboard_info{{version={encode(context.facts.version)}}} 1",
        "# HELP switchboard_uptime_seconds Since the server began.",
        "# TYPE switchboard_uptime_seconds gauge",
        f"switchboard_uptime_seconds {uptime:.3f}",
    )
    text = "\n".join((*own, *context.metrics.lines())) + "\n"
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "it is registered for these"
    path, headers = request.url.path, dict(error.headers or {})
    if error.status_code == 405:
        allowed = headers.get("Allow", headers.get("allow", ""))
        return problem(path, 405, "invalid_request", f"this path takes {allowed or 'another method'} only", headers)
    if error.status_code == 404:
        return problem(path, 404, "not_found", "there is nothing at this path", headers)
    return problem(path, error.status_code, "invalid_request", error.detail, headers)
