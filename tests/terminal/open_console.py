"""Opens the console with walls taken away, so that a test can see what each of them holds back alone.

    python -m tests.terminal.open_console <walls> <state> <config>

`walls`: `both`, `entrance` (that of `console.live.text.clean`), `exit` (that of `console.sanitizer`) or `none`.
"""

import sys

from console.live.text import clean


def _same(text: str) -> str:
    return text


def _same_line(text: str, limit: int = 200) -> str:
    return text[:limit]


def main(walls: str, state: str, config: str) -> int:
    """Open the console and return its exit code."""
    if walls in {"none", "exit"}:  # before anything else imports them
        clean.clean, clean.clean_line = _same, _same_line
    from console import sanitizer
    from console.start import run_console

    if walls in {"none", "entrance"}:
        sanitizer.OutputSanitizer.apply = lambda self, segments, background: segments
    return run_console(state, config, demo=False)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
