"""W8: files of the command line for a sub-agent."""

import hashlib
import json
from pathlib import Path
from typing import Any, cast

import pytest

from console.cli.parser import run
from core.model.attachments import MAX_BYTES


def spawn(capsys: pytest.CaptureFixture[str], state: Path, *files: Path) -> tuple[int, dict[str, object]]:
    """Run the command and return its exit code and answer."""
    attached = [word for file in files for word in ("--attach", str(file))]
    code = run(["--state", str(state), "--json", "spawn", "say hi", *attached])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.spec("W8")
def test_files_are_attached(capsys: pytest.CaptureFixture[str], state: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "one.bin", tmp_path / "two.txt"
    first.write_bytes(b"\0\xff")
    second.write_text("two")
    code, answer = spawn(capsys, state, first, second)
    assert (code, answer["status"]) == (0, "accepted")
    receipt = answer["attachments"]
    assert isinstance(receipt, dict)
    assert receipt["files"] == [
        {"name": path.name, "bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in (first, second)
    ]
    assert Path(str(cast("dict[str, Any]", receipt)["directory"]), "one.bin").read_bytes() == b"\0\xff"


@pytest.mark.spec("W8")
def test_what_cannot_be_attached_is_one_sentence(
    capsys: pytest.CaptureFixture[str], state: Path, tmp_path: Path
) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(100 * MAX_BYTES)
    for path, words in (
        (large, "larger than 5,242,880 bytes"),
        (tmp_path / "none", "none cannot be read: No such file"),
    ):
        code, answer = spawn(capsys, state, path)
        assert (code, answer["code"]) == (2, "invalid")
        assert words in str(answer["error"])
