"""What the app offers to its screens and widgets; they know no more of it, so that imports go one way."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.widget import AwaitMount

from console.hosts.gateways import Gateways
from console.live.view_model import ViewModel
from console.operations import Operations
from console.themes import Palette, Signs
from console.typeahead import Typeahead

T = TypeVar("T")


class Shell(Protocol):
    """The app, as its screens and widgets see it.

    Attributes:
        where: What is worked on, in words; empty for the usual.
        own_keys: The operator's own keys, by the id of the action, as the footer writes them.
        signs: Those of states that the terminal can show.
        monotonic: The clock for waits.
    """

    where: str
    view_model: ViewModel
    operations: Operations
    gateways: Gateways
    typeahead: Typeahead
    own_keys: dict[str, str]
    signs: Signs
    monotonic: Callable[[], float]

    @property
    def is_demo(self) -> bool:
        """Whether a scene plays by itself."""
        ...

    @property
    def palette(self) -> Palette:
        """The colours in use."""
        ...

    @property
    def screen_stack(self) -> Sequence[Screen[Any]]:
        """The screens that are open, the one in front last."""
        ...

    def push_screen(self, screen: Screen[T], callback: Callable[[T | None], None] | None = None) -> AwaitMount:
        """Open a screen in front of the others; `callback` gets its result."""
        ...

    def copy_to_clipboard(self, text: str) -> None:
        """Copy a text."""
        ...

    def action_command_palette(self) -> None:
        """Open the command palette."""
        ...

    def action_change_theme(self) -> None:
        """Ask for other colours."""
        ...

    def remember_soon(self) -> None:
        """Write drafts down once the operator pauses."""
        ...

    def configure_again(self) -> None:
        """Read the configuration again."""
        ...

    def leave(self) -> None:
        """End the console, after asking when something is at work."""
        ...


def shell_of(node: MessagePump) -> Shell:
    """Return the app that a screen or a widget is in."""
    return cast("Shell", node.app)  # pyright: ignore[reportUnknownMemberType] - Textual leaves open which app
