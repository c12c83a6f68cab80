"""A client as bare as the method of measuring asks: `websockets` without compression, JSON decoded inside the figure.

It speaks what any gateway of the protocol understands, so that the same lines can be measured on others.
"""

import asyncio
import itertools
import json
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from core.remote.hello import CLIENT_ID, CLIENT_MODE, SCOPES, Claim
from core.remote.identity import load_device

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_FRAME = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Address:
    """Where a gateway is and how to get in.

    Attributes:
        state: A folder for the device key that introduces us.
    """

    url: str
    token: str
    state: Path

    @property
    def http(self) -> str:
        """The same over HTTP."""
        return self.url.replace("ws", "http", 1)

    @property
    def headers(self) -> dict[str, str]:
        """What lets an HTTP request in."""
        return {"Authorization": f"Bearer {self.token}"}


class Wire:
    """One connection; `open` makes it.

    Attributes:
        received: Bytes of all frames so far.
        on_event: Told of every event by name and payload, at once.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self.received = 0
        self.on_event: Callable[[str, Any], None] = lambda _name, _payload: None
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._challenge: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, address: Address) -> "Wire":
        """Connect and introduce ourselves."""
        wire = cls(await connect(address.url, compression=None, max_size=MAX_FRAME, ping_interval=None))
        challenge = await wire._challenge
        device = load_device(address.state)
        system = platform.system().lower()
        claim = Claim(challenge["nonce"], challenge["ts"], SCOPES, system)
        await wire.call(
            "connect",
            {
                "minProtocol": 3,
                "maxProtocol": 4,
                "client": {"id": CLIENT_ID, "version": "0", "platform": system, "mode": CLIENT_MODE},
                "role": "operator",
                "scopes": list(SCOPES),
                "caps": ["tool-events"],
                "auth": {"token": address.token},
                "device": device.sign(claim, address.token),
            },
        )
        return wire

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        """Ask something and return the answer."""
        number = str(next(self._numbers))
        self._waiting[number] = future = asyncio.get_running_loop().create_future()
        await self._socket.send(json.dumps({"type": "req", "id": number, "method": method, "params": params}))
        answer = await future
        if not answer["ok"]:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["payload"]

    async def timed(self, method: str, params: dict[str, Any], *, times: int = 11) -> list[float]:
        """Ask the same several times and return how many ms each took; the first is not counted."""
        found: list[float] = []
        for number in range(times + 1):
            start = time.perf_counter()
            await self.call(method, params)
            if number:
                found.append((time.perf_counter() - start) * 1e3)
        return found

    async def close(self) -> None:
        """Leave."""
        await self._socket.close()
        await self._reading

    async def _read(self) -> None:
        try:
            while True:
                text = await self._socket.recv()
                self.received += len(text)
                self._take(json.loads(text))
        except ConnectionClosed as error:
            for future in (self._challenge, *self._waiting.values()):
                if not future.done():
                    future.set_exception(RuntimeError(f"the gateway has hung up: {error}"))
                    future.exception()  # nobody may be waiting for it any more

    def _take(self, frame: dict[str, Any]) -> None:
        if frame["type"] == "res":
            future = self._waiting.get(frame["id"])
            if future is not None and not future.done():
                future.set_result(frame)
        elif frame["event"] == "connect.challenge":
            self._challenge.set_result(frame["payload"])
        else:
            self.on_event(frame["event"], frame["payload"])
