"""Text stands at least 4.5:1 from what is behind it, in every theme whose colours are ours (console#contrast)."""

import math

import pytest
from rich.color import Color
from rich.style import Style

from console.themes import THEMES, Palette
from console.widgets.markdown_lines import MarkdownLines
from tests.scenes.pictures import SCENES, draw

OURS = [palette for palette in THEMES.values() if not palette.ansi]
WORDS = ("text", "muted", "accent", "good", "warning", "error")
BEHIND = ("back", "panel", "cursor")
LEAST = 4.5
CODE = '''```python
# a comment
import os
@decorated
class Region(Base):
    """Words."""
    def price(self, n: int = 0x1f) -> float:
        return -1.5e3 if n is None else len(f"{n!r} \\n") + self.n % 2
```'''


def luminance(color: str) -> float:
    """Return the relative luminance of `#rrggbb` as WCAG 2 defines it, from 0 to 1."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def hex_of(color: Color | None) -> str | None:
    """Return a colour as `#rrggbb`, None for none."""
    return color.get_truecolor().hex if color is not None else None


def test_the_formula_is_the_one_of_wcag() -> None:
    assert math.isclose(contrast("#000000", "#ffffff"), 21, rel_tol=1e-6)
    assert math.isclose(contrast("#777777", "#ffffff"), 4.48, abs_tol=0.01)


def test_the_themes_are_there() -> None:
    assert {palette.name for palette in OURS} == {"switchboard-dark", "switchboard-light", "switchboard-contrast"}
    assert not next(palette for palette in OURS if palette.name == "switchboard-light").dark


@pytest.mark.parametrize("palette", OURS, ids=lambda palette: palette.name)
@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("colour", WORDS)
def test_words_can_be_read(palette: Palette, colour: str, behind: str) -> None:
    assert contrast(getattr(palette, colour), getattr(palette, behind)) >= LEAST


@pytest.mark.parametrize("palette", OURS, ids=lambda palette: palette.name)
def test_code_can_be_read(palette: Palette) -> None:
    lines = MarkdownLines(palette).draw(CODE, 80)
    styles = {segment.style or Style() for line in lines for segment in line if segment.text.strip()}
    colors = {hex_of(style.color) for style in styles} - {None}
    assert len(colors) >= 3
    assert {hex_of(style.bgcolor) for style in styles} == {None}, "code stands on the background of the text"
    assert {color: ratio for color in colors if (ratio := contrast(str(color), palette.back)) < LEAST} == {}


@pytest.mark.parametrize("name", ["watch-120x36", "watch-200x60", "light-120x36", "contrast-120x36", "no-color-120x36"])
async def test_every_word_of_a_screen_can_be_read(name: str) -> None:
    palette = (await draw(SCENES[name])).palette
    assert len(palette) > 50
    assert {entry: ratio for entry in palette if (ratio := contrast(*entry[1:])) < LEAST} == {}
