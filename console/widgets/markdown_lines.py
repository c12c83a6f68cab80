"""Markdown as lines for the terminal, one block at a time, with what was drawn kept for the next time.

Rich draws; what is ours is that nothing of the text is lost (HTML is shown as it is written), that no address reaches
the terminal as a link, and that no text whatever can break the screen.
"""

import io
from collections import OrderedDict
from functools import cache
from typing import ClassVar, Final

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from console.live.text.clean import clean
from console.themes import THEMES, Palette

CACHED_LINES: Final = 6_000
Line = list[Segment]


class MarkdownLines:
    """Draws markdown in the palette of a theme; `coloured`: code in colours by its language, see `load_colours`."""

    def __init__(self, palette: Palette, *, coloured: bool = True) -> None:
        self._palette = palette
        self._code_theme = palette.code if coloured else ""
        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system="truecolor",
            theme=_rich_theme(palette),
            highlight=False,
        )
        self._kept: OrderedDict[tuple[str, int, bool], list[Line]] = OrderedDict()
        self._kept_lines = 0

    def draw(self, source: str, width: int, *, plain: bool = False) -> list[Line]:
        """Return the lines of one block, at most `width` cells wide; `plain`: its words as they are, no markdown."""
        place = (source, width, plain)
        known = self._kept.get(place)
        if known is not None:
            self._kept.move_to_end(place)
            return known
        options = self._console.options.update(width=max(8, width), height=None)
        lines = self._plain(source, options) if plain else self._markdown(source, options)
        self._kept[place] = lines
        self._kept_lines += len(lines)
        while self._kept_lines > CACHED_LINES and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._kept_lines -= len(dropped)
        return lines

    def _plain(self, source: str, options: ConsoleOptions) -> list[Line]:
        text = Text(source.expandtabs(4).rstrip("\n"), overflow="fold")
        return self._console.render_lines(text, options, pad=False)

    def _markdown(self, source: str, options: ConsoleOptions) -> list[Line]:
        try:
            lines = self._console.render_lines(_Block(source, self._code_theme), options, pad=False)
        except Exception:  # noqa: BLE001 - text that the renderer cannot take is shown as it is written
            return self._plain(source, options)
        while lines and not "".join(segment.text for segment in lines[-1]).strip():
            lines.pop()
        while lines and not "".join(segment.text for segment in lines[0]).strip():
            lines.pop(0)
        return lines


class _Code(CodeBlock):
    """Code on the background of the text, a little to the right."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip().expandtabs(4)
        if not self.theme:
            yield Padding(Text(code, overflow="fold"), (0, 0, 0, 2))
            return
        drawn = Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 0, 0, 2))
        for line in console.render_lines(drawn, options, pad=False):
            yield from (Segment(text, _on_ours(style)) for text, style, _ in line)
            yield Segment.line()


def _on_ours(style: Style | None) -> Style:
    """Return the style without a background, and without the terminal's own colour for words."""
    if style is None:
        return Style()
    color = style.color if style.color is not None and not style.color.is_default else None
    return Style(color=color, bold=style.bold, italic=style.italic, underline=style.underline)


class _Heading(Heading):
    """A heading on the left, whatever its level."""

    LEVEL_ALIGN: ClassVar = {}


class _Block(Markdown):
    """One block, read without HTML and drawn without links."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
        "heading_open": _Heading,
    }

    def __init__(self, source: str, code_theme: str) -> None:
        # Rich would build a parser of its own for each block, and one that drops HTML.
        self.markup = source
        self.parsed = _parser().parse(source)
        for token in self.parsed:
            for child in token.children or ():
                if child.type == "softbreak":  # who writes a new line in a conversation means it
                    child.type = "hardbreak"
                child.content = clean(child.content)  # an entity can stand for any character
        self.code_theme = code_theme
        self.justify = None
        self.style = "none"
        self.hyperlinks = False
        self.inline_code_lexer = None
        self.inline_code_theme = code_theme


def load_colours() -> None:
    """Load what colours code, which takes 100 ms; to be called in a thread."""
    for palette in THEMES.values():
        Syntax.get_theme(palette.code)
    _ = Syntax("", "python").lexer


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def _rich_theme(palette: Palette) -> Theme:
    accent, muted = palette.style("accent"), palette.style("muted")
    return Theme(
        {
            "markdown.code": accent,
            "markdown.code_block": Style(),
            "markdown.block_quote": muted,
            "markdown.list": Style(),
            "markdown.item.bullet": muted,
            "markdown.item.number": muted,
            "markdown.hr": muted,
            "markdown.h1": Style(bold=True, underline=True),
            "markdown.h2": Style(bold=True),
            "markdown.h3": Style(bold=True),
            "markdown.h4": Style(bold=True),
            "markdown.h5": Style(bold=True),
            "markdown.h6": Style(bold=True),
            "markdown.link": Style(underline=True),
            "markdown.link_url": muted,
            "markdown.table.border": muted,
            "markdown.table.header": Style(bold=True),
            "markdown.kbd": Style(bold=True),
        }
    )
