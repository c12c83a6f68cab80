"""The frames of a conversation with a gateway (protocol#frames): one JSON text each, over whatever carries them.

{"type": "req", id, method, params}     a client asks
{"type": "res", id, ok, payload|error}  the gateway answers, in any order
{"type": "event", event, payload, seq?} the gateway tells
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from core.model import json_codec
from core.model.errors import Invalid

PROTOCOLS: Final = (3, 4)
"""The versions of the protocol that we speak, on both sides."""
NATIVE: Final = "port-v1"
"""The capability of a gateway whose methods `port.*` are the port itself (`core.gateway`)."""
MAX_FRAME: Final = 32 * 1024 * 1024
"""Bytes of one frame."""

CLOSE_NORMAL: Final = 1000
CLOSE_REFUSED: Final = 1008
CLOSE_TOO_LARGE: Final = 1009
CLOSE_RESTART: Final = 1012
CLOSE_TRY_LATER: Final = 1013


@dataclass(frozen=True, slots=True)
class RawJson:
    """JSON text that is ready to be sent, and is spliced in as it is."""

    text: str


class BadFrame(Invalid):
    """A frame that is JSON and yet no frame; `frame_id` is the `id` it had, None without one."""

    def __init__(self, message: str, frame_id: str | None) -> None:
        super().__init__(message)
        self.frame_id = frame_id


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks; nothing of the parameters has been checked."""

    id: str
    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to a request.

    Attributes:
        payload: When it is ok.
        error: When it is not; `core.wire.errors.from_wire` reads it.
    """

    id: str
    ok: bool
    payload: Any = None
    error: Any = None


@dataclass(frozen=True, slots=True)
class EventFrame:
    """What a gateway tells unasked.

    Attributes:
        seq: Counts the frames of a connection, None where the gateway does not count this one.
    """

    event: str
    payload: Any
    seq: int | None = None


Frame = Request | Response | EventFrame


def encode(value: object) -> str:
    """Return JSON text that UTF-8 can carry; `RawJson` as it is.

    Raises `Invalid` when it holds a number that JSON has not, or is too deep.
    """
    return value.text if isinstance(value, RawJson) else json_codec.encode(value)


def request(frame_id: str, method: str, params: object) -> str:
    """Return the frame that asks."""
    return f'{{"type":"req","id":{encode(frame_id)},"method":{encode(method)},"params":{encode(params)}}}'


def response(frame_id: str, payload: object) -> str:
    """Return the frame that answers."""
    return f'{{"type":"res","id":{encode(frame_id)},"ok":true,"payload":{encode(payload)}}}'


def refused(frame_id: str | None, error: Mapping[str, Any]) -> str:
    """Return the frame that refuses; the error as `core.wire.errors.to_wire` makes it."""
    return f'{{"type":"res","id":{encode(frame_id)},"ok":false,"error":{encode(error)}}}'


def event(name: str, payload: object, *, seq: int | None = None, state_version: object = None) -> str:
    """Return the frame that tells."""
    more = f',"seq":{seq}' if seq is not None else ""
    if state_version is not None:
        more += f',"stateVersion":{encode(state_version)}'
    return f'{{"type":"event","event":{encode(name)},"payload":{encode(payload)}{more}}}'


def parse(text: str, *, asked: bool = False) -> Frame | None:
    """Read a frame; None for what is not JSON, which is passed over in silence.

    Args:
        asked: It comes from a gateway that we asked: a number in it that JSON has not becomes null, and the answer is
            read.

    Raises `BadFrame` when it is JSON, or nearly JSON with an `id`, and no frame.
    """
    try:
        data = json_codec.heal(text) if asked else json_codec.decode(text)
    except Invalid as error:
        frame_id = _id_in(text)
        if frame_id is None:
            return None
        raise BadFrame(f"invalid request frame: {error.message}", frame_id) from None
    if not isinstance(data, dict):
        raise BadFrame("invalid request frame: must be an object", None)
    fields = cast("dict[str, Any]", data)
    kind, frame_id = fields.get("type"), fields.get("id")
    known_id = frame_id if isinstance(frame_id, str) else None
    if kind == "event":
        return _event(fields)
    if kind == "res":
        if known_id is None:
            raise BadFrame("invalid response frame: must have required property 'id'", None)
        return Response(known_id, fields.get("ok") is True, fields.get("payload"), fields.get("error"))
    if kind != "req":
        raise BadFrame("invalid request frame: type must be req", known_id)
    return _request(fields, known_id)


def _id_in(text: str) -> str | None:
    """Return the `id` of what is nearly a frame, so that whoever sent it hears what is wrong with it."""
    try:
        data = json_codec.heal(text)
    except Invalid:
        return None
    frame_id = cast("dict[str, Any]", data).get("id") if isinstance(data, dict) else None
    return frame_id if isinstance(frame_id, str) else None


def _request(fields: dict[str, Any], frame_id: str | None) -> Request:
    if not frame_id:
        raise BadFrame("invalid request frame: must have required property 'id'", None)
    method, params = fields.get("method"), fields.get("params")
    if not isinstance(method, str) or not method:
        raise BadFrame("invalid request frame: must have required property 'method'", frame_id)
    if params is not None and not isinstance(params, dict):
        raise BadFrame("invalid request frame: params must be an object", frame_id)
    return Request(frame_id, method, cast("dict[str, Any]", params or {}))


def _event(fields: dict[str, Any]) -> EventFrame:
    name, seq = fields.get("event"), fields.get("seq")
    if not isinstance(name, str) or not name:
        raise BadFrame("invalid event frame: must have required property 'event'", None)
    return EventFrame(name, fields.get("payload"), seq if isinstance(seq, int) else None)
