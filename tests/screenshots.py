"""`python -m tests.screenshots [NAME …]` draws the pictures of the console anew, all of them or those named.

The snapshot tests draw them; a picture here is what such a test compared, without the fonts that it would load from
elsewhere.
"""

import re
import sys
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path(__file__).parents[1] / "screenshots"
TESTS: Final = Path(__file__).parent / "snapshots" / "test_pictures.py"
_SNAPSHOTS: Final = TESTS.parent / "__snapshots__" / TESTS.stem
_INSTEAD: Final = (
    (re.compile(r"\s*@font-face \{.*?\n\s*\}", re.DOTALL), ""),
    (re.compile(r"\s*<!-- .*? -->"), ""),
    (re.compile(r"font-family: Fira Code, monospace;"), 'font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace;'),
)
_TEST: Final = "test_the_console_shows_what_it_showed"


def screenshot_of(name: str) -> str:
    """Return the picture of a scene, made of what its snapshot test compares."""
    text = (_SNAPSHOTS / f"{_TEST}[{name}].svg").read_text(encoding="utf-8")
    for unwanted, instead in _INSTEAD:
        text = unwanted.sub(instead, text)
    return text


def main() -> int:
    """Draw into `screenshots/`, and remove what no scene draws any more when all are drawn."""
    from tests.scenes.pictures import SCENES

    named = sys.argv[1:]
    unknown = [name for name in named if name not in SCENES]
    if unknown:
        print(f"no scene is called {unknown[0]}: use some of {', '.join(SCENES)}", file=sys.stderr)
        return 2
    tests = [f"{TESTS}::{_TEST}[{name}]" for name in named or SCENES]
    code = pytest.main([*tests, "--snapshot-update"])
    FOLDER.mkdir(exist_ok=True)
    for name in named or SCENES:
        (FOLDER / f"{name}.svg").write_text(screenshot_of(name), encoding="utf-8")
    for path in FOLDER.glob("*.svg") if not named else ():
        if path.stem not in SCENES and not path.stem.startswith("openclaw"):  # those are drawn by `tests.tools.peers`
            path.unlink()
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
