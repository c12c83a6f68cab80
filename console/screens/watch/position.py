"""Where the operator is on the watch screen: which pane has the keys, and which session they are about."""

from textual.screen import Screen

from console.actions import ACTIONS, Action, Pane, State
from console.live.rows import Row
from console.live.view_model import ViewModel
from console.screens.watch.parts import Parts
from console.widgets.transcript_view import TranscriptView


class Position:
    """What the actions depend on.

    Attributes:
        actions: The table of actions with the operator's keys in it.
    """

    def __init__(self, screen: Screen[None], view_model: ViewModel, parts: Parts) -> None:
        self.actions: tuple[Action, ...] = ACTIONS
        self._screen = screen
        self._view_model = view_model
        self._parts = parts

    @property
    def row(self) -> Row | None:
        """The session under the cursor."""
        key = self._parts.sessions.selected
        return self._view_model.book.rows.get(key) if key is not None else None

    @property
    def subject(self) -> Row | None:
        """The session that an action is about: the one in the tree while the keys go there, else the selected one."""
        spawns = self._parts.spawns
        if self._screen.focused is spawns and spawns.selected is not None:
            return self._view_model.book.rows.get(spawns.selected)
        return self.row

    @property
    def draft_key(self) -> str:
        """Key of the session that the composer writes to: without any, the main one that it will make."""
        return self._parts.main.key or self._view_model.main_key

    @property
    def pane(self) -> Pane:
        """Where the keys go."""
        focused = self._screen.focused
        if focused is self._parts.spawns:
            return "spawns"
        if isinstance(focused, TranscriptView):
            return "transcript"
        return "list" if focused is self._parts.sessions or focused is None else "composer"

    @property
    def is_writing(self) -> bool:
        """Whether the cursor stands in the composer."""
        composer = self._parts.main.composer
        return composer is not None and self._screen.focused is composer.field

    @property
    def state(self) -> State:
        """What the actions depend on now."""
        subject, book = self.subject, self._view_model.book
        return State(
            pane=self.pane,
            row=subject,
            item=self._parts.main.view.current,
            refusal=self._view_model.gateway.refusal,
            reading=self._screen.has_class("-reading"),
            wide=self._screen.has_class("-wide"),
            helpers_at_work=book.at_work_below(subject.session.key)[0] if subject is not None else 0,
            makes=book.name_of(self.draft_key) if subject is None and self._parts.main.key is None else "",
            writing=self.key_of("write"),
        )

    def key_of(self, action_id: str) -> str:
        """Return the key of an action as the footer writes it."""
        return next(action.shown for action in self.actions if action.id == action_id)

    def explained(self) -> list[tuple[str, str, str]]:
        """Return every key, what it does, and why it does not work now."""
        state = self.state
        return [(action.shown, action.help, action.why_not(state) or "") for action in self.actions]
