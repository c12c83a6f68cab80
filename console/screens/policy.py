"""Which rules there are and which of them decided: send policy, visibility, tools and spawning of one session, or of
any key that somebody tries (P5, V1-V5)."""

from collections.abc import Callable
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from console.actions import RULES, Action
from console.live.changes import Changes
from console.live.rows import Row
from console.live.subject import Subject, waiting_overrides
from console.live.text.clean import clean_line
from console.live.text.words import counted
from console.live.view_model import ViewModel
from console.operations import Outcome
from console.screens.page import Page, bindings
from console.screens.policy_facts import PolicyFacts
from console.widgets.line_list import LineList
from console.widgets.session_field import SessionField
from console.widgets.sheet import Sheet
from core.model.errors import Invalid
from core.model.sessions import Session


class _KeyField(SessionField):
    """Names a session, or a key that has none yet: what is written in full is meant, also where sessions match."""

    class Edited(Message):
        """Something else stands in the field."""

    def __init__(self, rows: list[Row], means: Callable[[str], bool]) -> None:
        super().__init__(rows, "", "what if: a name, or any key such as agent:main:discord:group:new", id="what-if")
        self._means = means

    def on_input_changed(self, event: Input.Changed) -> None:
        """Tell the screen too; the matches are seen to by the field itself."""
        del event
        self.post_message(self.Edited())

    def take(self) -> bool:
        """Take the session under the cursor of the list, unless what is written names one."""
        return not self._means(self.value) and super().take()


class PolicyScreen(Page):
    """The policy screen; it begins with the session `key`, or with a key that has none yet."""

    TABLE = RULES
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(TABLE)]
    AUTO_FOCUS = "#left"
    DEFAULT_CSS = """
    PolicyScreen #what-if { margin: 0; background: $palette-panel; padding: 0 1; }
    PolicyScreen #columns { height: 1fr; }
    PolicyScreen Sheet { width: 1fr; }
    PolicyScreen #left { background: $palette-panel; }
    PolicyScreen #middle, PolicyScreen #right { border-left: solid $palette-rule; }
    PolicyScreen.-narrow #middle, PolicyScreen.-narrow #right, PolicyScreen.-medium #right { display: none; }
    """

    def __init__(self, view_model: ViewModel, key: str) -> None:
        super().__init__(view_model)
        self._key = key
        self.facts = PolicyFacts(view_model)
        rows = sorted(view_model.book.rows.values(), key=lambda row: -row.session.updated_at)
        self._field = _KeyField(rows, self._means)
        self.sheets = Sheet(id="left"), Sheet(id="middle"), Sheet(id="right")

    def compose(self) -> ComposeResult:
        """Put the field above one to three columns."""
        yield self.title_line
        yield self._field
        with Horizontal(id="columns"):
            yield from self.sheets
        yield self.notice
        yield self.bottom

    def on_mount(self) -> None:
        """Show the facts, and sessions that come meanwhile."""
        self._show()
        self.set_interval(1.0, self._show)

    def on_resize(self, event: events.Resize) -> None:
        """Deal the facts out to as many columns as there is room for."""
        super().on_resize(event)
        self.call_after_refresh(self._show)

    def show_changes(self, changes: Changes) -> None:
        rows = self.view_model.book.rows
        touched = any(key in rows and rows[key].session.send_policy is not None for key in changes.rows)
        if changes.all or changes.gone or touched or changes.rows & {self._key, *self.facts.overridden}:
            self._show()

    @property
    def subject(self) -> Subject:
        """The session, or the key, that is looked at; the main one when it was deleted and no key makes it again."""
        try:
            return self.facts.read(self._key)
        except Invalid:
            self._key = self.view_model.main_key
            return self.facts.read(self._key)

    def refused(self, action: Action) -> bool:
        return action.id == "policy" and self.view_model.gateway.refusal("policy", self.subject.key) is not None

    def why_not(self, action_id: str) -> str | None:
        subject = self.subject
        if action_id == "policy":
            refusal = self.view_model.gateway.refusal("policy", subject.key)
            return refusal or ("" if subject.waits else subject.note) or None
        if action_id == "open" and subject.row is None and self._pointed() is None:
            return subject.note
        if action_id == "next-pane" and self.has_class("-narrow"):
            return "there is one column only"
        return None

    # What the keys do

    def do_open(self) -> None:
        """Look at the session of the line under the cursor; go to the one that is looked at."""
        pointed = self._pointed()
        if pointed is not None:
            self._look_at(pointed)
        else:
            self.dismiss(self._key)

    def do_policy(self) -> None:
        self.run_deed(self._next_policy(self.subject.session))

    async def _next_policy(self, session: Session) -> Outcome:
        try:
            return await self.shell.operations.next_policy(session)
        finally:
            self.view_model.book.overrides = await waiting_overrides(self.view_model.gateway)
            self._show()

    def do_filter(self) -> None:
        self._field.input.focus()

    def do_previous_session(self) -> None:
        self._step(-1)

    def do_next_session(self) -> None:
        self._step(1)

    def do_next_pane(self) -> None:
        self.focus_next(Sheet)

    def do_back(self) -> None:
        """Go out of the field, then back to the sessions."""
        if self._field.input.has_focus:
            self.sheets[0].focus()
        else:
            self.dismiss(None)

    @on(LineList.Chosen)
    def _chosen(self) -> None:
        self.action_do("open")

    @on(SessionField.Taken)
    def _taken(self) -> None:
        self._look_at(self._field.value)
        self.sheets[0].focus()

    @on(_KeyField.Edited)
    def _edited(self) -> None:
        text = self._field.value
        if not text:
            return
        try:
            subject = self.facts.read(text)
        except Invalid as error:
            self.say(error.message)
            return
        self._key = subject.key
        self.say("")
        self._show()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.sheets[0].focus()

    # What is shown

    def _means(self, text: str) -> bool:
        """Whether a text names a session, or a key that could have one."""
        try:
            self.facts.read(text)
        except Invalid:
            return False
        return True

    def _look_at(self, key: str) -> None:
        self._key = key
        with self._field.input.prevent(Input.Changed):
            self._field.input.value = ""
        self.say("")
        self._show()

    def _step(self, step: int) -> None:
        keys = [placed.key for placed in self.view_model.book.placement.placed()]
        if keys:
            place = keys.index(self._key) + step if self._key in keys else 0
            self._look_at(keys[max(0, min(place, len(keys) - 1))])

    def _pointed(self) -> str | None:
        """Return the session of the line under the cursor, when it is another one."""
        sheet = self.focused
        fact = sheet.current if isinstance(sheet, Sheet) else None
        return fact.key if fact is not None and fact.key != self._key else None

    def _show(self) -> None:
        subject = self.subject
        decision, rules, agent = self.facts.decision(subject), self.facts.rules(subject), self.facts.agent(subject)
        if self.has_class("-wide"):
            columns = [[*rules, *self.facts.sessions(subject)], decision, agent]
        elif self.has_class("-narrow"):
            columns = [[*decision, *rules, *agent], [], []]
        else:
            columns = [[*rules, *self.facts.sessions(subject)], [*decision, *agent], []]
        for sheet, facts in zip(self.sheets, columns, strict=True):
            sheet.show(facts)
        self._show_edges()

    @on(LineList.Moved)
    @on(events.DescendantFocus)
    def _show_edges(self) -> None:
        subject = self.subject
        words = counted(len(self.facts.overridden), "override")
        about = f"{subject.name}  {clean_line(subject.bare, 200)}" if subject.name != subject.bare else subject.name
        about = f"{self.view_model.place_of(subject.key)}  {about}".lstrip()
        self.title_line.show("POLICY", about, words, focused=isinstance(self.focused, Sheet))
        in_field = self._field.input.has_focus
        self.show_keys([("↵", "take it"), ("↑ ↓", "sessions"), ("esc", "to the rules")] if in_field else ())
