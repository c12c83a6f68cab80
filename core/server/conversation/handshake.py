"""The first request of a conversation: which protocol, which device, which token, which scopes (protocol#handshake,
protocol#negotiation)."""

import base64
import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from core.model.errors import Invalid, Unauthorized, Unavailable
from core.server.auth import OWNER, Access, TokenRefused, network_of
from core.server.context import ServerContext
from core.server.params import explain
from core.wire.errors import to_wire
from core.wire.frames import CLOSE_REFUSED, PROTOCOLS
from core.wire.transport import Transport

CLOSE_PROTOCOL: Final = 1002
_NEXT_STEPS: Final = {
    "missing": ("AUTH_TOKEN_MISSING", "token_missing", "update_auth_configuration"),
    "mismatch": ("AUTH_TOKEN_MISMATCH", "token_mismatch", "update_auth_configuration"),
    "locked": ("AUTH_RATE_LIMITED", "rate_limited", "wait_then_retry"),
}


class _Open(BaseModel):
    """Unlike those of the methods, these parameters are open: a newer client must be able to introduce itself."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, alias_generator=to_camel)


class ClientParams(_Open):
    """Who connects; any id and mode is welcome, the closed lists of OpenClaw among them."""

    id: str = Field(min_length=1, max_length=64)
    mode: str = Field(min_length=1, max_length=64)
    version: str = Field(default="", max_length=64)
    platform: str = Field(default="", max_length=64)
    display_name: str | None = Field(default=None, max_length=128)
    device_family: str | None = Field(default=None, max_length=64)
    instance_id: str | None = Field(default=None, max_length=128)


class ConnectDeviceParams(_Open):
    """A device's key, and its signature over what this connection asks for."""

    id: str = Field(max_length=128)
    public_key: str = Field(max_length=128)
    signature: str = Field(max_length=256)
    signed_at: int
    nonce: str = Field(max_length=128)


class AuthParams(_Open):
    """The secrets a client can present."""

    token: str | None = Field(default=None, max_length=4096)
    device_token: str | None = Field(default=None, max_length=4096)


class ConnectParams(_Open):
    """Parameters of `connect`."""

    min_protocol: int = Field(ge=1)
    max_protocol: int = Field(ge=1)
    client: ClientParams
    role: str = "operator"
    scopes: list[str] | None = Field(default=None, max_length=64)
    caps: list[str] = Field(default_factory=list[str], max_length=64)
    auth: AuthParams = AuthParams()
    device: ConnectDeviceParams | None = None


class HandshakeRefused(Exception):
    """The handshake ends here, with the `error` of the answer and the code with which the connection is closed."""

    def __init__(self, error: Mapping[str, Any], code: int = CLOSE_REFUSED) -> None:
        super().__init__(str(error.get("message", "")))
        self.error: Final = error
        self.code: Final = code


@dataclass(frozen=True, slots=True)
class Admitted:
    """What a client that was let in may do.

    Attributes:
        protocol: The highest version both speak.
        method: How it proved itself: `token`, `device-token`, or `local` for the same user of this machine.
        device_token: For its later connections, with the time it was issued; None for a client without a device.
    """

    params: ConnectParams
    protocol: int
    access: Access
    method: str
    device_token: tuple[str, int] | None = None


async def admit(
    context: ServerContext, transport: Transport, raw: Mapping[str, Any], *, nonce: str, may_pair: bool
) -> Admitted:
    """Decide about the parameters of `connect`.

    Args:
        transport: Its `peer` is the address by which wrong tokens are counted.
        nonce: What a device has to sign.
        may_pair: It comes from this machine or over TLS, so that a device may be given a token.

    Raises:
        HandshakeRefused: It may not come in; with the answer.
    """
    try:
        params = ConnectParams.model_validate(dict(raw))
    except ValidationError as error:
        raise HandshakeRefused(to_wire(explain("connect", error))) from None
    protocol = _protocol(params)
    if params.role != "operator":
        raise HandshakeRefused(to_wire(Invalid("invalid role")))
    if params.device is not None:
        _check_device(params, params.device, nonce)
    granted, method, token = await _access(context, transport, params)
    access = granted.narrowed(params.scopes) if params.scopes is not None else granted
    if params.device is not None and token is None and not transport.trusted:
        if not may_pair:
            sentence = "pairing required: connect over TLS, or from the machine of the gateway"
            error = {"code": "NOT_PAIRED", "message": sentence, "details": {"code": "PAIRING_REQUIRED"}}
            raise HandshakeRefused(error)
        with contextlib.suppress(Unavailable):  # then the device goes on presenting the gateway's token
            token = await _pair(context, transport, params, access, context.auth.issuer(granted))
    return Admitted(params, protocol, access, method, token)


def _protocol(params: ConnectParams) -> int:
    low, high = params.min_protocol, params.max_protocol
    common = [version for version in PROTOCOLS if low <= version <= high]
    if common:
        return common[-1]
    details = {
        "code": "PROTOCOL_MISMATCH",
        "clientMinProtocol": low,
        "clientMaxProtocol": high,
        "expectedProtocol": PROTOCOLS[-1],
        "minimumProbeProtocol": PROTOCOLS[0],
    }
    raise HandshakeRefused(to_wire(Invalid("protocol mismatch"), details), CLOSE_PROTOCOL)


def _check_device(params: ConnectParams, device: ConnectDeviceParams, nonce: str) -> None:
    """Check that the client holds the device's key.

    Its clock does not matter: the signature covers our nonce, which is used once, so nothing old can be replayed.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw, signature = _from_base64url(device.public_key), _from_base64url(device.signature)
    if len(raw) != 32 or hashlib.sha256(raw).hexdigest() != device.id:
        raise _device_error("device identity mismatch", "DEVICE_AUTH_DEVICE_ID_MISMATCH", "device-id-mismatch")
    if device.nonce != nonce:
        raise _device_error("device nonce mismatch", "DEVICE_AUTH_NONCE_MISMATCH", "device-nonce-mismatch")
    key = Ed25519PublicKey.from_public_bytes(raw)
    for payload in _signed(params, device):
        try:
            key.verify(signature, payload.encode("utf-8", "surrogatepass"))
        except InvalidSignature:
            continue
        return
    raise _device_error("device signature invalid", "DEVICE_AUTH_SIGNATURE_INVALID", "device-signature")


def _signed(params: ConnectParams, device: ConnectDeviceParams) -> list[str]:
    """Return what the device may have signed: the payloads of versions 2 and 3, over the token that was sent."""
    client, found = params.client, list[str]()
    kind = [client.platform.strip().lower(), (client.device_family or "").strip().lower()]
    for token in {params.auth.token or "", params.auth.device_token or ""}:
        common = [device.id, client.id, client.mode, params.role, ",".join(params.scopes or ())]
        common += [str(device.signed_at), token, device.nonce]
        found += ["|".join(["v3", *common, *kind]), "|".join(["v2", *common])]
    return found


async def _access(
    context: ServerContext, transport: Transport, params: ConnectParams
) -> tuple[Access, str, tuple[str, int] | None]:
    """Return what the client's secrets grant, how, and its device token when it came with one."""
    if transport.trusted:
        return OWNER, "local", None
    auth, device = params.auth, params.device
    if device is not None:
        for given in filter(None, (auth.device_token, auth.token)):
            known = context.devices.check(device.id, given, context.auth.issuers, context.gateway.now_ms())
            if known is not None:
                return Access(known.scopes), "device-token", (given, known.issued_at)
    try:
        return await context.auth.admit(auth.token or auth.device_token, peer=transport.peer), "token", None
    except TokenRefused as error:
        context.metrics.add("auth_failures", label=error.reason)
        may_retry = device is not None and auth.device_token is None  # it may know a token of its own
        raise HandshakeRefused(_token_error(error, may_retry=may_retry)) from None


async def _pair(
    context: ServerContext, transport: Transport, params: ConnectParams, access: Access, issuer: str
) -> tuple[str, int]:
    """Give a device that presented the gateway's token one of its own (protocol#pairing)."""
    device, client, now = params.device, params.client, context.gateway.now_ms()
    assert device is not None, "it is a device that is paired"
    name, network = client.display_name or client.id, network_of(transport.peer)
    token = await context.devices.issue(
        device.id, access.scopes, now, issuer=issuer, network=network, name=name, platform=client.platform
    )
    return token, now


def _token_error(error: TokenRefused, *, may_retry: bool) -> dict[str, Any]:
    code, reason, step = _NEXT_STEPS[error.reason]
    retry = may_retry and error.reason == "mismatch"
    details: dict[str, Any] = {
        "code": code,
        "authReason": reason,
        "canRetryWithDeviceToken": retry,
        "recommendedNextStep": "retry_with_device_token" if retry else step,
    }
    if error.retry_after is not None:
        details["retryAfterMs"] = error.retry_after * 1000
    return to_wire(Unauthorized(f"unauthorized: {error.message}"), details)


def _device_error(message: str, code: str, reason: str) -> HandshakeRefused:
    return HandshakeRefused(to_wire(Unauthorized(message), {"code": code, "reason": reason}))


def _from_base64url(text: str) -> bytes:
    with contextlib.suppress(ValueError):
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return b""
