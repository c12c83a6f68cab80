"""A headless Chromium on a page, and a web server that shows the page and a gateway as one origin."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets

TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json"}
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,800",
    "--remote-debugging-port=0",
)
ALL_TEXT = """(() => { const found = []; const walk = root => { for (const node of root.childNodes) {
  if (node.nodeType === 3) found.push(node.textContent);
  else if (node.nodeType === 1 && !["SCRIPT", "STYLE"].includes(node.tagName)) {
    if (node.shadowRoot) walk(node.shadowRoot); walk(node); } } };
  if (document.body) walk(document.body); return found.join(" "); })()"""


@asynccontextmanager
async def one_origin(folder: Path, gateway_port: int) -> AsyncGenerator[str]:
    """Serve the files of a web UI, and pass WebSockets on to a gateway; yields the address of both."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if b"upgrade: websocket" in head.lower():
                await pass_on(head, reader, writer, gateway_port)
            else:
                writer.write(page(folder, head.split(b" ", 2)[1].decode()))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0, limit=1 << 20)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def page(folder: Path, target: str) -> bytes:
    """Return the answer for a file; what has no ending is a place within the UI."""
    path = target.partition("?")[0].lstrip("/")
    file = folder / path if Path(path).suffix else folder / "index.html"
    body = file.read_bytes() if file.is_file() else b""
    kind = TYPES.get(file.suffix, "application/octet-stream")
    status = "200 OK" if file.is_file() else "404 Not Found"
    head = (f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body)}", "connection: close", "", "")
    return "\r\n".join(head).encode() + body


async def pass_on(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Join a client with the gateway, byte by byte."""
    theirs, ours = await asyncio.open_connection("127.0.0.1", port)
    ours.write(head)

    async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                to.write(data)
                await to.drain()
        to.close()

    await asyncio.gather(copy(reader, ours), copy(theirs, writer))


class Browser:
    """One page of a Chromium, over its debugging protocol."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self._socket = socket
        self._last = 0

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the debugging protocol."""
        self._last += 1
        await self._socket.send(json.dumps({"id": self._last, "method": method, "params": params}))
        while True:
            answer = json.loads(await self._socket.recv())
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return answer["result"]

    async def evaluate(self, script: str) -> Any:
        """Return the value of an expression on the page."""
        result = await self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    async def text(self) -> str:
        """Return all words on the page, those of its web components too."""
        return " ".join((await self.evaluate(ALL_TEXT)).split())

    async def wait_for(self, wanted: Callable[[str], bool], what: str, seconds: float = 40.0) -> str:
        """Wait until the words on the page are as wanted, and return them."""
        text = ""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not wanted(text := await self.text()):
                    await asyncio.sleep(0.05)
                return text
        raise AssertionError(f"no {what} on the page: {text[-1500:]}")

    async def write(self, words: str) -> None:
        """Type into what has the focus, and press Enter."""
        await self.ask("Input.insertText", text=words)
        for kind in ("keyDown", "keyUp"):
            await self.ask(
                "Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r"
            )

    async def click(self, selector: str) -> bool:
        """Click the first visible element, also within web components; False when there is none."""
        script = """(selector => { const walk = root => { for (const each of root.querySelectorAll("*")) {
          if (each.matches(selector) && each.offsetParent !== null) return each;
          const inner = each.shadowRoot && walk(each.shadowRoot); if (inner) return inner; } };
          const found = walk(document); if (!found) return false; found.focus(); found.click(); return true; })"""
        return bool(await self.evaluate(f"{script}({json.dumps(selector)})"))


@asynccontextmanager
async def browsing(url: str, profile: Path) -> AsyncGenerator[Browser]:
    """Open a page in a Chromium of its own; without one on this machine the test is skipped."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium on this machine: Debian's package chromium has it")
    process = await asyncio.create_subprocess_exec(
        program,
        *FLAGS,
        f"--user-data-dir={profile}",
        url,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "HOME": str(profile)},
    )
    try:
        async with asyncio.timeout(60):
            address = await debugging_address(profile / "DevToolsActivePort")
        async with websockets.connect(address, proxy=None, max_size=None) as socket:
            yield Browser(socket)
    finally:
        process.terminate()
        await process.wait()


async def debugging_address(file: Path) -> str:
    """Return where the page is debugged, once the browser has told it."""
    while not file.exists() or "\n" not in file.read_text():
        await asyncio.sleep(0.05)
    async with httpx.AsyncClient(trust_env=False) as client:
        while True:
            listed = (await client.get(f"http://127.0.0.1:{file.read_text().split()[0]}/json/list")).json()
            if pages := [each for each in listed if each["type"] == "page"]:
                return pages[0]["webSocketDebuggerUrl"]
            await asyncio.sleep(0.05)
