"""All rules of a gateway as one immutable snapshot: what the tools and the runtime decide by."""

from dataclasses import dataclass, field

from core.model.access import Caller, SessionCaller
from core.model.keys import GLOBAL, main_key, parse
from core.model.sessions import Session
from core.rules.limits import SpawnLimits, ToolFilter, withheld
from core.rules.policy import PolicyDecision, SendPolicy, decide
from core.rules.visibility import Grant, VisibilityRules, grant


@dataclass(frozen=True, slots=True)
class AgentRules:
    """What the rules need to know of one agent.

    Attributes:
        sandboxed: Its `sandbox.mode` is not `off` (V3).
        allow_agents: `subagents.allowAgents`, patterns of agent ids (W4).
        tools: `tools`, which bind all sessions of the agent.
    """

    agent_id: str
    name: str | None = None
    sandboxed: bool = False
    allow_agents: tuple[str, ...] = ()
    tools: ToolFilter = ToolFilter()


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules in force.

    Attributes:
        default_agent: The agent that keys without one belong to, and whose `main` the operator means.
        global_scope: `session.scope` is "global" (K5).
    """

    agents: dict[str, AgentRules] = field(default_factory=lambda: {"main": AgentRules("main")})
    default_agent: str = "main"
    global_scope: bool = False
    send_policy: SendPolicy = SendPolicy()
    visibility: VisibilityRules = VisibilityRules()
    subagent_tools: ToolFilter = ToolFilter()
    spawning: SpawnLimits = SpawnLimits()

    @property
    def main_key(self) -> str:
        """The session that `main` is for the operator (K1, K5)."""
        return GLOBAL if self.global_scope else main_key(self.default_agent)

    def agent_of(self, caller: Caller) -> str:
        """Return the current agent of a caller: what `main` means to it (K1)."""
        if isinstance(caller, SessionCaller):
            return parse(caller.key).agent_id or self.default_agent
        return self.default_agent

    def grant(self, caller: Caller) -> Grant:
        """Return what a caller may see (V1-V5)."""
        agent_id = self.agent_of(caller)
        agent = self.agents.get(agent_id)
        sandboxed = agent is not None and agent.sandboxed
        return grant(caller, self.visibility, agent_id=agent_id, sandboxed=sandboxed, agent_ids=frozenset(self.agents))

    def withheld(self, tool: str, key: str) -> str | None:
        """Return the control that keeps a tool from a session, None when it has the tool (W3)."""
        parsed = parse(key)
        agent = self.agents.get(parsed.agent_id or self.default_agent)
        return withheld(
            tool,
            parsed,
            agent_tools=agent.tools if agent is not None else ToolFilter(),
            subagent_tools=self.subagent_tools,
            max_depth=self.spawning.max_depth,
        )

    def send_decision(self, session: Session) -> PolicyDecision:
        """Return the effective send policy of a session (P1, P2, P5)."""
        return decide(self.send_policy, session)
