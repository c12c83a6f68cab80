"""What the app offers to its screens and widgets; they know no more of it, so that imports go one way."""

from abc import abstractmethod
from collections.abc import Callable
from typing import cast

from textual.app import App
from textual.message_pump import MessagePump

from console.hosts.gateways import Gateways
from console.live.view_model import ViewModel
from console.operations import Operations
from console.themes import Palette, Signs, palette_named
from console.typeahead import Typeahead


class Shell(App[None]):
    """The app, as its screens and widgets see it.

    Attributes:
        where: What is worked on, in words; empty for the usual.
        own_keys: The operator's own keys, by the id of the action, as the footer writes them.
        signs: Those of states that the terminal can show.
        monotonic: The clock for waits.
        is_demo: A scene plays by itself, for somebody who looks on.
    """

    where: str
    view_model: ViewModel
    operations: Operations
    gateways: Gateways
    typeahead: Typeahead
    own_keys: dict[str, str]
    signs: Signs
    monotonic: Callable[[], float]
    is_demo: bool

    @property
    def palette(self) -> Palette:
        """The colours in use."""
        return palette_named(self.theme)

    @abstractmethod
    def remember_soon(self) -> None:
        """Write drafts down once the operator pauses."""

    @abstractmethod
    def configure_again(self) -> None:
        """Read the configuration again."""

    @abstractmethod
    def leave(self) -> None:
        """End the console, after asking when something is at work."""


def shell_of(node: MessagePump) -> Shell:
    """Return the app that a screen or a widget is in."""
    return cast("Shell", node.app)  # pyright: ignore[reportUnknownMemberType] - Textual leaves open which app
