"""The configuration file as clients may see it: everything but the secrets."""

import re
from collections.abc import Mapping
from typing import Any, Final, cast

import pyjson5

from core.config.paths import Places
from core.model.messages import encodable
from core.rules.redact import redact

REDACTED: Final = "__OPENCLAW_REDACTED__"
"""What clients of OpenClaw know as a value that is kept from them."""
_SECRET_NAME: Final = re.compile(r"api_?key|token|passw|secret|credential|private_?key|authorization|cookie", re.I)
_PASSWORD: Final = re.compile(r"//[^/\s@]*@")


def redacted_config(places: Places) -> dict[str, Any]:
    """Return what the file holds, secrets replaced; nothing when it cannot be read."""
    try:
        data: object = pyjson5.loads(places.config.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, pyjson5.Json5Exception):
        return {}
    return _without_secrets(cast("dict[str, Any]", data)) if isinstance(data, dict) else {}


def _without_secrets(section: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _shown(value, secret=_SECRET_NAME.search(name) is not None) for name, value in section.items()}


def _shown(value: object, *, secret: bool) -> object:
    if isinstance(value, dict):
        return _without_secrets(cast("dict[str, Any]", value))  # {env: "NAME"} and {file: "PATH"} hold no secret
    if isinstance(value, list):
        return [_shown(item, secret=secret) for item in cast("list[object]", value)]
    if not isinstance(value, str):
        return value
    return REDACTED if secret else redact(_PASSWORD.sub("//…@", encodable(value)))
