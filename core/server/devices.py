"""Devices that are paired, and their tokens: kept as hashes, in a file that only the owner reads (protocol#pairing).

A token holds as long as the gateway's token under which it was issued. Devices have room by their rights, so that many
with few rights never push out one with more; within a class the one that was used longest ago goes first.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from core.files import read_secret, write_secret
from core.model import json_codec
from core.model.errors import Invalid, Unavailable
from core.server.auth import ADMIN, LOOPBACK, READ, WRITE

FILE_NAME: Final = "devices.json"
MAX_DEVICES: Final = 128
"""Of one class of rights."""
MAX_OF_NETWORK: Final = 32
"""Of one class, paired from one network beyond this machine."""
MAX_TOKENS: Final = 4
"""Of one device: programs that share its key each get a token, and a new one does not end the others' at once."""

_MOST_MS: Final = 2**53


@dataclass(frozen=True, slots=True)
class StoredToken:
    """What is kept of a token.

    Attributes:
        hash: Of the secret, which nobody keeps.
        scopes: What it grants.
        issuer: Names the gateway's token under which it was issued (`Auth.issuer`).
        issued_at: ms since the Unix epoch; `used_at` likewise.
    """

    hash: str = field(repr=False)
    scopes: frozenset[str]
    issuer: str
    issued_at: int
    used_at: int


@dataclass(frozen=True, slots=True)
class PairedDevice:
    """A device that is paired.

    Attributes:
        device_id: SHA-256 of its public key, in hex.
        name: What its client called itself.
        network: From where it was paired (`core.server.auth.network_of`).
        paired_at: ms since the Unix epoch.
        tokens: The newest first; there is at least one.
    """

    device_id: str
    name: str
    platform: str
    network: str
    paired_at: int
    tokens: tuple[StoredToken, ...]

    @property
    def scopes(self) -> frozenset[str]:
        """All that its tokens grant."""
        return frozenset(scope for token in self.tokens for scope in token.scopes)

    @property
    def used_at(self) -> int:
        """When one of its tokens was used last, in ms since the Unix epoch."""
        return max(token.used_at for token in self.tokens)


class Devices:
    """The paired devices of one gateway.

    Args:
        state: The state directory.

    Attributes:
        on_revoked: Is told the id of each device that lost its tokens; its connections are to end.
        problem: Why nobody of the file is paired, in one sentence; empty when it could be read, or was not asked for.
    """

    def __init__(self, state: Path) -> None:
        self.on_revoked: Callable[[str], None] = lambda _: None
        self.problem = ""
        self._path = state / FILE_NAME
        self._devices: dict[str, PairedDevice] | None = None
        self._writing = asyncio.Lock()

    def paired(self) -> list[PairedDevice]:
        """Return the paired devices, the one that was used last first."""
        return sorted(self._read().values(), key=lambda device: -device.used_at)

    def knows(self, device_id: str) -> bool:
        """Whether a device is paired."""
        return device_id in self._read()

    def check(self, device_id: str, token: str, issuers: Iterable[str], now_ms: int) -> StoredToken | None:
        """Return what is kept of a device's token; None when it is not its own, or of no issuer in `issuers`."""
        devices, given = self._read(), _digest(token)
        if (device := devices.get(device_id)) is None:
            return None
        for kept in device.tokens:
            if hmac.compare_digest(given, kept.hash) and kept.issuer in issuers:
                tokens = tuple(replace(kept, used_at=now_ms) if each is kept else each for each in device.tokens)
                devices[device_id] = replace(device, tokens=tokens)  # it reaches the disk with the next change
                return kept
        return None

    async def issue(
        self,
        device_id: str,
        scopes: Iterable[str],
        now_ms: int,
        *,
        issuer: str,
        network: str = LOOPBACK,
        name: str = "",
        platform: str = "",
    ) -> str:
        """Pair a device, or give a paired one another token, which is returned; it is on disk then.

        Raises:
            Unavailable: The file cannot be written, or there is no room that others with more rights do not need.
        """
        token = secrets.token_urlsafe(32)
        fresh = StoredToken(_digest(token), frozenset(scopes), issuer, now_ms, now_ms)
        async with self._writing:
            devices = dict(self._read())
            known = devices.get(device_id)
            tokens = _with(fresh, known.tokens if known is not None else ())
            paired_at = known.paired_at if known is not None else now_ms
            devices[device_id] = device = PairedDevice(device_id, name, platform, network, paired_at, tokens)
            _make_room(devices, device)
            await self._write(devices)
        return token

    async def revoke(self, device_id: str) -> bool:
        """Unpair a device: its tokens are worth nothing from now on; False when it is not paired.

        Raises `Unavailable` when the file cannot be written; so does `keep_only`.
        """
        async with self._writing:
            devices = dict(self._read())
            if devices.pop(device_id, None) is None:
                return False
            await self._write(devices)
        self.on_revoked(device_id)
        return True

    async def keep_only(self, issuers: Iterable[str]) -> None:
        """Forget every token that was issued under a gateway's token that is no more."""
        kept = frozenset(issuers)
        async with self._writing:
            known = self._read()
            devices = dict[str, PairedDevice]()
            for device in known.values():
                tokens = tuple(token for token in device.tokens if token.issuer in kept)
                if tokens:
                    devices[device.device_id] = replace(device, tokens=tokens)
            if devices == known:
                return
            await self._write(devices)
        for device_id in known.keys() - devices.keys():
            self.on_revoked(device_id)

    async def _write(self, devices: dict[str, PairedDevice]) -> None:
        text = json_codec.encode_indented({"version": 2, "devices": [_as_json(device) for device in devices.values()]})
        await asyncio.to_thread(write_secret, self._path, text)
        self._devices, self.problem = devices, ""

    def _read(self) -> dict[str, PairedDevice]:
        """Return the devices by id; a file that cannot be read pairs nobody, nor does one without issuers."""
        if self._devices is None:
            self._devices = {}
            try:
                text = read_secret(self._path)
                if text is not None:
                    found = [_from_json(each) for each in json_codec.decode(text)["devices"]]
                    self._devices = {device.device_id: device for device in found if device.tokens}
            except Unavailable as error:
                self.problem = error.message
            except Invalid as error:
                self.problem = f"{self._path} is damaged: {error.message}"
            except (ValueError, KeyError, TypeError, AttributeError):
                self.problem = f"{self._path} is damaged: it holds no list of devices"
        return self._devices


def _with(fresh: StoredToken, tokens: tuple[StoredToken, ...]) -> tuple[StoredToken, ...]:
    """Return a device's tokens with one more; what it pushes out grants no more than it does."""
    if len(tokens) < MAX_TOKENS:
        return fresh, *tokens
    lesser = [token for token in tokens if _rank(token.scopes) <= _rank(fresh.scopes)]
    if not lesser:
        raise Unavailable("this device has as many tokens as it may, and they grant more")
    oldest = min(lesser, key=lambda token: (_rank(token.scopes), token.used_at))
    return fresh, *(token for token in tokens if token is not oldest)


def _make_room(devices: dict[str, PairedDevice], fresh: PairedDevice) -> None:
    """Forget those of the same rights that were used longest ago, when they are too many."""
    rank = _rank(fresh.scopes)
    peers = [device for device in devices.values() if device is not fresh and _rank(device.scopes) == rank]
    near = [device for device in peers if device.network == fresh.network]
    crowd = near if fresh.network != LOOPBACK and len(near) >= MAX_OF_NETWORK else peers
    if crowd is near or len(peers) >= MAX_DEVICES:
        del devices[min(crowd, key=lambda device: device.used_at).device_id]


def _rank(scopes: frozenset[str]) -> int:
    """Return how much scopes grant, for telling lesser from greater."""
    if ADMIN in scopes:
        return 3
    if scopes - {READ, WRITE}:  # approvals and pairing decide about others
        return 2
    return 1 if WRITE in scopes else 0


def _as_json(device: PairedDevice) -> dict[str, Any]:
    tokens = [
        {"hash": token.hash, "scopes": sorted(token.scopes), "issuer": token.issuer}
        | {"issuedAtMs": token.issued_at, "usedAtMs": token.used_at}
        for token in device.tokens
    ]
    names = {"id": device.device_id, "name": device.name, "platform": device.platform, "network": device.network}
    return names | {"pairedAtMs": device.paired_at, "tokens": tokens}


def _from_json(data: dict[str, Any]) -> PairedDevice:
    tokens = tuple(
        StoredToken(
            str(token["hash"]),
            frozenset(map(str, token["scopes"])),
            str(token["issuer"]),
            _time(token["issuedAtMs"]),
            _time(token["usedAtMs"]),
        )
        for token in cast("list[dict[str, Any]]", data["tokens"])
    )
    name, platform, network = (str(data[field]) for field in ("name", "platform", "network"))
    return PairedDevice(str(data["id"]), name, platform, network, _time(data["pairedAtMs"]), tokens)


def _time(value: object) -> int:
    if type(value) is not int or not 0 <= value < _MOST_MS:
        raise ValueError("that is no time")
    return value


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
