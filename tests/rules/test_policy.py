"""P1, P2, P5: the send policy against a second, plainer statement of it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.model.keys import parse
from core.model.sessions import Override
from core.rules.policy import Match, PolicyDecision, Rule, SendPolicy, explain

SESSIONS = {
    "agent:main:main": "webchat",
    "agent:main:discord:group:ops": "discord",
    "agent:ops:discord:channel:general": "discord",
    "agent:main:slack:group:DevOps": "slack",
    "agent:main:telegram:direct:anna": "telegram",
    "cron:nightly": "internal",
    "agent:main:discord:group:ops:thread:7": "discord",
}
CHANNELS = (None, "discord", "slack")
CHAT_TYPES = (None, "direct", "group", "channel")
PREFIXES = (None, "agent:main:", "discord:group:", "Discord:Group:", "agent:main:discord", "cron:", "x")
ACTIONS: tuple[Override, ...] = ("allow", "deny")


def decision(policy: SendPolicy, override: Override | None, key: str) -> PolicyDecision:
    """Return what the rules say of one of the sessions above."""
    return explain(policy, override, key=key, channel=SESSIONS[key], chat_type=parse(key).chat_type)


def matches(rule: Rule, key: str) -> bool:
    """Say again whether a rule is about a session, from the words of P1."""
    wanted = rule.match
    bare = key.split(":", 2)[2] if key.startswith("agent:") else key
    prefix = wanted.key_prefix
    return (
        wanted.channel in {None, SESSIONS[key]}
        and wanted.chat_type in {None, parse(key).chat_type}
        and (prefix is None or any(name.lower().find(prefix.lower()) == 0 for name in (key, bare)))
    )


def oracle(policy: SendPolicy, override: str | None, key: str) -> tuple[str, tuple[str, ...]]:
    """Say again who decides, and how."""
    if override:
        return override, ("sendPolicy override",)
    actions = {number: rule.action for number, rule in enumerate(policy.rules) if matches(rule, key)}
    denying = [number for number, action in actions.items() if action == "deny"]
    if denying:
        return "deny", tuple(f"session.sendPolicy.rules[{number}]" for number in denying)
    if actions:
        return "allow", (f"session.sendPolicy.rules[{min(actions)}]",)
    return policy.default, ("session.sendPolicy.default",)


RULES = [
    Rule(action, Match(channel, chat_type, prefix))
    for action, channel, chat_type, prefix in itertools.product(ACTIONS, CHANNELS, CHAT_TYPES, PREFIXES)
]


@pytest.mark.spec("P1", "P2", "P5")
@pytest.mark.parametrize("default", ACTIONS)
@pytest.mark.parametrize("override", [None, "allow", "deny"])
def test_every_single_rule_decides_as_the_documents_say(default: Override, override: Override | None) -> None:
    for rule, key in itertools.product(RULES, SESSIONS):
        policy = SendPolicy((rule,), default)
        found = decision(policy, override, key)
        assert (found.effective, found.decided_by) == oracle(policy, override, key), (rule, key)
        assert found.override == override
        assert found.allowed == (found.effective == "allow")


@pytest.mark.spec("P1", "P2", "P5")
@given(
    st.lists(st.sampled_from(RULES), max_size=6).map(tuple),
    st.sampled_from(ACTIONS),
    st.sampled_from([None, "allow", "deny"]),
    st.sampled_from(sorted(SESSIONS)),
)
def test_many_rules_decide_as_the_documents_say(
    rules: tuple[Rule, ...], default: Override, override: Override | None, key: str
) -> None:
    policy = SendPolicy(rules, default)
    found = decision(policy, override, key)
    assert (found.effective, found.decided_by) == oracle(policy, override, key)


@pytest.mark.spec("P1")
@given(st.lists(st.sampled_from(RULES), max_size=5), st.sampled_from(sorted(SESSIONS)))
def test_the_order_of_rules_never_changes_the_answer(rules: list[Rule], key: str) -> None:
    one = decision(SendPolicy(tuple(rules)), None, key)
    other = decision(SendPolicy(tuple(reversed(rules))), None, key)
    assert one.effective == other.effective


@pytest.mark.spec("P5")
def test_the_reason_is_in_words_people_read() -> None:
    policy = SendPolicy((Rule("allow", Match("slack")), Rule("deny", Match("discord", "group"))))
    denied = decision(policy, None, "agent:main:discord:group:ops")
    assert denied.reason == "rule 2: discord · group"
    assert "rule 2: discord · group" in denied.refusal
    assert "/send on" in denied.refusal
    assert decision(policy, None, "agent:main:main").reason == "default"
    assert decision(policy, "deny", "agent:main:main").reason == "override"
    prefixed = SendPolicy((Rule("deny", Match(key_prefix="cron:")),))
    assert decision(prefixed, None, "cron:nightly").reason == "rule 1: cron:…"
    assert decision(SendPolicy((Rule("deny"),)), None, "cron:nightly").reason == "rule 1: every session"


@pytest.mark.spec("P1", "K7")
def test_a_channel_is_meant_in_any_case() -> None:
    rules = SendPolicy((Rule("deny", Match("Discord")),))
    for recorded in ("discord", "DISCORD", "Discord"):
        found = explain(rules, None, key="agent:main:x", channel=recorded, chat_type="direct")
        assert not found.allowed
