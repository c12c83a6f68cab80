"""V1-V4: visibility over a small world of sessions, against a second, plainer statement of it."""

import itertools
from fnmatch import fnmatchcase

import pytest

from core.model.access import OPERATOR, Agents, All, One, Operator, Scope, SessionCaller, Tree
from core.rules.ruleset import AgentRules, RuleSet
from core.rules.visibility import AgentToAgent, SandboxVisibility, Visibility, VisibilityRules, grant

AGENT_IDS = frozenset({"main", "ops", "lab"})
PARENTS: dict[str, str | None] = {
    "agent:main:main": None,
    "agent:main:discord:group:a": None,
    "agent:main:subagent:1": "agent:main:main",
    "agent:ops:subagent:2": "agent:main:main",
    "agent:ops:subagent:2:subagent:3": "agent:ops:subagent:2",
    "agent:ops:main": None,
    "agent:lab:main": None,
}


def agent_of(key: str) -> str:
    """Return the agent of a key."""
    return key.split(":")[1]


def visible(scope: Scope) -> set[str]:
    """Return the keys of the world that a scope shows."""
    match scope:
        case All():
            return set(PARENTS)
        case One(key):
            return {key}
        case Agents(ids, root):
            return {key for key in PARENTS if agent_of(key) in ids or (root is not None and descends(key, root))}
        case Tree(root):
            return {key for key in PARENTS if descends(key, root)}


def descends(key: str | None, root: str) -> bool:
    """Say whether a session is, or was spawned by, another one."""
    while key is not None and key != root:
        key = PARENTS[key]
    return key == root


def oracle(caller: str, visibility: str, sandboxed: bool, sandbox: str, peers: AgentToAgent) -> set[str]:
    """Say again, session by session, what V1-V3 let a caller see."""
    if sandboxed and sandbox == "spawned" and visibility in {"agent", "all"}:
        visibility = "tree"

    def sees(key: str) -> bool:
        same_agent = agent_of(key) == agent_of(caller) or descends(key, caller)
        match visibility:
            case "self":
                return key == caller
            case "tree":
                return descends(key, caller)
            case "agent":
                return same_agent
            case _:
                both = (agent_of(caller), agent_of(key))
                listed = all(any(fnmatchcase(end, p) for p in peers.allow or ()) for end in both)
                return same_agent or (peers.enabled and (peers.allow is None or listed))

    return {key for key in PARENTS if sees(key)}


PEERS = [
    AgentToAgent(enabled, allow)
    for enabled in (False, True)
    for allow in (None, (), ("*",), ("main", "ops"), ("o*", "main"), ("lab",))
]


@pytest.mark.spec("V1", "V2", "V3")
@pytest.mark.parametrize("visibility", ["self", "tree", "agent", "all"])
def test_what_a_session_sees_is_what_the_documents_say(visibility: Visibility) -> None:
    for caller, sandboxed, sandbox, peers in itertools.product(PARENTS, (False, True), ("spawned", "all"), PEERS):
        found = grant(
            SessionCaller(caller),
            VisibilityRules(visibility, peers, sandbox),
            agent_id=agent_of(caller),
            sandboxed=sandboxed,
            agent_ids=AGENT_IDS,
        )
        expected = oracle(caller, visibility, sandboxed, sandbox, peers)
        assert visible(found.scope) == expected, (caller, sandboxed, sandbox, peers)
        if expected != set(PARENTS):
            assert found.limited_by, "who sees less is told which setting limits it"


@pytest.mark.spec("V3")
@pytest.mark.parametrize(("own", "usual"), [("spawned", "all"), ("all", "spawned"), (None, "all"), (None, "spawned")])
def test_what_an_agent_itself_says_of_its_sandbox_comes_first(
    own: SandboxVisibility | None, usual: SandboxVisibility
) -> None:
    agents = {name: AgentRules(name, sandboxed=True, sandbox=own if name == "ops" else None) for name in AGENT_IDS}
    rules = RuleSet(agents=agents, visibility=VisibilityRules("agent", sandbox=usual))
    found, lab = rules.grant(SessionCaller("agent:ops:main")), rules.grant(SessionCaller("agent:lab:main"))
    assert isinstance(found.scope, Tree) == ((own or usual) == "spawned")
    assert isinstance(lab.scope, Tree) == (usual == "spawned")
    if own == "spawned":
        assert found.limited_by == ("agents.list[].sandbox.sessionToolsVisibility=spawned",)


@pytest.mark.spec("V1", "V2")
def test_an_agent_that_none_of_the_rules_know_sees_its_own() -> None:
    found = RuleSet(visibility=VisibilityRules("agent")).grant(SessionCaller("cron:x", agent_id="gone"))
    assert found.scope == Agents(frozenset({"gone"}), "cron:x")


@pytest.mark.spec("V4")
@pytest.mark.parametrize("operator", [OPERATOR, Operator("agent:ops:main")])
def test_the_operator_sees_everything(operator: Operator) -> None:
    for visibility, sandboxed in itertools.product(("self", "tree", "agent", "all"), (False, True)):
        found = grant(operator, VisibilityRules(visibility), agent_id="ops", sandboxed=sandboxed, agent_ids=AGENT_IDS)
        assert isinstance(found.scope, All)
        assert found.limited_by == ()


@pytest.mark.spec("V3")
def test_the_sandbox_never_widens() -> None:
    rules = VisibilityRules("self", sandbox="spawned")
    found = grant(SessionCaller("agent:ops:main"), rules, agent_id="ops", sandboxed=True, agent_ids=AGENT_IDS)
    assert found.scope == One("agent:ops:main")
    assert found.limited_by == ("tools.sessions.visibility=self",)


@pytest.mark.spec("V1", "V2", "V3")
@pytest.mark.parametrize(
    ("rules", "sandboxed", "control"),
    [
        (VisibilityRules("tree"), False, "tools.sessions.visibility=tree"),
        (VisibilityRules("agent"), False, "tools.sessions.visibility=agent"),
        (VisibilityRules("all"), False, "tools.agentToAgent.enabled=false"),
        (VisibilityRules("all", AgentToAgent(enabled=True, allow=("lab",))), False, "tools.agentToAgent.allow"),
        (VisibilityRules("all"), True, "agents.defaults.sandbox.sessionToolsVisibility=spawned"),
    ],
)
def test_the_limiting_setting_is_named(rules: VisibilityRules, sandboxed: bool, control: str) -> None:
    found = grant(SessionCaller("agent:ops:main"), rules, agent_id="ops", sandboxed=sandboxed, agent_ids=AGENT_IDS)
    assert found.limited_by == (control,)
    assert control in found.words
