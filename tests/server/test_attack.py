"""The short form of `tests.tools.attack`: a server in a process of its own, and peers that want to do harm."""

import contextlib
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.tools.attack import ATTACKS, Asked, attack, prepare, target


@pytest.mark.spec("G8")
async def test_strangers_cost_little_and_nobody_waits_for_them(tmp_path: Path) -> None:
    await prepare(tmp_path, 0)
    with target(tmp_path) as server:
        await attack(server, "guesses", Asked(3, 0.3))  # everything is loaded then
        for name in ATTACKS.keys() - {"long-history", "followers"}:
            cost = await attack(server, name, Asked(10, 0.3))
            assert not cost.too_much, cost.line()


async def test_a_long_history_costs_little(tmp_path: Path) -> None:
    await prepare(tmp_path, 30)
    with target(tmp_path) as server:
        await attack(server, "guesses", Asked(3, 0.3))
        cost = await attack(server, "long-history", Asked(1, 20.0))
        assert cost.failed == 0
        assert cost.memory < cost.most_memory, cost.line()
        assert cost.wait < 1.0, "the long form looks closer, on a machine that does nothing else"


@contextlib.contextmanager
def limited(pid: int, megabytes: int) -> Generator[None]:
    """Put a process into a cgroup of its own, which the system ends when it holds more memory than it may."""
    name = f"switchboard-test-{pid}"
    new, old = Path("/sys/fs/cgroup") / name, Path("/sys/fs/cgroup/memory") / name
    folder, limit = (old, "memory.limit_in_bytes") if old.parent.is_dir() else (new, "memory.max")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made on this machine: {error.strerror}")
    try:
        try:
            (folder / limit).write_text(str(megabytes * 1024 * 1024))
            (folder / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            pytest.skip(f"no memory limit can be set on this machine: {error.strerror}")
        yield
    finally:
        with contextlib.suppress(OSError):
            (folder.parent / "cgroup.procs").write_text(str(pid))
        folder.rmdir()


async def test_a_server_with_little_memory_outlives_every_attack(tmp_path: Path) -> None:
    await prepare(tmp_path, 30)
    with target(tmp_path) as server, limited(server.pid, 160):
        for name in sorted(ATTACKS):
            await attack(server, name, Asked(10, 0.5))
        cost = await attack(server, "guesses", Asked(3, 0.3))
        assert cost.failed == 0, "a good client is answered afterwards"


@pytest.mark.spec("G3")
async def test_followers_that_read_nothing_share_what_waits_for_them(tmp_path: Path) -> None:
    await prepare(tmp_path, 30)
    with target(tmp_path) as server:
        await attack(server, "guesses", Asked(3, 0.3))
        cost = await attack(server, "followers", Asked(60, 4.0))
        assert cost.failed == 0
        assert cost.memory < cost.most_memory, cost.line()
