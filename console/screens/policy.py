"""Which rules there are and which of them decided: send policy, visibility, tools and spawning of one session, or of
any key that somebody tries (P5, V1-V5)."""

from collections.abc import Callable
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from console.actions import RULES, Action
from console.live.changes import Changes
from console.live.rows import Row, state_word
from console.live.subject import (
    Subject,
    agent_of,
    is_sandboxed,
    levels,
    overridden,
    rule_lines,
    sight,
    spawning,
    subject_of,
    tools,
    untold_words,
    waiting_overrides,
)
from console.live.text.clean import clean_line
from console.live.text.words import counted
from console.live.view_model import ViewModel
from console.operations import Outcome
from console.screens.page import Page, bindings
from console.widgets.drawing import fit
from console.widgets.line_list import LineList
from console.widgets.session_field import SessionField
from console.widgets.sheet import Fact, Sheet
from core.model.errors import Invalid
from core.model.keys import split
from core.model.sessions import Session
from core.rules.limits import AGENT_TOOLS_CONTROL, SANDBOX_CONTROL

SIGNS: Final = {"allow": "✓ allow", "deny": "⊘ deny"}
COLOURS: Final = {"allow": "good", "deny": "warning"}
DECIDES: Final = "◂ decides"
UNKNOWN: Final = "unknown: what the rules decide is not told here"
NOT_TOLD: Final = "the gateway does not tell its rules on this connection: to read them it must grant operator.admin"
LISTED: Final = 200
"""So many sessions are listed with what was decided about them."""


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
    """The policy screen.

    Args:
        key: The session to begin with, or a key that has none yet.
    """

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
        self._overridden: set[str] = set()
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
        """Draw what changed."""
        rows = self.view_model.book.rows
        touched = any(key in rows and rows[key].session.send_policy is not None for key in changes.rows)
        if changes.all or changes.gone or touched or changes.rows & {self._key, *self._overridden}:
            self._show()

    @property
    def subject(self) -> Subject:
        """The session, or the key, that is looked at; the main one when it was deleted and no key makes it again."""
        try:
            return self._read(self._key)
        except Invalid:
            self._key = self.view_model.main_key
            return self._read(self._key)

    def _read(self, text: str) -> Subject:
        """Return what a text means, by the rules of the gateway that it names.

        Raises:
            Invalid: It names no session and no key.
        """
        rules, told = self.view_model.gateway.rules_of(text), self._are_told(text)
        return subject_of(text, rules, self.view_model.book.rows, self.view_model.book.overrides, told=told)

    def _are_told(self, key: str) -> bool:
        """Whether the gateway of a key tells its rules: else it leaves open what they decide about its sessions."""
        owner = split(key)[0]
        return all(row.policy is not None for row in self.view_model.book.rows.values() if row.gateway == owner)

    def refused(self, action: Action) -> bool:
        """Whether the gateway does not allow an action."""
        return action.id == "policy" and self.view_model.gateway.refusal("policy", self.subject.key) is not None

    def why_not(self, action_id: str) -> str | None:
        """Return why an action does not work now, None when it does."""
        subject = self.subject
        if action_id == "policy":
            return (
                self.view_model.gateway.refusal("policy", subject.key)
                or ("" if subject.waits else subject.note)
                or None
            )
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
        """Turn the send policy on."""
        subject = self.subject
        self.run_deed(self._next_policy(subject.session))

    async def _next_policy(self, session: Session) -> Outcome:
        outcome = await self.shell.operations.next_policy(session)
        self.view_model.book.overrides = await waiting_overrides(self.view_model.gateway)
        self._show()
        return outcome

    def do_filter(self) -> None:
        """Go to the field."""
        self._field.input.focus()

    def do_previous_session(self) -> None:
        """Look at the previous session."""
        self._step(-1)

    def do_next_session(self) -> None:
        """Look at the next session."""
        self._step(1)

    def do_next_pane(self) -> None:
        """Go to the next column."""
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

    @on(LineList.Moved)
    def _moved(self) -> None:
        self._show_edges()

    @on(SessionField.Taken)
    def _taken(self) -> None:
        self._look_at(self._field.value)
        self.sheets[0].focus()

    def on_descendant_focus(self) -> None:
        """Show the keys of the field, or of the columns."""
        self._show_edges()

    @on(_KeyField.Edited)
    def _edited(self) -> None:
        text = self._field.value
        if not text:
            return
        try:
            subject = self._read(text)
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
            self._read(text)
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
        decision, rules, agent = self._decision(subject), self._rules(subject), self._agent(subject)
        if self.has_class("-wide"):
            columns = [[*rules, *self._sessions(subject)], decision, agent]
        elif self.has_class("-narrow"):
            columns = [[*decision, *rules, *agent], [], []]
        else:
            columns = [[*rules, *self._sessions(subject)], [*decision, *agent], []]
        for sheet, facts in zip(self.sheets, columns, strict=True):
            sheet.show(facts)
        self._show_edges()

    def _show_edges(self) -> None:
        subject = self.subject
        count = len(self._overridden)
        words = counted(count, "override")
        about = f"{subject.name}  {clean_line(subject.bare, 200)}" if subject.name != subject.bare else subject.name
        about = f"{self.view_model.place_of(subject.key)}  {about}".lstrip()
        self.title_line.show("POLICY", about, words, focused=isinstance(self.focused, Sheet))
        in_field = self._field.input.has_focus
        self.show_keys([("↵", "take it"), ("↑ ↓", "sessions"), ("esc", "to the rules")] if in_field else ())

    def _decision(self, subject: Subject) -> list[Fact]:
        decision, session = subject.decision, subject.row
        facts = [Fact("", "MESSAGES INTO IT", heading=True)]
        if decision is not None:
            words = f"{SIGNS[decision.effective]}, by {_line(decision.reason)}"
            facts.append(Fact("policy", words, COLOURS[decision.effective]))
            facts += _listed("decided by", decision.decided_by)
        else:
            facts.append(Fact("policy", UNKNOWN, "warning"))
        override = subject.override
        waits = ", waits for its session" if override is not None and session is None else ""
        facts.append(Fact("override", f"{override}{waits}" if override else "inherit: the rules decide"))
        if override == "deny" and decision is None:
            facts.append(Fact("way out", "p lifts the override; words such as /send on would not get in", "accent"))
        facts.append(Fact("read as", f"{_line(subject.channel)} · {subject.chat_type}"))
        if decision is not None and not decision.allowed:
            facts.append(Fact("so", "nobody's message goes in, and nothing is announced on its channel", "muted"))
        state = f"{state_word(session)}, {_line(session.session.kind)}" if session is not None else subject.note
        facts.append(Fact("session", state, "text" if session is not None else "warning"))
        return facts

    def _rules(self, subject: Subject) -> list[Fact]:
        policy = self.view_model.gateway.rules_of(subject.key).send_policy
        if not self._are_told(subject.key):
            facts = [Fact("", "RULES", heading=True), Fact("unknown", NOT_TOLD, "warning")]
            return [*facts, *self._overrides(subject)]
        facts = [Fact("a deny wins, then the first that applies", "RULES", heading=True)]
        for line in rule_lines(policy, subject):
            mark = DECIDES if line.standing == "decides" else line.standing
            colour = COLOURS[line.action] if line.standing else "muted"
            facts.append(Fact(f"rule {line.number}", f"{_sign(line.action)} {line.words}", colour, mark=mark))
        decision = subject.decision
        decides = decision is not None and not decision.override and decision.reason == "default"
        default = SIGNS[policy.default]
        facts.append(
            Fact("default", default, COLOURS[policy.default] if decides else "muted", mark=DECIDES if decides else "")
        )
        return [*facts, *self._overrides(subject)]

    def _overrides(self, subject: Subject) -> list[Fact]:
        found = overridden(self._beside(subject))
        facts = [Fact("each wins over every rule", "OVERRIDES", heading=True)]
        facts += [self._override(row, subject) for row in found]
        owner = split(subject.key)[0]
        waiting = {key: override for key, override in self.view_model.book.overrides.items() if split(key)[0] == owner}
        self._overridden = {row.session.key for row in found} | waiting.keys()
        facts += [Fact(SIGNS[word], f"{_line(key)}  waits for its session", key=key) for key, word in waiting.items()]
        if not found and not waiting:
            facts.append(Fact("none", "p gives the session one: allow, deny, inherit in turn", "muted"))
        return facts

    def _sessions(self, subject: Subject) -> list[Fact]:
        """Return every session with what was decided about it, the denied ones first, then the newest."""
        rows = [row for row in self._beside(subject) if row.look not in {"archived", "done"}]
        rows.sort(key=lambda row: (not row.denied, -row.session.updated_at, row.key))
        denied = sum(row.denied for row in rows)
        facts = [Fact(f"{denied} of {len(rows)} denied", "SESSIONS", heading=True)]
        for row in rows[:LISTED]:
            colour = "accent" if row.session.key == subject.key else COLOURS["deny"] if row.denied else "text"
            sign = SIGNS[row.policy.effective] if row.policy is not None else "unknown"
            words = f"{row.name}  by {_line(row.policy.reason)}" if row.policy is not None else row.name
            facts.append(Fact(sign, words, colour, key=row.session.key))
        if len(rows) > LISTED:
            facts.append(Fact("", f"… {len(rows) - LISTED:,} more: / finds them", "muted"))
        return facts

    def _beside(self, subject: Subject) -> list[Row]:
        """Return the sessions of the same gateway, about which the same rules decide."""
        owner = split(subject.key)[0]
        return [row for row in self.view_model.book.rows.values() if row.gateway == owner]

    def _override(self, row: Row, subject: Subject) -> Fact:
        override = row.session.send_policy or "allow"
        mark = DECIDES if row.session.key == subject.key else ""
        return Fact(SIGNS[override], f"{row.name}  {row.key}", key=row.session.key, mark=mark)

    def _agent(self, subject: Subject) -> list[Fact]:
        rules = self.view_model.gateway.rules_of(subject.key)
        if not self._are_told(subject.key):
            return [Fact("", "WHAT ITS AGENT MAY", heading=True), Fact("unknown", NOT_TOLD, "warning")]
        agent_id = agent_of(subject, rules)
        seen, limits = sight(subject, rules)
        facts = [Fact(f"of {_line(agent_id)}", "WHAT ITS AGENT MAY", heading=True), Fact("sees", seen)]
        facts += _listed("limited by", limits)
        sandboxed = is_sandboxed(agent_id, rules)
        known = f"{'yes' if sandboxed else 'no'} ({SANDBOX_CONTROL})"
        facts.append(Fact("sandboxed", untold_words(SANDBOX_CONTROL) if SANDBOX_CONTROL in rules.untold else known))
        whose, controls = spawning(subject, rules)
        facts.append(Fact("spawns", whose))
        facts += _listed("limited by", controls)
        facts.append(Fact("level", levels(subject, rules), "muted"))
        facts.append(Fact("", "ITS TOOLS", heading=True))
        if AGENT_TOOLS_CONTROL in rules.untold:
            return [*facts, Fact("has", untold_words(AGENT_TOOLS_CONTROL))]
        found = tools(subject, rules)
        has = ", ".join(tool for tool, control in found if control is None)
        facts.append(Fact("has", has or "none of the session tools"))
        facts += [Fact("⊘ has not", f"{tool}, by {control}", "warning") for tool, control in found if control]
        return facts


def _listed(label: str, controls: tuple[str, ...]) -> list[Fact]:
    """Return one line for each control."""
    return [Fact(label if not number else "", _line(control)) for number, control in enumerate(controls)]


def _sign(action: str) -> str:
    return fit(SIGNS[action], 8)


def _line(text: str) -> str:
    return clean_line(text, 200)
