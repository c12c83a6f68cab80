"""What the policy screen says of a session or key: the rules, which of them decided, and what its agent may do."""

from typing import Final

from console.live.rows import Row, state_word
from console.live.subject import (
    Subject,
    is_sandboxed,
    levels,
    overridden,
    rule_lines,
    sight,
    spawning,
    subject_of,
    tools,
    untold_words,
)
from console.live.text.clean import clean_line
from console.live.view_model import ViewModel
from console.widgets.drawing import fit
from console.widgets.sheet import Fact
from core.model.keys import split
from core.rules.limits import AGENT_TOOLS_CONTROL, SANDBOX_CONTROL

SIGNS: Final = {"allow": "✓ allow", "deny": "⊘ deny"}
COLOURS: Final = {"allow": "good", "deny": "warning"}
DECIDES: Final = "◂ decides"
UNKNOWN: Final = "unknown: what the rules decide is not told here"
NOT_TOLD: Final = "the gateway does not tell its rules on this connection: to read them it must grant operator.admin"
LISTED: Final = 200
"""So many sessions are listed with what was decided about them."""


class PolicyFacts:
    """The facts by section, as lines for columns; `overridden`: keys of sessions whose overrides were listed last."""

    def __init__(self, view_model: ViewModel) -> None:
        self._view_model = view_model
        self.overridden: set[str] = set()

    def read(self, text: str) -> Subject:
        """Return what a text means, by the rules of the gateway it names; `Invalid`: it is no session and no key."""
        rules, told = self._view_model.gateway.of(text).rules, self._are_told(text)
        return subject_of(text, rules, self._view_model.book.rows, self._view_model.book.overrides, told=told)

    def _are_told(self, key: str) -> bool:
        """Whether the gateway of a key tells its rules: else it leaves open what they decide about its sessions."""
        owner = split(key)[0]
        return all(row.policy is not None for row in self._view_model.book.rows.values() if row.gateway == owner)

    def decision(self, subject: Subject) -> list[Fact]:
        """Return what was decided about messages into the session."""
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

    def rules(self, subject: Subject) -> list[Fact]:
        """Return the rules, which of them apply, and the overrides."""
        policy = self._view_model.gateway.of(subject.key).rules.send_policy
        if not self._are_told(subject.key):
            facts = [Fact("", "RULES", heading=True), Fact("unknown", NOT_TOLD, "warning")]
            return [*facts, *self._overrides(subject)]
        facts = [Fact("a deny wins, then the first that applies", "RULES", heading=True)]
        for line in rule_lines(policy, subject):
            mark = DECIDES if line.standing == "decides" else line.standing
            colour = COLOURS[line.action] if line.standing else "muted"
            facts.append(Fact(f"rule {line.number}", f"{fit(SIGNS[line.action], 8)} {line.words}", colour, mark=mark))
        decision = subject.decision
        decides = decision is not None and not decision.override and decision.reason == "default"
        colour, mark = (COLOURS[policy.default], DECIDES) if decides else ("muted", "")
        facts.append(Fact("default", SIGNS[policy.default], colour, mark=mark))
        return [*facts, *self._overrides(subject)]

    def _overrides(self, subject: Subject) -> list[Fact]:
        found = overridden(self._beside(subject))
        facts = [Fact("each wins over every rule", "OVERRIDES", heading=True)]
        for row in found:
            mark = DECIDES if row.session.key == subject.key else ""
            sign = SIGNS[row.session.send_policy or "allow"]
            facts.append(Fact(sign, f"{row.name}  {row.key}", key=row.session.key, mark=mark))
        owner = split(subject.key)[0]
        waiting = {key: override for key, override in self._view_model.book.overrides.items() if split(key)[0] == owner}
        self.overridden = {row.session.key for row in found} | waiting.keys()
        facts += [Fact(SIGNS[word], f"{_line(key)}  waits for its session", key=key) for key, word in waiting.items()]
        if not found and not waiting:
            facts.append(Fact("none", "p gives the session one: allow, deny, inherit in turn", "muted"))
        return facts

    def sessions(self, subject: Subject) -> list[Fact]:
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
        return [row for row in self._view_model.book.rows.values() if row.gateway == owner]

    def agent(self, subject: Subject) -> list[Fact]:
        """Return what the agent of the session may see, spawn and use."""
        rules = self._view_model.gateway.of(subject.key).rules
        if not self._are_told(subject.key):
            return [Fact("", "WHAT ITS AGENT MAY", heading=True), Fact("unknown", NOT_TOLD, "warning")]
        agent_id = rules.agent_of(subject.caller)
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


def _line(text: str) -> str:
    return clean_line(text, 200)
