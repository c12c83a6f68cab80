"""HTTP answers as JSON, and the two shapes of errors (G1, G7)."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from core.model.errors import SwitchboardError, Unavailable
from core.model.json_codec import encode
from core.server.auth import TokenRefused
from core.wire.errors import http_status, http_type

TOOLS_PATH: Final = "/tools/invoke"


class Json(Response):
    """JSON text; nobody on the way keeps it."""

    media_type = "application/json"

    def __init__(self, text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        kept = {"cache-control": "no-store", "x-content-type-options": "nosniff", **(headers or {})}
        super().__init__(text.encode(errors="replace"), status, kept)


def refusal(path: str, error: SwitchboardError) -> Json:
    """Return the answer to a request that failed (architecture#errors); 429 for a sender that is locked out."""
    status, headers = http_status(error), dict[str, str]()
    if isinstance(error, TokenRefused) and error.retry_after is not None:
        status, headers["retry-after"] = 429, str(error.retry_after)
    elif status == 401:
        headers["www-authenticate"] = "Bearer"
    elif isinstance(error, Unavailable):
        headers["retry-after"] = "1"
    return problem(path, status, http_type(error), error.message, headers)


def problem(path: str, status: int, error_type: str, message: str, headers: Mapping[str, str] | None = None) -> Json:
    """Return an error in the shape that the route has."""
    body: dict[str, Any] = {"error": {"type": error_type, "message": message}}
    return Json(encode({"ok": False, **body} if path == TOOLS_PATH else body), status, headers)
