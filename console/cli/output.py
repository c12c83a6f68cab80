"""What commands print: plain lines that no text from a session can turn into anything else, or one JSON document."""

import json
import os
import sys
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TextIO

from console.live.text.clean import HARMLESS, clean, clean_line
from core.model.errors import Unavailable

LONGEST_SENTENCE: Final = 2000
_ESCAPED: Final = {
    code: f"\\u{code:04x}" if code < 0x10000 else json.dumps(chr(code))[1:-1] for code in HARMLESS if code >= 0x20
}


def print_json(document: Mapping[str, Any], *, indent: int | None = 2) -> None:
    """Print a JSON document; what a terminal would obey is escaped, which readers undo. `indent` None: on one line."""
    write_line(json.dumps(document, ensure_ascii=not draws_unicode(), indent=indent).translate(_ESCAPED))


def print_text(text: str) -> None:
    """Print words of a session, cleaned."""
    write_line(clean(text))


def print_line(text: str) -> None:
    """Print one sentence that may quote what comes from elsewhere, cleaned."""
    write_line(clean_line(text, LONGEST_SENTENCE))


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()) -> None:
    """Print rows in straight columns, those with an index in `right` right-aligned; the last one is not padded."""
    from rich.cells import cell_len

    cleaned = [[clean_line(cell) for cell in row] for row in rows]
    widths = [max(cell_len(row[n]) for row in [list(heads), *cleaned]) for n in range(len(heads))]
    for row in [list(heads), *cleaned]:
        cells: list[str] = []
        for n, cell in enumerate(row):
            pad = " " * (widths[n] - cell_len(cell))
            cells.append(pad + cell if n in right else cell + (pad if n < len(row) - 1 else ""))
        write_line("  ".join(cells).rstrip())


def print_message(message: Mapping[str, Any]) -> None:
    """Print a message of a session: a line about it, then its words and calls."""
    provenance = message.get("provenance")
    who = message["role"] if provenance is None else f"{provenance['sourceSessionKey']} → {message['role']}"
    if message["role"] == "toolResult":
        who = f"{message.get('toolName', 'tool')} {'failed' if message.get('isError') else 'answered'}"
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(message["timestamp"] / 1000))
    write_line(f"{message['seq']}  {when}  {clean_line(who)}")
    for block in message["content"]:
        if block.get("type") == "text":
            write_line(textwrap.indent(clean(str(block["text"])).rstrip(), "    "))
        elif block.get("type") == "toolCall":
            call = f"{block.get('name')} {json.dumps(block.get('arguments'), ensure_ascii=False)}"
            write_line(f"    ▸ {clean_line(call, LONGEST_SENTENCE)}")


def print_error(sentence: str) -> None:
    """Print one sentence on stderr."""
    _write(sys.stderr, f"switchboard: {clean_line(sentence, LONGEST_SENTENCE)}\n")


def print_progress(sentence: str) -> None:
    """Tell on stderr what is going on."""
    _write(sys.stderr, f"{clean_line(sentence, 400)}\n")


def write_line(text: str) -> None:
    """Print a line that is harmless already."""
    _write(sys.stdout, text + "\n")


def draws_unicode() -> bool:
    """Whether what is printed may hold more than ASCII."""
    return sys.stdout is not None and "utf" in (sys.stdout.encoding or "").lower()


def _write(stream: TextIO | None, text: str) -> None:
    """Write at once; when the reader has gone, the work goes on without. `Unavailable`: the output's disk is full."""
    if stream is None:  # closed before the start
        return
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except OSError as error:
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device; else the same bytes fail again at the exit
            os.dup2(nowhere.fileno(), stream.fileno())
        if not isinstance(error, BrokenPipeError):
            raise Unavailable(f"the output cannot be written: {error.strerror or error}") from error
