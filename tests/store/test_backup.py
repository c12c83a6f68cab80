"""A backup is one file that is whole or not there; a restore leaves the old directory or the new one, never a half."""

import hashlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from core.model.access import ALL
from core.model.errors import Conflict, Invalid, NotFound, Unavailable
from core.model.sessions import SessionQuery
from core.store import jsonl, messages, sessions
from core.store.database import Store, store_id
from core.store.explain import DATABASE_NAME
from core.store.guard import LOCK_NAME
from core.store.lock import OwnerLock
from core.store.maintenance.backup import MANIFEST, Backup, create, open_backup, read
from core.store.maintenance.restore import KEPT, restore
from tests.support.stores import ROOT, opened, say
from tests.support.stores import create as create_session

KEY = "agent:main:main"
NOW = 1_795_000_000_000


async def fill(state: Path, words: str = "words", count: int = 20) -> None:
    """Write a state directory with everything that a backup holds, and with what it does not."""
    async with opened(state) as store:
        await store.write(lambda tx: create_session(tx, KEY))
        for number in range(count):
            await store.write(lambda tx, number=number: say(tx, KEY, f"{words} {number}"))
        session = sessions.by_key(store.db, KEY)
        assert session is not None
        await store.scan(lambda db: jsonl.append_new(db, state, KEY, session.session_id))
    (state / "console.json").write_text('{"drafts": {}}')
    folder = state / "workspaces/main/.openclaw/attachments/child"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "file").write_bytes(b"attached" * 1000)
    (state / "identity").mkdir(exist_ok=True)
    for name in KEPT:
        (state / name).write_text(f"the secret of {words}")


def save(state: Path, target: Path) -> Backup:
    """Make a backup."""
    return create(state, target, version="0.test", now_ms=NOW)


def texts(state: Path) -> list[str]:
    """Return what was said in a state directory."""
    store = Store.open(state, SystemClock())
    try:
        assert store.db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        rows = sessions.select(store.db, SessionQuery(archived=None), ALL).sessions
        found = [messages.at(store.db, KEY, seq) for row in rows for seq in range(1, row.last_seq + 1)]
        return [message.text for message in found if message is not None]
    finally:
        store.close()


def said(words: str = "words", count: int = 20) -> list[str]:
    """Return what `fill` says."""
    return [f"{words} {number}" for number in range(count)]


async def test_what_was_saved_comes_back(state: Path, tmp_path: Path) -> None:
    await fill(state)
    made = save(state, tmp_path / "b.tar")
    assert (made.sessions, made.messages, made.created_at) == (1, 20, NOW)
    assert made.bytes == (tmp_path / "b.tar").stat().st_size
    assert made.sha256 == hashlib.sha256((tmp_path / "b.tar").read_bytes()).hexdigest()
    other = tmp_path / "other"
    done = restore(tmp_path / "b.tar", other, SystemClock(), force=False)
    assert (done.old, done.backup) == (None, made)
    assert texts(other) == said()
    for path in [other, *other.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    for name in ("console.json", "workspaces/main/.openclaw/attachments/child/file"):
        assert (other / name).read_bytes() == (state / name).read_bytes()
    (transcript,) = (other / "transcripts").iterdir()
    assert transcript.read_bytes() == (state / "transcripts" / transcript.name).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar", "other", "state"]


async def test_keys_and_tokens_are_not_in_it_and_stay_those_of_the_directory(state: Path, tmp_path: Path) -> None:
    await fill(state)
    save(state, tmp_path / "b.tar")
    assert b"the secret of" not in (tmp_path / "b.tar").read_bytes()
    restore(tmp_path / "b.tar", tmp_path / "other", SystemClock(), force=False)
    assert not any((tmp_path / "other" / name).exists() for name in KEPT)
    await fill(tmp_path / "third", "other words")
    done = restore(tmp_path / "b.tar", tmp_path / "third", SystemClock(), force=True)
    assert {(tmp_path / "third" / name).read_text() for name in KEPT} == {"the secret of other words"}
    assert texts(tmp_path / "third") == said()
    assert done.old is not None
    assert texts(done.old) == said("other words")


async def test_a_restored_store_is_another_one_so_that_no_cursor_fits_it(state: Path, tmp_path: Path) -> None:
    await fill(state)
    save(state, tmp_path / "b.tar")
    restore(tmp_path / "b.tar", tmp_path / "other", SystemClock(), force=False)
    ids: set[str] = set()
    for directory in (state, tmp_path / "other"):
        store = Store.open(directory, SystemClock())
        ids.add(store_id(store.db))
        store.close()
    assert len(ids) == 2


async def test_transcripts_are_never_ahead_of_the_database(state: Path, tmp_path: Path) -> None:
    await fill(state)
    (path,) = (state / "transcripts").iterdir()
    with path.open("ab") as file:
        file.write(b'{"half a line')
    save(state, tmp_path / "b.tar")
    restore(tmp_path / "b.tar", tmp_path / "other", SystemClock(), force=False)
    assert (tmp_path / "other/transcripts" / path.name).read_bytes().endswith(b"}\n")
    assert len((tmp_path / "other/transcripts" / path.name).read_text().splitlines()) == 21


async def test_what_lies_behind_links_is_not_saved(state: Path, tmp_path: Path) -> None:
    await fill(state)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("not ours")
    (state / "workspaces/main/.openclaw/attachments/linked").symlink_to(outside)
    (state / "workspaces/main/.openclaw/attachments/child/linked").symlink_to(outside / "file")
    (state / "transcripts/linked.jsonl").symlink_to(outside / "file")
    made = save(state, tmp_path / "b.tar")
    assert not [entry for entry in made.files if "linked" in entry.path]
    assert b"not ours" not in (tmp_path / "b.tar").read_bytes()


async def test_a_backup_never_replaces_a_file_and_wants_something_to_save(state: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is nothing to back up"):
        save(state, tmp_path / "b.tar")
    assert not state.exists()
    await fill(state)
    (tmp_path / "b.tar").write_text("mine")
    with pytest.raises(Conflict, match=r"b\.tar exists already"):
        save(state, tmp_path / "b.tar")
    assert (tmp_path / "b.tar").read_text() == "mine"
    with pytest.raises(NotFound, match="does not exist: make it"):
        save(state, tmp_path / "none" / "b.tar")


async def test_a_damaged_database_is_not_saved(state: Path, tmp_path: Path) -> None:
    await fill(state, "long " * 500, 100)
    path = state / DATABASE_NAME
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(os.urandom(40_960))
    with pytest.raises(Unavailable, match="damaged"):
        save(state, tmp_path / "b.tar")
    assert [each.name for each in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("place", [0.0, 0.01, 0.3, 0.6, 0.9, 0.97])
@pytest.mark.parametrize("how", ["changed", "cut"])
async def test_a_damaged_backup_changes_nothing(state: Path, tmp_path: Path, place: float, how: str) -> None:
    await fill(state)
    save(state, tmp_path / "b.tar")
    data = bytearray((tmp_path / "b.tar").read_bytes())
    end = len(data.rstrip(b"\0"))
    if how == "cut":
        data = data[: int(end * place)]
    else:
        data[int(end * place)] ^= 0xFF
    (tmp_path / "b.tar").write_bytes(data)
    before = everything(tmp_path)
    for target in (tmp_path / "other", state):
        with pytest.raises((Invalid, Unavailable)) as caught:
            restore(tmp_path / "b.tar", target, SystemClock(), force=True)
        assert "\n" not in caught.value.message
    assert everything(tmp_path) == before
    assert texts(state) == said()


def everything(folder: Path) -> list[Path]:
    """Return what lies in a folder, but the file that says who owns it."""
    return sorted(path for path in folder.rglob("*") if path.name != LOCK_NAME)


def member(name: str, data: bytes = b"x", kind: bytes = tarfile.REGTYPE) -> tuple[tarfile.TarInfo, bytes]:
    """Return a member of a tar."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, len(data) if kind == tarfile.REGTYPE else 0, "/etc/passwd"
    return info, data


@pytest.mark.parametrize(
    "extra",
    [
        member("../escaped"),
        member("/escaped"),
        member("transcripts/../../escaped.jsonl"),
        member("transcripts/..jsonl/x"),
        member("transcripts/link.jsonl", kind=tarfile.SYMTYPE),
        member("transcripts/link.jsonl", kind=tarfile.LNKTYPE),
        member("transcripts/pipe.jsonl", kind=tarfile.FIFOTYPE),
        member("workspaces/main/.openclaw/attachments/../x"),
        member("workspaces/main/.openclaw/attachments/a/.."),
        member("gateway.token"),
        member("owner.lock"),
        member(DATABASE_NAME),
    ],
    ids=lambda each: f"{each[0].name}-{each[0].type!r}",
)
async def test_a_backup_that_somebody_made_up_writes_nowhere(
    state: Path, tmp_path: Path, extra: tuple[tarfile.TarInfo, bytes]
) -> None:
    await fill(state)
    save(state, tmp_path / "b.tar")
    made_up = tmp_path / "made-up.tar"
    info, data = extra
    with tarfile.open(tmp_path / "b.tar") as old, tarfile.open(made_up, "w") as new:
        for each in old.getmembers():
            content = old.extractfile(each)
            assert content is not None
            body = content.read()
            if each.name == MANIFEST:
                new.addfile(info, io.BytesIO(data))
                manifest: dict[str, Any] = json.loads(body)
                entry = {"path": info.name, "bytes": info.size, "sha256": hashlib.sha256(data).hexdigest()}
                manifest["files"].append(entry)
                body = json.dumps(manifest).encode()
                each.size = len(body)
            new.addfile(each, io.BytesIO(body))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises((Invalid, Unavailable)):
        restore(made_up, tmp_path / "other", SystemClock(), force=False)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        ("[]", "its manifest is of something else"),
        ("{", "its manifest cannot be read: that is not JSON"),
        ('{"format": "x", "format": "y"}', 'names "format" twice'),
        ('{"format": NaN}', "NaN is no number"),
        ('{"createdAt": 1e999}', "1e999 is larger"),
        (f'{{"createdAt": {"1" * 5000}}}', "more than 4,300 digits"),
        ("[" * 200_000, "too deep"),
    ],
    ids=lambda each: str(each)[:25],
)
def test_a_manifest_that_cannot_be_read_is_one_sentence(tmp_path: Path, manifest: str, why: str) -> None:
    path = tmp_path / "b.tar"
    info = tarfile.TarInfo(MANIFEST)
    info.size = len(manifest)
    with tarfile.open(path, "w") as tar:
        tar.addfile(info, io.BytesIO(manifest.encode()))
    with pytest.raises(Invalid, match=f"b.tar is no backup that can be used: .*{why}"):
        restore(path, tmp_path / "state", SystemClock(), force=False)
    assert not (tmp_path / "state").exists()


def test_what_is_no_backup_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist: give the file of a backup"):
        restore(tmp_path / "none", tmp_path / "state", SystemClock(), force=False)
    for content in (b"", b"no tar", b"\0" * 10_240):
        (tmp_path / "b.tar").write_bytes(content)
        with pytest.raises(Invalid, match="is no backup that can be used"):
            restore(tmp_path / "b.tar", tmp_path / "state", SystemClock(), force=False)
    assert not (tmp_path / "state").exists()


async def test_a_directory_that_is_not_empty_is_kept_or_refused(state: Path, tmp_path: Path) -> None:
    await fill(state)
    save(state, tmp_path / "b.tar")
    async with opened(state) as store:
        await store.write(lambda tx: say(tx, KEY, "later"))
    with pytest.raises(Conflict, match="is not empty: choose another with --state DIR, or replace it with --force"):
        restore(tmp_path / "b.tar", state, SystemClock(), force=False)
    olds = [restore(tmp_path / "b.tar", state, SystemClock(), force=True).old for _ in range(2)]
    assert texts(state) == said()
    assert len(set(olds)) == 2
    assert olds[0] is not None
    assert texts(olds[0]) == [*said(), "later"]
    lock = OwnerLock.acquire(state, "serve", 0)
    with pytest.raises(Conflict, match="is owned by switchboard serve"):
        restore(tmp_path / "b.tar", state, SystemClock(), force=True)
    lock.release()
    (tmp_path / "empty").mkdir()
    restore(tmp_path / "b.tar", tmp_path / "empty", SystemClock(), force=False)
    assert texts(tmp_path / "empty") == said()


KILLED = """
import os, signal, sys
from pathlib import Path
from core.clock import SystemClock
from core.store.maintenance import backup, restore
from core.store.database import Store
what, file, state, at = sys.argv[1:]
calls = 0
def counted(module, name):
    real = getattr(module, name)
    def call(*args, **more):
        global calls
        for _ in range(2):  # before it, and after it
            if calls == int(at):
                os.kill(os.getpid(), signal.SIGKILL)
            calls += 1
            if _ == 0:
                answer = real(*args, **more)
        return answer
    setattr(module, name, call)
for name in ("open", "fsync", "rename", "replace", "link", "mkdir"):
    counted(os, name)
counted(restore, "_exchange")
if what == "backup":
    backup.create(Path(state), Path(file), version="0", now_ms=0)
else:
    restore.restore(Path(file), Path(state), SystemClock(), force=True)
print("done")
"""


def killed_at_every_call(what: str, file: Path, state: Path, look: Callable[[], None]) -> int:
    """Do something again and again, killed at one call after the other; return how many there were."""
    first = random.randrange(STEP)
    for at in range(2000):
        line = [sys.executable, "-c", KILLED, what, str(file), str(state), str(first + at * STEP)]
        done = subprocess.run(line, cwd=ROOT, check=False, capture_output=True, text=True)
        look()
        if done.returncode == 0:
            return at
        assert done.returncode == -signal.SIGKILL, done.stderr
    raise AssertionError("it never ended")


STEP = int(os.environ.get("KILL_STEP", "12"))
"""Every twelfth call in the suite, from another one each time; KILL_STEP=1 for each of them."""


async def test_a_backup_that_is_killed_leaves_no_file_or_a_whole_one(state: Path, tmp_path: Path) -> None:
    await fill(state, count=3)
    file = tmp_path / "b.tar"

    def look() -> None:
        if file.exists():
            with open_backup(file) as opened_file:
                assert read(opened_file, file).messages == 3
            file.unlink()

    assert killed_at_every_call("backup", file, state, look) > 0
    assert texts(state) == said(count=3)


async def test_a_restore_that_is_killed_leaves_the_old_or_the_new_directory(state: Path, tmp_path: Path) -> None:
    await fill(state, "new", 3)
    save(state, tmp_path / "b.tar")
    target = tmp_path / "target"
    await fill(target, "old", 4)
    outcomes: list[str] = []

    def look() -> None:
        found = texts(target)
        assert found in (said("new", 3), said("old", 4))
        assert {(target / name).read_text() for name in KEPT} == {"the secret of old"}
        outcomes.append(found[0])

    assert killed_at_every_call("restore", tmp_path / "b.tar", target, look) > 2
    assert outcomes[0] == "old 0"
    assert outcomes[-1] == "new 0"
