"""Makes a console that nobody sees cheaper, for every app without a terminal; importing this module does so.

Textual draws a screen after each change, also where no terminal shows it: that was half of what a test of the console
costs. Here a screen is drawn once whenever the Pilot has waited, with what has changed until then, and where a test
looks. Textual also parses the style sheets of each widget in each app anew; here each is parsed once.
"""

# It replaces what Textual has inside:
# pyright: reportPrivateUsage=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from typing import Any

from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.screen import Screen

_draw = Screen._compositor_refresh
_pause = Pilot.pause
_begin = Stylesheet.__init__
_set_variables = Stylesheet.set_variables
_parsed: dict[tuple[tuple[str, str], ...], dict[tuple[Any, ...], list[RuleSet]]] = {}
"""By the variables of a theme, then by all that the rules depend on besides."""


def _draw_later(screen: Screen[Any]) -> None:
    """Leave what has changed marked as such."""
    app = screen.app
    if not app.is_headless or screen is not app.screen:
        _draw(screen)
        return
    screen._dirty_widgets.clear()  # the compositor knows their regions
    app._update_mouse_over(screen)


async def _pause_and_draw(pilot: Pilot[Any], delay: float | None = None) -> None:
    """Wait, then draw what has changed."""
    await _pause(pilot, delay)
    with pilot.app._context():
        _draw(pilot.app.screen)


def _begin_with(sheet: Stylesheet, *, variables: dict[str, str] | None = None) -> None:
    """Begin with what was parsed under the same variables."""
    _begin(sheet, variables=variables)
    _share(sheet)


def _change_to(sheet: Stylesheet, variables: dict[str, str]) -> None:
    """Take other variables, and what was parsed under them."""
    sheet._parse_cache = {}  # type: ignore[assignment] - the old one is shared, and would be emptied
    _set_variables(sheet, variables)
    _share(sheet)


def _share(sheet: Stylesheet) -> None:
    sheet._parse_cache = _parsed.setdefault(tuple(sheet._variables.items()), {})  # type: ignore[assignment] - it is used as a dict


Screen._compositor_refresh = _draw_later  # type: ignore[method-assign]
Pilot.pause = _pause_and_draw  # type: ignore[method-assign]
Stylesheet.__init__ = _begin_with  # type: ignore[method-assign]
Stylesheet.set_variables = _change_to  # type: ignore[method-assign]
