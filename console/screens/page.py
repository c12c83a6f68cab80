"""What the screens share: keys from a table, one sentence. What those over the watch screen share: a title, the keys
that work now."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from textual import events
from textual.binding import Binding
from textual.screen import Screen

from console.actions import BACK, HELP, Action
from console.live.changes import Changes
from console.live.view_model import ViewModel
from console.operations import Doing, Outcome, failed
from console.screens.too_small import BREAKPOINTS, cover
from console.shell import Shell, shell_of
from console.widgets.status import BottomBar, NoticeLine, TitleLine, Tone
from core.model.errors import SwitchboardError

T = TypeVar("T")


def bindings(table: Iterable[Action]) -> list[Binding]:
    """Return the bindings of a table; what has the same id on several screens has the operator's own key on all."""
    return [
        Binding(action.keys, f"do('{action.id}')", action.title, show=False, id=action.id, priority=action.id == "quit")
        for action in table
    ]


class ActionScreen(Screen[T]):
    """A screen whose keys are in a table of actions: each does what it says, or says why it does not work now.

    Attributes:
        doers: Have, between them, a method `do_<id>` for each action, with `_` for `-`.
        notice: What came of the last action.
    """

    def __init__(self, classes: str) -> None:
        super().__init__(classes=classes)
        self.HORIZONTAL_BREAKPOINTS = BREAKPOINTS
        self.doers: tuple[object, ...] = (self,)
        self.notice = NoticeLine(id="notice")
        self.bottom = BottomBar(id="bottom")

    def why_not(self, action_id: str) -> str | None:  # noqa: ARG002 - whoever derives from this says which
        """Return why an action does not work now, None when it does."""
        return None

    def say(self, sentence: str, tone: Tone = "muted") -> None:
        """Show what came of an action."""
        self.notice.say(sentence, tone)

    def action_do(self, action_id: str) -> None:
        """Do an action of the table, or say why it does not work now."""
        reason = self.why_not(action_id)
        self.say(reason or "", "warning")
        if reason is None:
            name = f"do_{action_id.replace('-', '_')}"
            next(getattr(doer, name) for doer in self.doers if hasattr(doer, name))()

    def run_deed(self, deed: Doing, done: Callable[[Outcome], object] = lambda _: None) -> None:
        """Do something in the background and say what came of it."""

        async def run() -> None:
            try:
                outcome = await deed
            except (SwitchboardError, OSError) as error:
                outcome = failed(error)
            self.say(outcome.sentence, outcome.tone)
            done(outcome)

        self.run_worker(run(), group="deeds")

    def on_resize(self, event: events.Resize) -> None:
        """Say so when there is no room for anything."""
        cover(shell_of(self), event.size)


class Page(ActionScreen[str]):
    """A screen that shows one thing whole; it ends with the key of the session to go to, or None."""

    TABLE: tuple[Action, ...] = (BACK, HELP)

    def __init__(self, view_model: ViewModel) -> None:
        super().__init__(classes="page")
        self.view_model = view_model
        self.title_line = TitleLine(id="title")

    @property
    def shell(self) -> Shell:
        """What the app offers."""
        return shell_of(self)

    @property
    def actions(self) -> list[Action]:
        """The table with the operator's keys in it."""
        own = self.shell.own_keys
        return [dataclasses.replace(action, shown=own.get(action.id, action.shown)) for action in self.TABLE]

    def refused(self, action: Action) -> bool:  # noqa: ARG002 - whoever derives from this says which
        """Whether the gateway does not allow an action, so that it is shown as such."""
        return False

    def show_changes(self, changes: Changes) -> None:
        """Draw what changed."""

    def show_keys(self, instead: Sequence[tuple[str, str]] = ()) -> None:
        """Show the keys that work now, or those of a field that has the focus."""
        fixed = {"back", "help"}
        denied = [action for action in self.actions if self.refused(action)]
        here = [each for each in self.actions if each.title and (each in denied or self.why_not(each.id) is None)]
        keys = [(action.shown, action.title) for action in here if action.id not in fixed]
        ends = [(action.shown, action.title) for action in here if action.id in fixed]
        refused = [(action.shown, action.title) for action in denied]
        self.bottom.show(instead or keys, () if instead else ends, () if instead else refused)

    def do_back(self) -> None:
        """Go back to the sessions."""
        self.dismiss(None)

    def do_help(self) -> None:
        """Show the keys."""
        from console.screens.help import Help

        entries = [(action.shown, action.help, self.why_not(action.id) or "") for action in self.actions]
        self.shell.push_screen(Help(entries, writing=False))
