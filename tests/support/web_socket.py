"""A real server on a real port, and clients that speak frames to it."""

import asyncio
import base64
import contextlib
import hashlib
import json
import uuid
from collections.abc import AsyncGenerator, Callable, Collection
from pathlib import Path
from typing import Any

import websockets
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.clock import SystemClock
from core.config.settings import Settings
from core.gateway import Gateway
from core.runtime.gateway import Runtime
from core.runtime.runs.turn import Backends
from core.server.auth import Auth
from core.server.context import Limits, ServerContext, ServerFacts
from core.server.devices import Devices
from core.server.http.app import create_app
from core.server.http.listen import Door, NetworkListener, Place
from core.store.maintenance.backup import create_inside
from tests.support.runtimes import running

TOKEN = "full-token-for-tests"
READ_TOKEN = "read-token-for-tests"
STORE_ID = "store-for-tests"


class Served:
    """A gateway that listens.

    Attributes:
        runtime: What is served.
    """

    def __init__(self, runtime: Runtime, context: ServerContext, listener: NetworkListener, door: Door) -> None:
        self.runtime = runtime
        self.context = context
        self.url = door.url("ws")
        self.port = door.port
        self._listener = listener

    def connections(self) -> Collection[object]:
        """Return uvicorn's protocols of the connections that are open."""
        return self._listener.connections

    async def close(self, reason: str = "the test is over") -> None:
        """Stop listening."""

        async def drained() -> None:
            pass

        await self._listener.close(drained, reason)


def context_of(gateway: Gateway, state: Path, *, token: str = TOKEN, **limits: Any) -> ServerContext:
    """Return a context around a gateway."""
    facts = ServerFacts(
        version="0.0.test",
        boot_id=str(uuid.uuid4()),
        started_at=gateway.now_ms(),
        state_dir=str(state),
        config_path=str(state / "config.json5"),
        store_id=STORE_ID,
        config=lambda: {"gateway": {"auth": {"token": "__REDACTED__"}}},
        log_tail=lambda count: [f"line {n}" for n in range(5)][-count:],
        backup=lambda: create_inside(state, version="0.0.test", now_ms=gateway.now_ms()).as_json(),
    )
    return ServerContext(gateway, Auth(token, READ_TOKEN, SystemClock()), facts, Devices(state), Limits(**limits))


@contextlib.asynccontextmanager
async def listening(runtime: Runtime, state: Path, *, port: int = 0, **limits: Any) -> AsyncGenerator[Served]:
    """Serve a runtime that runs already."""
    context = context_of(runtime, state, **limits)
    door = Door(Place(port=port))
    served = Served(runtime, context, await NetworkListener.open(create_app(context), context, door), door)
    try:
        yield served
    finally:
        await served.close()
        door.close()


@contextlib.asynccontextmanager
async def serving(
    state: Path, settings: Settings | None = None, backends: Backends | None = None, **limits: Any
) -> AsyncGenerator[Served]:
    """Run a runtime and serve it."""
    async with running(state, settings, backends) as runtime, listening(runtime, state, **limits) as served:
        yield served


class Refused(Exception):
    """A request was refused; `error` is what the frame said."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("message"))
        self.error = error


class Device:
    """A key that signs."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()
        self.raw = self._key.public_key().public_bytes_raw()
        self.id = hashlib.sha256(self.raw).hexdigest()

    def block(self, nonce: str, params: dict[str, Any], /, *, version: str = "v3", **wrong: Any) -> dict[str, Any]:
        """Return the `device` of a connect, signed over its other parameters."""
        client, auth = params["client"], params.get("auth", {})
        signed_at = wrong.pop("signedAt", 1)
        token = auth.get("token") or auth.get("deviceToken") or ""
        parts = [version, self.id, client["id"], client["mode"], "operator", ",".join(params.get("scopes", []))]
        parts += [str(signed_at), token, nonce]
        if version == "v3":
            parts += [client["platform"].lower(), ""]
        signature = self._key.sign("|".join(parts).encode())
        block = {
            "id": self.id,
            "publicKey": _base64url(self.raw),
            "signature": _base64url(signature),
            "signedAt": signed_at,
            "nonce": nonce,
        }
        return block | wrong


class Client:
    """One connection.

    Attributes:
        hello: Payload of hello-ok.
        events: Every event frame so far, in order.
        bytes: How much has come.
        refused: The error of the last request that was refused.
    """

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.hello: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.bytes = 0
        self.refused: dict[str, Any] | None = None
        self.challenge: dict[str, Any] = {}
        self._answers: dict[str, asyncio.Queue[dict[str, Any]]] = {}
        self._came = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    def listen(self) -> None:
        """Take in frames from now on."""
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            async for text in self.socket:
                self.bytes += len(text)
                frame = json.loads(text)
                if frame["type"] == "event":
                    self.events.append(frame)
                    self._came.set()
                else:
                    self._answers.setdefault(frame["id"], asyncio.Queue()).put_nowait(frame)

    async def ask(self, method: str, /, **params: Any) -> Any:
        """Send a request and return the payload of its answer."""
        return await self.answer(await self.send(method, params))

    async def send(self, method: str, params: Any) -> str:
        """Send a request and return its id."""
        frame_id = str(uuid.uuid4())
        self._answers[frame_id] = asyncio.Queue()
        await self.socket.send(json.dumps({"type": "req", "id": frame_id, "method": method, "params": params}))
        return frame_id

    async def answer(self, frame_id: str, *, seconds: float = 15.0) -> Any:
        """Wait for the next answer to a request."""
        async with asyncio.timeout(seconds):
            frame = await self._answers.setdefault(frame_id, asyncio.Queue()).get()
        if not frame["ok"]:
            self.refused = frame["error"]
            raise Refused(frame["error"])
        return frame["payload"]

    async def error(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Send a request that is refused, and return the error."""
        try:
            found = await self.ask(method, **params)
        except Refused as refused:
            return refused.error
        raise AssertionError(f"{method} was answered with {found!r}")

    async def until(self, wanted: Callable[[dict[str, Any]], object], *, since: int = 0) -> dict[str, Any]:
        """Wait for an event, also one that came before, and return its frame."""
        async with asyncio.timeout(15.0):
            while True:
                for frame in self.events[since:]:
                    if wanted(frame):
                        return frame
                self._came.clear()
                await self._came.wait()

    async def until_chat(self, state: str, run_id: str | None = None) -> dict[str, Any]:
        """Wait for a chat event and return its payload."""

        def is_it(frame: dict[str, Any]) -> bool:
            body = frame["payload"]
            return frame["event"] == "chat" and body["state"] == state and run_id in {None, body["runId"]}

        return (await self.until(is_it))["payload"]

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return the payloads of one kind of event so far."""
        return [frame["payload"] for frame in self.events if frame["event"] == name]

    async def closed(self) -> tuple[int, str]:
        """Wait for the end of the connection and return its code and reason."""
        async with asyncio.timeout(15.0):
            if self._reading is not None:
                await self._reading
            else:
                with contextlib.suppress(websockets.ConnectionClosed):
                    while True:
                        await self.socket.recv()
        return self.socket.close_code, self.socket.close_reason

    async def close(self) -> None:
        """Hang up."""
        await self.socket.close()
        if self._reading is not None:
            await self._reading


def connect_params(**changes: Any) -> dict[str, Any]:
    """Return parameters of `connect` that are right."""
    params: dict[str, Any] = {
        "minProtocol": 3,
        "maxProtocol": 4,
        "client": {"id": "cli", "version": "0.1.0", "platform": "Linux", "mode": "cli"},
        "role": "operator",
        "scopes": ["operator.admin", "operator.read", "operator.write"],
        "caps": [],
        "auth": {"token": TOKEN},
    }
    return params | changes


@contextlib.asynccontextmanager
async def dialed(served: Served) -> AsyncGenerator[Client]:
    """Open a connection that has got its challenge and has said nothing."""
    async with websockets.connect(served.url, max_size=64 * 1024 * 1024, proxy=None, compression=None) as socket:
        client = Client(socket)
        client.challenge = json.loads(await socket.recv())
        try:
            yield client
        finally:
            await client.close()


async def introduce(client: Client, params: dict[str, Any]) -> dict[str, Any]:
    """Send `connect` and return the whole answer."""
    await client.socket.send(json.dumps({"type": "req", "id": "c1", "method": "connect", "params": params}))
    return json.loads(await client.socket.recv())


@contextlib.asynccontextmanager
async def connected(served: Served, device: Device | None = None, **changes: Any) -> AsyncGenerator[Client]:
    """Connect, and listen."""
    async with dialed(served) as client:
        params = connect_params(**changes)
        if device is not None:
            params["device"] = device.block(client.challenge["payload"]["nonce"], params)
        answer = await introduce(client, params)
        if not answer["ok"]:
            raise Refused(answer["error"])
        client.hello = answer["payload"]
        client.listen()
        yield client


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
