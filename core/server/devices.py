"""Devices that are paired, and their tokens: kept as hashes, in a file that only the owner reads (PROTOCOL II.4)."""

import asyncio
import contextlib
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from core.files import write_secret

FILE_NAME: Final = "devices.json"
MAX_DEVICES: Final = 512
MAX_TOKENS: Final = 4
"""Of one device: programs that share its key each get a token, and a new one does not end the others' at once."""


@dataclass(frozen=True, slots=True)
class DeviceToken:
    """A token as it is issued, or as a device presents it.

    Attributes:
        token: The secret itself; only its hash is kept.
        scopes: What it grants.
        issued_at: ms since the Unix epoch.
    """

    token: str
    scopes: frozenset[str]
    issued_at: int


class Devices:
    """The paired devices of one gateway.

    Args:
        state: The state directory.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / FILE_NAME
        self._devices: dict[str, list[dict[str, Any]]] | None = None
        self._writing = asyncio.Lock()

    def knows(self, device_id: str) -> bool:
        """Whether a device is paired."""
        return device_id in self._read()

    def check(self, device_id: str, token: str) -> DeviceToken | None:
        """Return what a device's token grants; None when it is not one of that device."""
        given = _digest(token)
        for entry in self._read().get(device_id, []):
            if hmac.compare_digest(given, str(entry.get("hash", ""))):
                return DeviceToken(token, frozenset(map(str, entry.get("scopes", ()))), int(entry.get("issuedAtMs", 0)))
        return None

    async def issue(self, device_id: str, scopes: Iterable[str], now_ms: int) -> DeviceToken:
        """Pair a device, or give a paired one another token; when this returns, it is on disk.

        Raises:
            Unavailable: The file cannot be written.
        """
        issued = DeviceToken(secrets.token_urlsafe(32), frozenset(scopes), now_ms)
        async with self._writing:
            devices = dict(self._read())
            entry = {"hash": _digest(issued.token), "scopes": sorted(issued.scopes), "issuedAtMs": now_ms}
            tokens = devices.pop(device_id, [])
            devices[device_id] = [entry, *tokens][:MAX_TOKENS]  # the device that came last stands last
            while len(devices) > MAX_DEVICES:
                del devices[next(iter(devices))]
            await asyncio.to_thread(write_secret, self._path, json.dumps(devices, indent=1))
            self._devices = devices
        return issued

    def _read(self) -> dict[str, list[dict[str, Any]]]:
        """Return the tokens by device; a file that cannot be read pairs nobody."""
        if self._devices is None:
            self._devices = {}
            with contextlib.suppress(OSError, ValueError):
                data = json.loads(self._path.read_text(encoding="utf-8"))
                if isinstance(data, dict):
                    self._devices = {
                        device: [token for token in cast("list[Any]", tokens) if isinstance(token, dict)]
                        for device, tokens in cast("dict[str, Any]", data).items()
                        if isinstance(tokens, list)
                    }
        return self._devices


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
