"""The requests of one client: each is a task of its own, so answers come in any order (protocol#frames)."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from core.model.errors import Forbidden, Invalid, SwitchboardError, Unavailable
from core.model.keys import quoted
from core.server.auth import SCOPES
from core.server.conversation.client import Client
from core.server.method import Later, Method
from core.server.methods import METHODS
from core.server.params import explain, unknown
from core.tasks import Tasks
from core.wire.errors import missing_scope, to_wire
from core.wire.frames import BadFrame, Request, parse, refused, response

MAX_REQUESTS: Final = 128
"""Of one client, at work at once; the next one is refused."""
MAX_IGNORED: Final = 500
"""Parameters without a meaning that the log tells of."""
MAX_LONG: Final = 2
"""Long answers that are made for one client before it has taken those that came before."""
UNKNOWN_ID: Final = "invalid"
"""Stands in the answer to a frame that has no id."""
_log = logging.getLogger("switchboard.server")


class Requests:
    """What one client asks, answered in tasks of its conversation."""

    def __init__(self, client: Client, tasks: Tasks) -> None:
        self._client = client
        self._context = client.context
        self._out = client.out
        self._tasks = tasks
        self._at_work = 0
        self._long = asyncio.Semaphore(MAX_LONG)

    async def take(self, text: str) -> None:
        """Take a frame, and begin to answer it when it is a request."""
        try:
            frame = parse(text)
        except BadFrame as error:
            await self._out.frame(refused(error.frame_id or UNKNOWN_ID, to_wire(error)))
            return
        if not isinstance(frame, Request):
            return
        if self._at_work >= MAX_REQUESTS:
            busy = Unavailable(f"{MAX_REQUESTS} requests of this connection are at work: wait for their answers")
            await self._out.frame(refused(frame.id, to_wire(busy)))
            return
        self._at_work += 1
        self._tasks.spawn(self._answer(frame))

    async def _answer(self, frame: Request) -> None:
        method = METHODS.get(frame.method)
        try:
            if method is not None and method.heavy:
                async with self._long:
                    async with self._context.making:
                        text = await self._outcome(frame, method)
                    await self._out.frame(text)
            else:
                await self._out.frame(await self._outcome(frame, method))
        finally:
            self._at_work -= 1
            self._client.unanswered.discard()

    async def _outcome(self, frame: Request, method: Method | None) -> str:
        """Return the answer to a request, whatever happens in it."""
        self._context.metrics.add("requests", label=_known(frame))
        if method is None:
            return self._refusal(frame, to_wire(Invalid(f"unknown method: {frame.method[:80]}")))
        if method.scope is not None and method.scope not in self._client.access.scopes:
            return self._refusal(frame, missing_scope(method.scope))
        self._tell_of_unknown(method, frame)
        try:
            result = await method.run(self._client, method.params.model_validate(dict(frame.params)))
            if isinstance(result, Later):
                await self._out.frame(response(frame.id, result.payload))
                self._client.unanswered.discard()
                result = await result.second()
            return response(frame.id, result)
        except ValidationError as error:
            return self._refusal(frame, to_wire(explain(frame.method, error)))
        except SwitchboardError as error:
            return self._refusal(frame, _error(error))
        except Exception:  # noqa: BLE001 - whatever it was, the client gets one sentence and the log the rest
            _log.exception("the method %s failed", frame.method)
            self._context.metrics.add("errors")
            return refused(frame.id, to_wire(Unavailable("the gateway failed inside: its log says more")))

    def _tell_of_unknown(self, method: Method, frame: Request) -> None:
        """Count parameters that mean nothing here, and log each of them once."""
        for name in unknown(method.params, frame.params):
            self._context.metrics.add("parameters_ignored", label=method.name)
            told = (method.name, quoted(name))
            if told not in self._context.ignored and len(self._context.ignored) < MAX_IGNORED:
                self._context.ignored.add(told)
                _log.warning("the parameter %s of %s means nothing here: it is ignored", told[1], told[0])

    def _refusal(self, frame: Request, error: Mapping[str, Any]) -> str:
        _log.debug("%s was refused: %s", quoted(frame.method), error.get("message"))
        self._context.metrics.add("requests_refused", label=_known(frame))
        return refused(frame.id, error)


def _known(frame: Request) -> str:
    """Return the method for counting; clients must not make up labels."""
    return frame.method if frame.method in METHODS else "unknown"


def _error(error: SwitchboardError) -> dict[str, Any]:
    controls = error.decided_by if isinstance(error, Forbidden) else ()
    return missing_scope(controls[0]) if controls and controls[0] in SCOPES else to_wire(error)
