"""What Textual and Rich have inside and tests look at; there is no public way to it."""

# pyright: reportPrivateUsage=false

import contextlib
from typing import Any

from rich.console import Console
from rich.segment import Segment
from textual.app import App
from textual.driver import Driver
from textual.keys import _character_to_key
from textual.strip import Strip
from textual.widget import Widget


def inside(app: App[Any]) -> contextlib.AbstractContextManager[None]:
    """Be what the app itself does, as if it had called."""
    return app._context()


def driver_of(app: App[Any]) -> Driver | None:
    """Return what reads the keys of an app, None before it runs."""
    return app._driver


def key_of(character: str) -> str:
    """Return the name of the key that types a character."""
    return _character_to_key(character)


def strips_of(app: App[Any]) -> list[Strip]:
    """Return the lines that the screen of an app shows."""
    with inside(app):
        return app.screen._compositor.render_strips()


def update_of(app: App[Any]) -> Any:
    """Return all that an app shows, as Rich prints it, with the screens below the one in front."""
    whole: Any = app
    return whole.screen._compositor.render_update(full=True, screen_stack=whole._background_screens, simplify=True)


def segments_of(console: Console) -> list[Segment]:
    """Return what a console has recorded, which may be changed."""
    return console._record_buffer


def bound_keys(widget: type[Widget]) -> set[str]:
    """Return the keys that a widget has bound, those that it inherits among them."""
    bindings = widget._merged_bindings
    return set(bindings.key_to_bindings) if bindings else set()
