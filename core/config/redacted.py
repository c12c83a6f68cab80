"""The configuration file as clients may see it: what we know and know to be no secret; of all else only the names."""

import re
from collections.abc import Mapping
from types import NoneType
from typing import Any, Final, cast, get_args, get_origin
from urllib.parse import urlsplit

import pyjson5

from core.config.paths import Places
from core.config.schema import ConfigFile, SecretRef, Section, fields
from core.model.json_codec import encodable
from core.rules.redact import redact

REDACTED: Final = "__OPENCLAW_REDACTED__"
"""What clients of OpenClaw know as a value that is kept from them."""
LONGEST_PART: Final = 24
"""Characters of a part of a URL's path; one that is longer may be a password, as in those of webhooks."""
_URL: Final = re.compile(r"[A-Za-z][\w+.-]*://[^\s\"'<>]+")
_UNKNOWN: Final = object()
"""The kind of what is not in our configuration: it may be a secret, whatever it is called."""


def redacted_config(places: Places) -> dict[str, Any]:
    """Return what the file holds, secrets replaced; nothing when it cannot be read."""
    try:
        data: object = pyjson5.loads(places.config.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, pyjson5.Json5Exception):
        return {}
    return _section(cast("dict[str, Any]", data), ConfigFile) if isinstance(data, dict) else {}


def _shown(value: object, kind: object) -> object:
    """Return a value as it may be seen; `kind` is its type in the configuration, or `_UNKNOWN`."""
    kind = _plain(kind)
    if isinstance(value, dict):
        return _section(cast("dict[str, Any]", value), kind)
    if isinstance(value, list):
        item = get_args(kind)[0] if get_origin(kind) is list else _UNKNOWN
        return [_shown(each, item) for each in cast("list[object]", value)]
    if value is None or isinstance(value, bool):
        return value
    if kind is _UNKNOWN or kind is SecretRef:
        return REDACTED
    return redact(_URL.sub(_plain_url, encodable(value))) if isinstance(value, str) else value


def _section(value: Mapping[str, Any], kind: object) -> dict[str, Any]:
    if isinstance(kind, type) and issubclass(kind, Section):
        kinds = {name: field.annotation for name, field in fields(kind).items()}
        if kind is SecretRef:  # {env: "NAME"} and {file: "PATH"} say where a secret is, and hold none
            del kinds["literal"]
        return {name: _shown(each, kinds.get(name, _UNKNOWN)) for name, each in value.items()}
    of_each = get_args(kind)[1] if get_origin(kind) is dict else _UNKNOWN
    return {name: _shown(each, of_each) for name, each in value.items()}


def _plain(kind: object) -> object:
    """Return a type without what is said of it beside, and without None; of several that are left, the first."""
    while True:
        if hasattr(kind, "__metadata__"):
            kind = get_args(kind)[0]
        elif any(each is NoneType for each in get_args(kind)):
            kind = next(each for each in get_args(kind) if each is not NoneType)
        else:
            return kind


def _plain_url(found: re.Match[str]) -> str:
    """Return a URL without user, password and query."""
    try:
        parts = urlsplit(found[0])
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return REDACTED
    place = f"[{host}]" if ":" in host else host
    place += f":{port}" if port is not None else ""
    user = "…@" if "@" in parts.netloc else ""
    path = parts.path if all(len(part) <= LONGEST_PART for part in parts.path.split("/")) else "/…"
    return f"{parts.scheme}://{user}{place}{path}{'?…' if parts.query else ''}"
