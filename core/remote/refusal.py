"""Why a gateway does not let us in: each reason as one sentence, and whether trying again by itself can help."""

from collections.abc import Mapping
from typing import Any, Final

from core.model.errors import Forbidden, SwitchboardError, Unauthorized, Unavailable
from core.model.json_codec import mapping
from core.model.keys import quoted

MOST_WORDS: Final = 300
"""Characters of a gateway's own reason that are told."""
SLOW_SECONDS: Final = 30.0
"""Between attempts that only somebody at the other end can make succeed."""

_SAYS: Final = {
    "AUTH_TOKEN_MISSING": "it wants a token: `switchboard connect` with --token-file stores one",
    "AUTH_TOKEN_MISMATCH": "it does not accept this token: give the one of its configuration (gateway.auth.token)",
    "AUTH_DEVICE_TOKEN_MISMATCH": "it no longer accepts this device's token: give the gateway's token again",
    "AUTH_RATE_LIMITED": "it refuses this address after too many wrong tokens: wait, then try with the right one",
    "DEVICE_AUTH_SIGNATURE_EXPIRED": "it says that our signature is too old: compare the clocks of both machines",
}


class GatewayRefused(Exception):
    """An attempt to connect ended in a way that has to be explained.

    Attributes:
        error: What whoever asks for something is told.
        retry: Seconds after which it is tried again, None when that would not help.
        final: It answered, and the reason lies in what we are or gave; else it is only not there.
        code: The gateway's own word for it, empty when it gave none.
    """

    def __init__(
        self, error: SwitchboardError, *, retry: float | None = None, final: bool = True, code: str = ""
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.retry = retry
        self.final = final
        self.code = code


class RequestNotTaken(Unavailable):
    """The gateway does not know a method, or does not take it as it was asked."""


def unusable(sentence: str, code: str = "") -> GatewayRefused:
    """Return what is said when somebody at one end has something to mend; it is seldom tried again."""
    return GatewayRefused(Unavailable(sentence), retry=2 * SLOW_SECONDS, code=code)


def not_understood(where: str, error: SwitchboardError) -> GatewayRefused:
    """Read the refusal of what a connection cannot do without; it answered, so that it is seldom tried again."""
    said = (
        error.message
        if isinstance(error, RequestNotTaken)
        else f"{where} refuses what a connection needs: {error.message}"
    )
    return unusable(said)


def refused_by(error: Mapping[str, Any], where: str) -> GatewayRefused:
    """Read the error that answers `connect`; `where` is the gateway's name or address, for the sentence."""
    code, message = str(error.get("code", "")), quoted(str(error.get("message", "")), MOST_WORDS)
    facts = mapping(error.get("details"))
    reason = str(facts.get("code", ""))
    if code == "UNAVAILABLE" or error.get("retryable") is True:
        wait = error.get("retryAfterMs")
        seconds = max(wait / 1000, 0.05) if isinstance(wait, int | float) and not isinstance(wait, bool) else 1.0
        return GatewayRefused(
            Unavailable(f"{where} is starting: {message}"), retry=min(seconds, 60), final=False, code=reason
        )
    if reason == "PROTOCOL_MISMATCH" or "expectedProtocol" in facts:
        wants = facts.get("expectedProtocol", "another one")
        sentence = f"{where} speaks protocol {wants}, and this client 3 and 4: update the older of the two"
        return unusable(sentence, "PROTOCOL_MISMATCH")
    if reason in {"PAIRING_REQUIRED", "NOT_PAIRED"} or code == "NOT_PAIRED" or "pairing required" in message.lower():
        request = facts.get("requestId")
        named = f" {request}" if isinstance(request, str) and request.isprintable() and len(request) < 80 else ""
        sentence = f"{where} does not know this device yet: approve it there with `openclaw devices approve{named}`"
        return GatewayRefused(Unauthorized(sentence), retry=SLOW_SECONDS, code="PAIRING_REQUIRED")
    if reason in _SAYS:
        return GatewayRefused(Unauthorized(f"{where} refuses the connection: {_SAYS[reason]}"), code=reason)
    if "scope" in message:
        return GatewayRefused(Forbidden(f"{where} refuses the connection: {message}"), code=reason)
    return GatewayRefused(Unauthorized(f"{where} refuses the connection: {message}"), code=reason)


def unreachable(where: str, why: str) -> GatewayRefused:
    """Return what is said when nobody answered; it is tried again."""
    return GatewayRefused(Unavailable(f"{where} cannot be reached: {why}"), retry=0, final=False)
