"""What the rules say of one session, or of a key that has none yet: the facts of the policy screen (P5).

Every decision is asked of `core.rules`; here it is put into words.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from console.live.rows import Row
from console.live.text.clean import clean_line
from console.live.text.words import key_name
from core.gateway import Gateway, Overrides
from core.model.access import Agents, One, Scope, SessionCaller, Tree
from core.model.errors import Invalid, SwitchboardError
from core.model.keys import ChatType, Key, joined, parse, quoted, split
from core.model.sessions import Override, Session, absent
from core.rules.limits import (
    ALLOW_AGENTS_CONTROL,
    CHILDREN_CONTROL,
    DEPTH_CONTROL,
    SANDBOX_CONTROL,
    SESSION_TOOLS,
    spawn_targets,
)
from core.rules.policy import PolicyDecision, SendPolicy
from core.rules.ruleset import RuleSet
from core.rules.visibility import VISIBILITY_CONTROL


@dataclass(frozen=True, slots=True)
class Subject:
    """A session that there is, or that a key would make.

    Attributes:
        key: Canonical, with the name of its gateway where that has one.
        name: For the screen, cleaned.
        row: As the list shows it, None when there is no such session.
        decision: Whether messages may go in; None where the gateway does not tell.
        note: What it is that there is no session, in a sentence; empty when there is one.
        override: Of the send policy; where there is no session, what waits for it.
        waits: There is no session, and an override can wait for it.
    """

    key: str
    name: str
    row: Row | None
    channel: str
    chat_type: ChatType
    decision: PolicyDecision | None
    note: str
    override: Override | None = None
    waits: bool = False

    @property
    def bare(self) -> str:
        """The key as its gateway and the rules there know it."""
        return split(self.key)[1]

    @property
    def session(self) -> Session:
        """The session, or what it would be if there were one."""
        if self.row is not None:
            return self.row.session
        return absent(parse(self.bare), "", self.override)._replace(key=self.key)

    @property
    def caller(self) -> SessionCaller:
        """Its agent, as the rules are asked about it."""
        return SessionCaller(self.bare, agent_id=self.row.session.agent_id if self.row is not None else None)


@dataclass(frozen=True, slots=True)
class RuleLine:
    """One rule as it stands to a subject: it `decides`, `applies` without deciding, or neither, which is empty."""

    number: int
    action: str
    words: str
    standing: str


def subject_of(
    text: str,
    rules: RuleSet,
    rows: Mapping[str, Row],
    overrides: Mapping[str, Override] | None = None,
    *,
    told: bool = True,
) -> Subject:
    """Return what a text means: a key in any spelling, a session id, or the name of a session.

    Args:
        rules: Of the gateway that the text names.
        overrides: Those that wait for a session of their key.
        told: Whether that gateway tells its rules; else they are the usual ones, which decide nothing.

    Raises:
        Invalid: It is none of these; the sentence says what was expected.
    """
    named = text.strip()
    for row in rows.values():
        if named in {row.session.session_id, row.session.key, row.name}:
            return _known(row)
    gateway, bare = split(named)
    key = parse(rules.resolve(bare))
    ref = joined(gateway, key.text)
    if ref in rows:
        return _known(rows[ref])
    if not key.structured:
        raise Invalid(f"no session is called {quoted(named)}: write a key in full, as agent:main:discord:group:<id>")
    override = (overrides or {}).get(ref)
    session = absent(key, rules.owner_of(key.text), override)
    name = clean_line(key_name(key.text, rules.default_agent), 60)
    return Subject(
        ref,
        name,
        None,
        session.channel,
        session.chat_type,
        rules.send_decision(session) if told else None,
        _absent(key, rules),
        override,
        waits=not key.is_subagent and not key.is_acp,
    )


async def waiting_overrides(gateway: Gateway) -> Overrides:
    """Return the overrides that wait for a session; of a gateway that does not know of such, none."""
    try:
        return await gateway.overrides()
    except SwitchboardError:
        return {}


def rule_lines(policy: SendPolicy, subject: Subject) -> list[RuleLine]:
    """Return the rules in order, each as it stands to a subject."""
    lines: list[RuleLine] = []
    for number, rule in enumerate(policy.rules):
        applies = rule.match.covers(subject.bare, subject.channel, subject.chat_type)
        decides = subject.decision is not None and f"session.sendPolicy.rules[{number}]" in subject.decision.decided_by
        standing = "decides" if decides else "applies" if applies else ""
        lines.append(RuleLine(number + 1, rule.action, clean_line(rule.match.words, 120), standing))
    return lines


def overridden(rows: Iterable[Row]) -> list[Row]:
    """Return the sessions with an override, by name."""
    found = [row for row in rows if row.session.send_policy is not None]
    return sorted(found, key=lambda row: (row.name.casefold(), row.key))


def sight(subject: Subject, rules: RuleSet) -> tuple[str, tuple[str, ...]]:
    """Return what the agent of a session may see, in words, and the controls that keep it from more (V1-V5)."""
    if VISIBILITY_CONTROL in rules.untold:
        return untold_words(VISIBILITY_CONTROL), ()
    grant = rules.grant(subject.caller)
    return _scope_words(grant.scope), grant.limited_by


def untold_words(control: str) -> str:
    """Return what is said where a gateway does not tell a control: nothing of ours stands in for it."""
    return f"unknown: its gateway does not tell {control}"


def tools(subject: Subject, rules: RuleSet) -> list[tuple[str, str | None]]:
    """Return the session tools, each with the control that keeps it from the session, None when it has it (W3)."""
    return [(tool, rules.withheld(tool, subject.caller)) for tool in sorted(SESSION_TOOLS)]


def is_sandboxed(agent_id: str, rules: RuleSet) -> bool:
    """Whether an agent is sandboxed (V3)."""
    agent = rules.agents.get(agent_id)
    return agent is not None and agent.sandboxed


def spawning(subject: Subject, rules: RuleSet) -> tuple[str, tuple[str, ...]]:
    """Return what a session may spawn, in words, and the controls that limit it (W3, W4, W9)."""
    withheld = rules.withheld("sessions_spawn", subject.caller)
    if withheld is not None:
        return "no sub-agents", (withheld,)
    if ALLOW_AGENTS_CONTROL in rules.untold:
        return untold_words(ALLOW_AGENTS_CONTROL), ()
    agent_id = rules.agent_of(subject.caller)
    own = rules.agents.get(agent_id)
    targets = spawn_targets(agent_id, own.allow_agents if own else (), tuple(rules.agents))
    limits = [ALLOW_AGENTS_CONTROL] if len(targets) < len(rules.agents) else []
    if is_sandboxed(agent_id, rules) and not all(is_sandboxed(target, rules) for target in targets):
        targets = tuple(target for target in targets if is_sandboxed(target, rules))
        limits.append(SANDBOX_CONTROL)
    names = ", ".join(clean_line(target, 60) for target in targets)
    return f"sub-agents of {names}" if names else "no sub-agents", tuple(limits)


def levels(subject: Subject, rules: RuleSet) -> str:
    """Return on which level of sub-agents a session stands, and how deep and how many it may have."""
    depth, limits = parse(subject.bare).spawn_depth, rules.spawning
    here = f"a sub-agent of level {depth}" if depth else "spawned by nobody"
    if not rules.untold.isdisjoint({DEPTH_CONTROL, CHILDREN_CONTROL}):
        return f"{here}; how deep and how many is not told"
    return f"{here}; levels end at {limits.max_depth}, {limits.max_children} at work at once"


def _known(row: Row) -> Subject:
    session = row.session
    return Subject(session.key, row.name, row, session.channel, session.chat_type, row.policy, "", session.send_policy)


def _absent(key: Key, rules: RuleSet) -> str:
    if key.is_subagent:
        return "there is no such session, and only a spawn makes one"
    if key.agent_id is not None and key.agent_id not in rules.agents:
        return f"there is no such session, and agent {clean_line(key.agent_id, 60)} is not configured"
    if key.is_acp:
        return "there is no such session, and nothing here runs harnesses yet"
    return "there is no such session yet: your first message makes it"


def _scope_words(scope: Scope) -> str:
    match scope:
        case One():
            return "itself only"
        case Tree():
            return "itself and what it spawned, at any depth"
        case Agents(ids):
            names = ", ".join(clean_line(each, 60) for each in sorted(ids))
            return f"every session of agent{'s' if len(ids) > 1 else ''} {names}"
        case _:
            return "every session of every agent"
