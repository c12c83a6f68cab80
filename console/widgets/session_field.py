"""A field that names a session: type a part of its name or key, take it from the list, or write a key in full."""

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from console.live.rows import Row
from console.widgets.drawing import Words, fit, palette_of
from console.widgets.line_list import ItemList
from core.model.keys import split

SHOWN = 6


class SessionField(Vertical):
    """An input with the sessions that match below it while it has the focus.

    Args:
        rows: The sessions to choose from, best first.
        value: Key to start with.
        nobody: What an empty field means, such as `operator`.
    """

    DEFAULT_CSS = """
    SessionField { height: auto; margin-bottom: 1; }
    SessionField Input { margin-bottom: 0; }
    SessionField LineList { height: auto; max-height: 6; display: none; }
    SessionField:focus-within.-matching LineList { display: block; }
    """

    class Taken(Message):
        """A session was taken from the list."""

    def __init__(self, rows: Sequence[Row], value: str, nobody: str, *, id: str) -> None:  # noqa: A002 - Textual's
        super().__init__(id=id)
        self._rows = rows
        alone = len({row.gateway for row in rows}) == 1  # then its name does not stand in the field
        self._keys = {split(row.session.key)[1] if alone else row.session.key: row.session.key for row in rows}
        self.input = _Entry(self._shown(value), placeholder=nobody, compact=True)
        self.matches = _Matches()

    def compose(self) -> ComposeResult:
        yield self.input
        yield self.matches

    @property
    def value(self) -> str:
        """The key in the field; empty for nobody."""
        shown = self.input.value.strip()
        return self._keys.get(shown, shown)

    @property
    def is_meant(self) -> bool:
        """Whether what stands in the field can be meant as it is: a key in full, also of a session that is new.

        An arrow key says that one of the list is meant after all.
        """
        return is_key(self.input.value.strip()) and not self.matches.cursor

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what matches."""
        event.stop()
        needle = event.value.casefold().split()
        exact = event.value in self._keys
        found = [row for row in self._rows if all(word in row.haystack for word in needle)] if not exact else []
        asked = event.value.strip().casefold()
        found.sort(key=lambda row: _distance(row.name.casefold(), asked))
        self.matches.show(found[:SHOWN], lost=0)
        self.set_class(bool(found), "-matching")

    def take(self) -> bool:
        """Take the session under the cursor of the list; False when none is offered."""
        row = self.matches.current
        if row is None or not self.has_class("-matching"):
            return False
        self.input.value = self._shown(row.session.key)
        self.post_message(self.Taken())
        return True

    def _shown(self, key: str) -> str:
        return next((shown for shown, known in self._keys.items() if known == key), key)


def is_key(name: str) -> bool:
    """Whether a word is a key in full, of a session that is there or not, and not a part of a name."""
    return ":" in name or name.startswith("node-")


def _distance(name: str, asked: str) -> int:
    """Put the session first that is called just so, then those whose names begin so; the others as they stand."""
    return 0 if name == asked else 1 if name.startswith(asked) else 2


class _Entry(Input):
    async def _on_key(self, event: events.Key) -> None:
        field = self.parent
        assert isinstance(field, SessionField), "the entry is part of a field"
        if event.key in {"down", "up"}:
            field.matches.action_move(1 if event.key == "down" else -1)
            event.prevent_default()
            event.stop()
            return
        takes = event.key == "enter" or (event.key == "tab" and not field.is_meant)
        taken = takes and bool(self.value) and field.take()
        if taken and event.key == "enter":
            event.prevent_default()
            event.stop()
            return
        await super()._on_key(event)


class _Matches(ItemList[Row], can_focus=False):
    def row_lines(self, index: int, width: int) -> list[Words]:
        row, palette = self.items[index], palette_of(self)
        name = fit(row.name, min(24, width // 3))
        return [[(name + "  ", palette.style("text")), (fit(row.key, width - len(name) - 3), palette.style("muted"))]]
