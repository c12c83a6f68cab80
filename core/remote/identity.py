"""The key by which gateways know this device: Ed25519, made once, never sent (protocol#handshake)."""

import base64
import binascii
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from core.files import make_secret, read_secret
from core.model import json_codec
from core.model.errors import Invalid, Unavailable
from core.remote.hello import CLIENT_ID, CLIENT_MODE, ROLE, Claim

_FILE: Final = Path("identity", "device.json")
_RAW_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """This device.

    Attributes:
        id: SHA-256 of the public key, in hexadecimal.
        public_key: Raw, in base64url without padding.
    """

    id: str
    public_key: str
    _private: Any = field(repr=False)

    def sign(self, claim: Claim, token: str) -> dict[str, Any]:
        """Return the `device` of a connect request with this token, empty for none."""
        client = (self.id, CLIENT_ID, CLIENT_MODE, ROLE, ",".join(claim.scopes))
        text = "|".join(("v3", *client, str(claim.signed_at), token, claim.nonce, claim.platform.lower(), ""))
        return {
            "id": self.id,
            "publicKey": self.public_key,
            "signature": _encode(self._private.sign(text.encode())),
            "signedAt": claim.signed_at,
            "nonce": claim.nonce,
        }


def sign(state: Path, claim: Claim, token: str) -> dict[str, Any]:
    """Return what this device signs; see `DeviceIdentity.sign`, and `load_device` for what it raises."""
    return load_device(state).sign(claim, token)


def load_device(state: Path) -> DeviceIdentity:
    """Return this device's key, made at the first call; several processes at once get the same one.

    Raises `Unavailable` when the key's file cannot be read or written, or holds something else.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = state / _FILE
    text = read_secret(path)
    if text is None:
        fresh = Ed25519PrivateKey.generate().private_bytes_raw()
        text = make_secret(path, json_codec.encode_indented({"version": 1, "privateKey": _encode(fresh)}))
    try:
        data: Any = json_codec.decode(text)
        raw = _decode(cast("dict[str, str]", data)["privateKey"])
        private = Ed25519PrivateKey.from_private_bytes(raw)
    except (Invalid, ValueError, LookupError, TypeError, AttributeError, binascii.Error):
        sentence = f"{path} does not hold a device key: remove it, and every gateway will ask for pairing anew"
        raise Unavailable(sentence) from None
    public = private.public_key().public_bytes_raw()
    return DeviceIdentity(hashlib.sha256(public).hexdigest(), _encode(public), private)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != _RAW_BYTES:
        raise ValueError("a key has 32 bytes")
    return raw
