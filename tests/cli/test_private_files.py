"""What is kept is for its owner alone: modes whatever the umask, no link followed, no folder that others write to."""

import os
import pwd
import shlex
import stat
import subprocess
from pathlib import Path

import pytest

from console.live.memory import FILE_NAME as MEMORY
from console.live.memory import Memory
from console.profiles import FILE_NAME as PROFILES
from core.config.token import TOKEN_NAME
from core.files import write_secret
from core.store.explain import DATABASE_NAME
from core.store.guard import LOCK_NAME
from tests.cli.program import Cli, program
from tests.support.stores import NOBODY, as_nobody

EVERYTHING_IS_WRITTEN = """
    import os, sys, tempfile
    from pathlib import Path
    from console.cli.parser import run
    from console.live.memory import Memory
    from core.config.token import kept_token
    from core.remote.credentials import DeviceTokens
    from core.remote.profile import Origin

    def write(home):
        os.environ["SWITCHBOARD_HOME"] = str(home)
        state = home / "state"
        assert run(["send", "main", "hello"]) == 0
        Memory(state / "console.json", {"a": "b"}).save()
        kept_token(state)
        DeviceTokens(state).put("wss://host", "token")

    with tempfile.TemporaryDirectory() as warm:  # what is imported may lie where only root can read
        write(Path(warm))
    drop_rights()  # root may read what has no rights
    os.umask(int(sys.argv[2]))
    write(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077, 0o277, 0o777])
def test_folders_and_files_are_for_one_user_whatever_the_umask(public: Path, umask: int) -> None:
    given = public / "given"
    given.mkdir()
    if os.getuid() == 0:
        os.chown(given, NOBODY, NOBODY)
    above = given / "above"
    done = as_nobody(EVERYTHING_IS_WRITTEN, above / "inner", umask)
    assert "Traceback" not in done.stderr, done.stderr
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in [above, *above.rglob("*")]}
    names = {path.name for path in found}
    assert {DATABASE_NAME, LOCK_NAME, "transcripts", MEMORY, TOKEN_NAME, "device-tokens.json"} <= names
    assert {mode for path, mode in found.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in found.items() if path.is_file()} == {0o600}


def test_modes_are_there_from_the_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the umask takes nothing from the owner, nothing has to be changed after it was made."""

    def too_late(*args: object, **kwargs: object) -> None:
        raise AssertionError(f"a moment with other rights: {args} {kwargs}")

    monkeypatch.setattr(os, "chmod", too_late)
    monkeypatch.setattr(os, "fchmod", too_late)
    before = os.umask(0)
    try:
        write_secret(tmp_path / "above" / "inner" / "file", "text")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in sorted((tmp_path / "above").rglob("*"))] == [0o700, 0o600]


@pytest.mark.parametrize("name", [LOCK_NAME, DATABASE_NAME, "transcripts", PROFILES])
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_where_a_file_should_be_is_not_followed(cli: Cli, tmp_path: Path, name: str, exists: bool) -> None:
    state, outside = tmp_path / "state", tmp_path / "outside"
    state.mkdir(0o700)
    if exists and name == "transcripts":
        outside.mkdir()
    elif exists:
        outside.write_bytes(b"")
    (state / name).symlink_to(outside)
    said = cli(*(("gateways",) if name == PROFILES else ("send", "main", "hello")), "--state", str(state))
    if name == "transcripts":  # the copies for people; the message itself is in the database
        assert said.code == 0, said.err
    else:
        assert said.code == 1
        assert "a link" in said.sentence
    assert outside.exists() == exists
    assert not exists or not (list(outside.iterdir()) if outside.is_dir() else outside.read_bytes())


def test_a_token_and_what_is_remembered_do_not_go_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    state = tmp_path / "state"
    state.mkdir(0o700)
    (state / MEMORY).symlink_to(outside)
    Memory(state / MEMORY, {"a": "b"}).save()
    assert outside.read_text() == "untouched"
    assert not (state / MEMORY).is_symlink()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_state_directory_that_others_may_write_to_is_refused_with_what_mends_it(
    cli: Cli, tmp_path: Path, mode: int
) -> None:
    state = tmp_path / "a state"
    state.mkdir()
    state.chmod(mode)
    for line in (["list"], ["send", "main", "hello"], ["gateways"]):
        said = cli(*line, "--state", str(state))
        assert said.code == 1, line
        assert (
            said.sentence
            == f"others may write to the folder {state}: `chmod go-w {shlex.quote(str(state))}` mends that"
        )
        assert not list(state.iterdir())
    subprocess.run(said.sentence.split("`")[1], shell=True, check=True)
    assert cli("send", "main", "hello", "--state", str(state)).code == 0


def test_a_folder_of_the_configuration_that_others_may_write_to_is_refused(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    config, state = folder / "config.json5", tmp_path / "state"
    config.write_text("{}")
    folder.chmod(0o775)
    said = cli("list", "--state", str(state), "--config", str(config))
    assert (said.code, said.sentence) == (
        2,
        f"the configuration is not safe: others may write to the folder {folder}: `chmod go-w {folder}` mends that",
    )
    folder.chmod(0o1777)  # as /tmp is
    assert cli("list", "--state", str(state), "--config", str(config)).code == 0


def test_a_state_directory_below_a_folder_for_all_is_fine(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert program("send", "main", "hello", "--state", str(tmp_path / "state")).code == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a link of somebody else")
def test_a_link_to_the_state_that_somebody_else_made_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(0o700)
    link = tmp_path / "state"
    link.symlink_to(tmp_path / "real")
    assert cli("send", "main", "hello", "--state", str(link)).code == 0
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    said = cli("list", "--state", str(link))
    assert (said.code, said.sentence) == (1, f"{link} is a link that nobody made: remove it, or choose another folder")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder of somebody else")
def test_a_state_directory_of_somebody_else_is_refused_with_what_mends_it(cli: Cli, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(0o700)
    os.chown(state, NOBODY, NOBODY)
    for line in (["list"], ["send", "main", "hello"]):
        said = cli(*line, "--state", str(state))
        assert said.code == 1
        assert said.sentence.startswith(f"the folder {state} belongs to nobody, not to ")
        assert f"chown -R {pwd.getpwuid(os.getuid()).pw_name} {state}`" in said.sentence
        assert not list(state.iterdir())
    os.chown(state, os.getuid(), os.getgid())
    assert cli("send", "main", "hello", "--state", str(state)).code == 0
