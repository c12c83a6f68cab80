"""The owner of a state directory answers other processes of the same user on the Unix socket in it
(architecture#ownership).

The socket lies in a folder that only this user may enter, and whoever connects is asked of the system: so no token is
asked for, and each connection is the owner's. A socket that a dead owner left behind is replaced by the next owner.
"""

import asyncio
import contextlib
import logging
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Final

from core.server.context import ServerContext
from core.server.conversation.conversation import Conversation
from core.tasks import Tasks
from core.wire.local import SOCKET_NAME, reaching
from core.wire.transport import LineTransport

_BACKLOG: Final = 64
_CREDENTIALS: Final = struct.Struct("3i")
_log = logging.getLogger("switchboard.server")


class SocketListener:
    """Answers on the socket until it is closed."""

    def __init__(self, context: ServerContext, state: Path) -> None:
        self._context = context
        self._path = state / SOCKET_NAME
        self._server: asyncio.Server | None = None
        self._node: tuple[int, int] | None = None
        self._closed = False
        self._conversations = Tasks(lambda error: _log.error("a conversation on the socket failed", exc_info=error))

    async def open(self) -> None:
        """Begin to answer; raises as `listen` does."""
        self._path.unlink(missing_ok=True)  # whoever owns the directory owns the socket
        with contextlib.ExitStack() as undo:
            bound = undo.enter_context(contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)))
            with reaching(self._path.parent) as path:
                bound.bind(path)
            self._path.chmod(0o600)
            self._node = _node(self._path)
            self._server = await asyncio.start_unix_server(self._begin, sock=bound, backlog=_BACKLOG)
            undo.pop_all()

    async def close(self) -> None:
        """End all conversations, and take the socket away; to be called while the directory is still owned."""
        self._closed = True
        if self._server is not None:
            self._server.close()
            self._server = None
            if _node(self._path) == self._node:
                self._path.unlink(missing_ok=True)
        await self._conversations.stop()

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid, uid = _peer(writer.get_extra_info("socket"))
        if self._closed or uid != os.getuid():  # it may have been accepted just before the end
            writer.transport.abort()
            return
        transport = LineTransport(reader, writer, peer=f"process {pid}", trusted=True, limit=self._context.limits.frame)
        conversation = self._conversations.spawn(Conversation(self._context, transport).run())
        conversation.add_done_callback(lambda _: writer.transport.abort())  # also when it ends before it begins


async def listen(context: ServerContext, state: Path) -> SocketListener:
    """Answer on the socket of a state directory that this process owns.

    Raises `OSError` when the directory cannot be written.
    """
    listener = SocketListener(context, state)
    await listener.open()
    return listener


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Return process and user at the other end."""
    if not sys.platform.startswith("linux"):
        return 0, os.getuid()  # the folder lets nobody else in
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(found)
    return pid, uid


def _node(path: Path) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        found = path.lstat()
        return found.st_dev, found.st_ino
    return None
