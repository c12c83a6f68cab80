"""A console that breaks says so in one sentence, and leaves terminal, state and log in order."""

import sys
from pathlib import Path

from tests.support.terminal import ESCAPES, Terminal
from tests.terminal.test_lifecycle import RESTORED, environment, to_the_list

BREAKS = """
import sys
from console.__main__ import main
from console.screens.watch.navigation import Navigation

def breaks(self):
    raise ZeroDivisionError("words of a session") from ValueError(
        "other words of"
        " a session"
    )

Navigation.do_order = breaks
main()
"""


def test_a_console_that_breaks_says_so_in_one_sentence(tmp_path: Path) -> None:
    breaks = tmp_path / "breaks.py"
    breaks.write_text(BREAKS)
    command = [sys.executable, str(breaks), "--state", str(tmp_path / "state")]
    with Terminal(command, environment(tmp_path)) as terminal:
        terminal.wait_for("No model is set")
        to_the_list(terminal)
        terminal.press("O")
        terminal.wait_for("was closed")
        while terminal.read(0.1):
            pass
        said = " ".join(ESCAPES.sub(b"", terminal.output).decode(errors="replace").split())
        assert "switchboard: the console broke (ZeroDivisionError) and was closed." in said
        assert "Traceback" not in said
        assert "words of a session" not in said
        assert all(sequence in terminal.output for sequence in RESTORED)
    log = (tmp_path / "state" / "switchboard.log").read_text()
    assert "the console broke" in log
    assert 'breaks.py", line 7, in breaks' in log
    assert "words of" not in log
    assert "ZeroDivisionError" in log
