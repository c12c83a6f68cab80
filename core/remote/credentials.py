"""Tokens that gateways gave this device, each for the exact origin it came from, and the passport made of them."""

import asyncio
from pathlib import Path
from typing import Any, Final, cast

from core.child_process import in_child_process
from core.files import read_secret, write_secret
from core.model import json_codec
from core.model.errors import Invalid, Unavailable
from core.remote.hello import Claim
from core.remote.identity import sign
from core.remote.profile import Origin, Profile

_FILE: Final = Path("identity", "device-tokens.json")
_WRONG_TOKEN: Final = frozenset({"AUTH_TOKEN_MISMATCH", "AUTH_TOKEN_MISSING"})
_WRONG_DEVICE_TOKEN: Final = frozenset({"AUTH_DEVICE_TOKEN_MISMATCH", *_WRONG_TOKEN})


class DeviceTokens:
    """The file of device tokens, by origin."""

    def __init__(self, state: Path) -> None:
        self._path = state / _FILE

    def get(self, origin: Origin) -> str | None:
        """Return the token for an origin, None without one."""
        token = self._read().get(str(origin))
        return token if isinstance(token, str) and token else None

    def put(self, origin: Origin, token: str | None) -> None:
        """Keep a token for an origin, or forget it."""
        tokens = self._read()
        if tokens.get(str(origin)) == token:
            return
        tokens.pop(str(origin), None)
        if token is not None:
            tokens[str(origin)] = token
        write_secret(self._path, json_codec.encode_indented(dict(sorted(tokens.items()))))

    def _read(self) -> dict[str, object]:
        text = read_secret(self._path)
        if text is None:
            return {}
        try:
            data: Any = json_codec.decode(text)
        except Invalid as error:
            sentence = f"{self._path} is damaged ({error.message}): remove it, and give the gateways' tokens again"
            raise Unavailable(sentence) from None
        return cast("dict[str, object]", data) if isinstance(data, dict) else {}


class ProfilePassport:
    """Who we are to the gateway of a profile: its token while the profile has one, else what it gave this device; see
    `core.remote.hello.Passport`.

    A token that is refused makes room for the device's, once; a device's token that is refused is forgotten.
    """

    def __init__(self, profile: Profile, state: Path) -> None:
        self._profile = profile
        self._state = state
        self._tokens = DeviceTokens(state)
        self._by_device = False
        self._gave_device = False

    async def prove(self, claim: Claim) -> dict[str, Any]:
        return await asyncio.to_thread(self._prove, claim)

    async def accepted(self, device_token: str | None) -> None:
        if device_token is not None:
            await asyncio.to_thread(self._tokens.put, self._profile.origin, device_token)

    async def refused(self, code: str) -> bool:
        """Fall back from the profile's token to the device's; from there nowhere."""
        if self._gave_device:
            if code in _WRONG_DEVICE_TOKEN:
                await asyncio.to_thread(self._tokens.put, self._profile.origin, None)
            self._by_device = False
            return False
        if code in _WRONG_TOKEN and await asyncio.to_thread(self._tokens.get, self._profile.origin) is not None:
            self._by_device = True
            return True
        return False

    def _prove(self, claim: Claim) -> dict[str, Any]:
        token = None if self._by_device else self._profile.token()
        self._gave_device = False
        if token is None and (kept := self._tokens.get(self._profile.origin)) is not None:
            token, self._gave_device = kept, True
        device = in_child_process(sign, self._state, claim, token or "")  # the key and 8 MB stay out of here
        return ({"auth": {"token": token}} if token else {}) | {"device": device}
