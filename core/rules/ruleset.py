"""All rules of a gateway as one immutable snapshot: what the tools and the runtime decide by."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from core.model.access import ALL, Caller, Operator, SessionCaller
from core.model.errors import NotFound
from core.model.keys import MAIN, main_key, parse, quoted, resolve
from core.model.sessions import Override, Session, absent
from core.rules.limits import SUBAGENT_TOOLS_CONTROL, SpawnLimits, ToolFilter, spawn_targets, withheld
from core.rules.policy import PolicyDecision, SendPolicy, decide
from core.rules.visibility import (
    AGENT_TO_AGENT_CONTROL,
    SANDBOX_CONTROL,
    VISIBILITY_CONTROL,
    AgentToAgent,
    Grant,
    SandboxVisibility,
    VisibilityRules,
    grant,
)


@dataclass(frozen=True, slots=True)
class AgentRules:
    """What the rules need to know of one agent.

    Attributes:
        sandboxed: Its `sandbox.mode` is not `off` (V3).
        allow_agents: `subagents.allowAgents`, patterns of agent ids (W4).
        tools: `tools`, which bind all sessions of the agent.
        sandbox: Its own `sandbox.sessionToolsVisibility`, None for what all agents have (V3).
    """

    agent_id: str
    name: str | None = None
    sandboxed: bool = False
    allow_agents: tuple[str, ...] = ()
    tools: ToolFilter = ToolFilter()
    sandbox: SandboxVisibility | None = None


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules in force.

    Attributes:
        default_agent: The agent that keys without one belong to, and whose `main` the operator means.
        global_scope: `session.scope` is "global" (K5).
        untold: Controls of which a gateway elsewhere does not tell its value; ours decides nothing in its place.
    """

    agents: dict[str, AgentRules] = field(default_factory=lambda: {"main": AgentRules("main")})
    default_agent: str = "main"
    global_scope: bool = False
    send_policy: SendPolicy = SendPolicy()
    visibility: VisibilityRules = VisibilityRules()
    subagent_tools: ToolFilter = ToolFilter()
    spawning: SpawnLimits = SpawnLimits()
    untold: frozenset[str] = frozenset()

    @property
    def main_key(self) -> str:
        """The session that `main` is for the operator (K1, K5)."""
        return MAIN if self.global_scope else main_key(self.default_agent)

    @property
    def unlisted(self) -> tuple[str, ...]:
        """The sessions that no list or search shows: the reserved ones, and the one that is not `main` by the scope."""
        return ("unknown", main_key(self.default_agent) if self.global_scope else MAIN)

    def resolve(self, text: str, agent_id: str | None = None) -> str:
        """Return the canonical key that a text means; a session id comes back unchanged (`core.model.keys.resolve`).

        Args:
            agent_id: Whose session a short form is; None for the default agent.

        Raises:
            Invalid: The key is malformed or reserved.
        """
        return resolve(text, agent_id or self.default_agent, global_agent=self.global_agent)

    @property
    def global_agent(self) -> str | None:
        """Whose the one session of `session.scope = "global"` is; None where each agent has its own."""
        return self.default_agent if self.global_scope else None

    def whose_main(self, caller: Caller) -> str | None:
        """Return the agent whose main session is shown to a caller as `main`; None where that is one for all (K5)."""
        return None if self.global_scope else self.agent_of(caller)

    def owner_of(self, key: str, agent_id: str | None = None) -> str:
        """Return the agent that a session belongs to; whoever needs to know asks here.

        Args:
            agent_id: What the row or the run of the session says. It comes first: a key such as `cron:<id>` names none.
                None where there is no row; then it is the agent that the key names, else the default one.
        """
        return agent_id or parse(key).agent_id or self.default_agent

    def agent_of(self, caller: Caller) -> str:
        """Return the current agent of a caller: what `main` means to it (K1)."""
        return self.default_agent if isinstance(caller, Operator) else self.owner_of(caller.key, caller.agent_id)

    def grant(self, caller: Caller) -> Grant:
        """Return what a caller may see (V1-V5)."""
        agent_id = self.agent_of(caller)
        agent = self.agents.get(agent_id) or AgentRules(agent_id)
        rules = self.visibility
        if VISIBILITY_CONTROL in self.untold:
            return Grant(ALL, ())
        if AGENT_TO_AGENT_CONTROL in self.untold:
            rules = replace(rules, agent_to_agent=AgentToAgent(enabled=True))
        return grant(
            caller,
            rules,
            agent_id=agent_id,
            sandboxed=agent.sandboxed and SANDBOX_CONTROL not in self.untold,
            agent_ids=frozenset(self.agents),
            sandbox=agent.sandbox,
        )

    def withheld(self, tool: str, caller: Caller) -> str | None:
        """Return the control that keeps a tool from a caller, None when it has the tool (W3)."""
        if not isinstance(caller, SessionCaller) or SUBAGENT_TOOLS_CONTROL in self.untold:
            return None
        agent = self.agents.get(self.agent_of(caller))
        return withheld(
            tool,
            parse(caller.key),
            agent_tools=agent.tools if agent is not None else ToolFilter(),
            subagent_tools=self.subagent_tools,
            max_depth=self.spawning.max_depth,
        )

    def spawn_targets(self, agent_id: str) -> tuple[str, ...]:
        """Return the agents whose sub-agents the sessions of an agent may start (W4, W9)."""
        own = self.agents.get(agent_id)
        allowed = spawn_targets(agent_id, own.allow_agents if own is not None else (), tuple(self.agents))
        if own is None or not own.sandboxed:
            return allowed
        return tuple(target for target in allowed if self.agents[target].sandboxed)

    def absent(self, text: str, overrides: Mapping[str, Override]) -> Session:
        """Return the session that a key would have, for the rules to be asked about it (P5).

        Args:
            overrides: Those that wait, by key.

        Raises:
            Invalid: The key is malformed.
            NotFound: It is no key in full, so there cannot be a session with it.
        """
        key = parse(self.resolve(text))
        if not key.structured:
            raise NotFound(f"no session has the key or id {quoted(text)}: list the sessions to see those there are")
        return absent(key, self.owner_of(key.text), overrides.get(key.text))

    def send_decision(self, session: Session) -> PolicyDecision:
        """Return the effective send policy of a session (P1, P2, P5)."""
        return decide(self.send_policy, session)
