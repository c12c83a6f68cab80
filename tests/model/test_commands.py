"""P3: which messages are commands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.model.commands import COMMANDS, Command, parse_command
from core.model.errors import Invalid


@pytest.mark.spec("P3")
@pytest.mark.parametrize("word", ["on", "off", "inherit"])
@pytest.mark.parametrize("written", ["/send {}", "  /send   {}  ", "/SEND {}", "/send\t{}", "/send {}\n"])
def test_send_is_read_however_it_is_written(word: str, written: str) -> None:
    assert parse_command(written.format(word)) == Command("send", word)
    assert parse_command(written.format(word.upper())) == Command("send", word)


@pytest.mark.spec("P3")
@pytest.mark.parametrize("text", ["/send", "/send maybe", "/send on off", "/abort now", "/reset please", "/spawn "])
def test_a_wrong_argument_is_refused_with_the_usage(text: str) -> None:
    with pytest.raises(Invalid, match="usage: /"):
        parse_command(text)


@pytest.mark.parametrize(
    "text",
    ["hello", "say /send off", "/send off\nand more", "/etc/passwd is a file", "/ send off", "/sendoff", "//", "/"],
)
def test_everything_else_is_an_ordinary_message(text: str) -> None:
    assert parse_command(text) is None


def test_optional_arguments_may_be_left_out() -> None:
    assert parse_command("/label") == Command("label", "")
    assert parse_command("/label The  boss") == Command("label", "The  boss")
    assert parse_command("/model p/m") == Command("model", "p/m")


@given(st.sampled_from(sorted(COMMANDS)), st.sampled_from(["", "on", "do this"]))
def test_a_command_as_it_is_written_means_itself(name: str, argument: str) -> None:
    try:
        command = parse_command(f"/{name} {argument}")
    except Invalid:
        return
    assert command is not None
    assert parse_command(command.written) == command


def test_every_command_says_how_it_is_used() -> None:
    for name, spec in COMMANDS.items():
        assert spec.name == name
        assert spec.usage.startswith(f"/{name}")
        assert spec.help
