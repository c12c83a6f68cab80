"""The owner of a state directory answers the same user's other processes, and nobody else (architecture#ownership)."""

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from core.model.access import ALL, OPERATOR
from core.model.errors import Unavailable
from core.model.runs import RunRequest
from core.remote.native.local import attach
from core.server.conversation.conversation import HANDSHAKE_BYTES
from core.server.local import listen
from core.wire.local import SOCKET_NAME, reaching
from tests.contract.ways import own_context
from tests.support.owner import process
from tests.support.runtimes import MAIN, running, until
from tests.support.stores import NOBODY, as_nobody


async def test_another_process_hears_a_send_live(state: Path) -> None:
    async with running(state) as runtime:
        listener = await listen(own_context(runtime, state), state)
        async with process("hear", state) as other:
            assert other.stdout is not None
            ticket = await runtime.start_run(RunRequest(MAIN, "say hi", create=True), OPERATOR)
            lines = [(await other.stdout.readline()).decode().strip() for _ in range(2)]
            assert lines == ["user say hi", "assistant hi"]
            assert (await runtime.wait_run(ticket.run_id, 10)).status == "ok"
        await listener.close()


async def test_the_socket_is_the_users_alone_however_long_its_path(tmp_path: Path) -> None:
    state = tmp_path / ("long" * 30) / ("longer" * 30) / "state"
    async with running(state) as runtime:
        listener = await listen(own_context(runtime, state), state)
        found = (state / SOCKET_NAME).lstat()
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o600
        assert stat.S_IMODE(state.stat().st_mode) == 0o700
        gateway = await attach(state)
        assert "operator.admin" in gateway.connection.scopes
        await gateway.close()
        await listener.close()
        assert not (state / SOCKET_NAME).exists()


async def test_a_first_frame_that_promises_too_much_ends_the_connection(state: Path) -> None:
    hello = {"minProtocol": 4, "maxProtocol": 4, "client": {"id": "test", "mode": "test"}}
    async with running(state) as runtime:
        listener = await listen(own_context(runtime, state), state)
        for padding, answered in ((0, True), (HANDSHAKE_BYTES, False)):
            with reaching(state) as path:
                reader, writer = await asyncio.open_unix_connection(path)
            assert "connect.challenge" in (await reader.readline()).decode()
            frame = {"type": "req", "id": "1", "method": "connect", "params": hello | {"userAgent": "x" * padding}}
            writer.write(json.dumps(frame).encode() + b"\n")
            assert bool(await reader.readline()) == answered
            writer.close()
            await writer.wait_closed()
        await listener.close()


async def test_the_socket_of_a_dead_owner_is_replaced(state: Path) -> None:
    async with process("own", state, 0) as dead:
        dead.kill()
        await dead.wait()
    assert (state / SOCKET_NAME).exists()
    with pytest.raises(Unavailable, match="cannot be reached"):
        await attach(state)
    async with running(state) as runtime:
        listener = await listen(own_context(runtime, state), state)
        gateway = await attach(state)
        assert gateway.store_id == runtime.store_id
        await gateway.close()
        await listener.close()


async def test_closing_leaves_the_socket_of_the_next_owner_alone(state: Path) -> None:
    async with running(state) as runtime:
        first = await listen(own_context(runtime, state), state)
        second = await listen(own_context(runtime, state), state)
        await first.close()
        gateway = await attach(state)
        await gateway.close()
        await second.close()


async def test_nobody_answers_where_there_is_no_owner(tmp_path: Path) -> None:
    for state in (tmp_path / "none", tmp_path):
        with pytest.raises(Unavailable, match="cannot be reached"):
            await attach(state)


async def test_closing_lets_whoever_is_connected_go(state: Path) -> None:
    async with running(state) as runtime:
        listener = await listen(own_context(runtime, state), state)
        gateway = await attach(state)
        async with asyncio.timeout(10):
            await listener.close()
        await until(lambda: gateway.connection.state == "lost")
        await gateway.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
async def test_another_user_is_refused_even_if_the_folder_lets_it_in(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with running(state) as runtime:
        listener = await listen(own_context(runtime, state), state)
        for folder in (state, *state.parents):
            if not folder.stat().st_mode & stat.S_IXOTH:
                folder.chmod(0o755)
        (state / SOCKET_NAME).chmod(0o666)
        code = """
            import socket
            drop_rights()
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(10)
            s.connect(sys.argv[1])
            try:
                print(repr(s.recv(100)))
            except ConnectionResetError:
                print("b''")
        """
        done = await asyncio.to_thread(as_nobody, code, state / SOCKET_NAME)
        assert done.stdout.strip() == "b''", (done.stderr, NOBODY)
        gateway = await attach(state)
        assert (await gateway.models())[0].ref == "builtin"
        await gateway.close()
        await listener.close()
        assert await runtime.search("x", ALL) == []
