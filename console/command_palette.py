"""What the command palette offers: every action with its key, and every session by name."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from textual.app import SystemCommand
from textual.screen import Screen

from console.live.text.words import age
from console.screens.page import Page
from console.screens.watch.screen import WatchScreen

SESSIONS = 500


def commands(screen: Screen[Any]) -> Iterable[SystemCommand]:
    """Return the commands that make sense on a screen."""
    if isinstance(screen, Page):
        for action in screen.actions:
            reason = screen.why_not(action.id)
            help_ = _unmarked(f"{action.shown}  {action.help}" if reason is None else f"not now: {reason}")
            yield SystemCommand(action.title, help_, partial(screen.action_do, action.id))
    if not isinstance(screen, WatchScreen):
        return
    state = screen.position.state
    for action in screen.position.actions:
        reason = action.why_not(state)
        help_ = _unmarked(f"{action.shown}  {action.help}" if reason is None else f"not now: {reason}")
        yield SystemCommand(action.title, help_, partial(screen.action_do, action.id))
    yield SystemCommand("theme", "Choose other colours", screen.shell.action_change_theme)
    view_model = screen.view_model
    rows = sorted(view_model.book.rows.values(), key=lambda row: -row.session.updated_at)[:SESSIONS]
    for row in rows:
        ago = age(view_model.now_ms(row.session.key) - row.session.updated_at)
        help_ = f"{view_model.place_of(row.session.key)} {_unmarked(row.key)}, {row.look}, {ago}".lstrip()
        yield SystemCommand(f"go to {_unmarked(row.name)}", help_, partial(screen.open_sessions.go_to, row.session.key))


def _unmarked(text: str) -> str:
    """Return text of a session so that the palette, which reads markup, shows it as it is."""
    return text.replace("[", "\\[")
