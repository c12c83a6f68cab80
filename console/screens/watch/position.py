"""Where the operator is on the watch screen: which pane has the keys, and which session they are about."""

from console.actions import ACTIONS, Action, Pane, State
from console.live.rows import Row
from console.screens.page import ActionScreen
from console.screens.watch.parts import Parts
from console.shell import Shell
from console.widgets.transcript_view import TranscriptView


class Position:
    """What the actions depend on, and all that it is read from; `actions` has the operator's keys in it."""

    def __init__(self, screen: ActionScreen[None], shell: Shell, parts: Parts) -> None:
        self.actions: tuple[Action, ...] = ACTIONS
        self.screen = screen
        self.shell = shell
        self.view_model = shell.view_model
        self.parts = parts

    @property
    def row(self) -> Row | None:
        """The session under the cursor."""
        key = self.parts.sessions.selected
        return self.view_model.book.rows.get(key) if key is not None else None

    @property
    def subject(self) -> Row | None:
        """The session that an action is about: the one in the tree while the keys go there, else the selected one."""
        spawns = self.parts.spawns
        if self.screen.focused is spawns and spawns.selected is not None:
            return self.view_model.book.rows.get(spawns.selected)
        return self.row

    @property
    def draft_key(self) -> str:
        """Key of the session that the composer writes to: without any, the main one that it will make."""
        return self.parts.main.key or self.view_model.main_key

    @property
    def pane(self) -> Pane:
        """Where the keys go."""
        focused = self.screen.focused
        if focused is self.parts.spawns:
            return "spawns"
        if isinstance(focused, TranscriptView):
            return "transcript"
        return "list" if focused is self.parts.sessions or focused is None else "composer"

    @property
    def is_writing(self) -> bool:
        """Whether the cursor stands in the composer."""
        composer = self.parts.main.composer
        return composer is not None and self.screen.focused is composer.field

    @property
    def state(self) -> State:
        """What the actions depend on now."""
        subject, book = self.subject, self.view_model.book
        return State(
            pane=self.pane,
            row=subject,
            item=self.parts.main.view.current,
            refusal=self.view_model.gateway.refusal,
            reading=self.screen.has_class("-reading"),
            wide=self.screen.has_class("-wide"),
            helpers_at_work=book.at_work_below(subject.session.key)[0] if subject is not None else 0,
            makes=book.name_of(self.draft_key) if subject is None and self.parts.main.key is None else "",
            writing=self.key_of("write"),
        )

    def key_of(self, action_id: str) -> str:
        """Return the key of an action as the footer writes it."""
        return next(action.shown for action in self.actions if action.id == action_id)

    def explained(self) -> list[tuple[str, str, str]]:
        """Return every key, what it does, and why it does not work now."""
        state = self.state
        return [(action.shown, action.help, action.why_not(state) or "") for action in self.actions]


class Duty:
    """One thing that the watch screen does, with what each of them works on."""

    def __init__(self, position: Position) -> None:
        self._position = position
        self._parts = position.parts
        self._screen = position.screen
        self._shell = position.shell
        self._view_model = position.view_model
