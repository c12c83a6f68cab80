"""Send policy: may a message go into a session, and which control decided (P1, P2, P5)."""

from dataclasses import dataclass

from core.model.keys import ChatType
from core.model.sessions import Override, Session

OVERRIDE_CONTROL = "sendPolicy override"
DEFAULT_CONTROL = "session.sendPolicy.default"


@dataclass(frozen=True, slots=True)
class Match:
    """What a rule applies to; a field that is None matches everything.

    `key_prefix` is the start of the key, in full or without its `agent:<agentId>:`, in any case.
    """

    channel: str | None = None
    chat_type: ChatType | None = None
    key_prefix: str | None = None

    def covers(self, key: str, channel: str, chat_type: ChatType) -> bool:
        """Whether a session with these properties is meant."""
        if self.channel is not None and self.channel.lower() != channel.lower():
            return False
        if self.chat_type is not None and self.chat_type != chat_type:
            return False
        if self.key_prefix is None:
            return True
        prefix = self.key_prefix.lower()
        return key.lower().startswith(prefix) or _without_agent(key.lower()).startswith(prefix)

    @property
    def words(self) -> str:
        """The rule's conditions in a few words, for the console."""
        parts = [part for part in (self.channel, self.chat_type) if part]
        if self.key_prefix:
            parts.append(f"{self.key_prefix}…")
        return " · ".join(parts) or "every session"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of `session.sendPolicy.rules`."""

    action: Override
    match: Match = Match()


@dataclass(frozen=True, slots=True)
class SendPolicy:
    """`session.sendPolicy`: a matching deny wins over any allow; without a match the default decides (P1)."""

    rules: tuple[Rule, ...] = ()
    default: Override = "allow"


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """The effective send policy of one session, and why (P5).

    `decided_by` names the controls that decided, several when several rules deny; `reason` is the same for people:
    `override`, `default` or `rule 1: discord · group`.
    """

    effective: Override
    override: Override | None
    decided_by: tuple[str, ...]
    reason: str

    @property
    def allowed(self) -> bool:
        """Whether a message may go in."""
        return self.effective == "allow"

    @property
    def refusal(self) -> str:
        """The sentence for whoever was refused."""
        how = "its own send policy is off" if self.reason == "override" else f"by {self.reason}"
        return f"send policy denies messages to this session ({how}); the owner can allow them with /send on"


def decide(policy: SendPolicy, session: Session) -> PolicyDecision:
    """Return the effective send policy of a session."""
    return explain(policy, session.send_policy, key=session.key, channel=session.channel, chat_type=session.chat_type)


def explain(
    policy: SendPolicy, override: Override | None, *, key: str, channel: str, chat_type: ChatType
) -> PolicyDecision:
    """Return the effective send policy for these properties, also of a session that does not exist yet."""
    if override is not None:
        return PolicyDecision(override, override, (OVERRIDE_CONTROL,), "override")
    hits = [(n, rule) for n, rule in enumerate(policy.rules) if rule.match.covers(key, channel, chat_type)]
    deciding = [hit for hit in hits if hit[1].action == "deny"] or hits[:1]
    if not deciding:
        return PolicyDecision(policy.default, None, (DEFAULT_CONTROL,), "default")
    names = tuple(f"session.sendPolicy.rules[{n}]" for n, _ in deciding)
    number, rule = deciding[0]
    return PolicyDecision(rule.action, None, names, f"rule {number + 1}: {rule.match.words}")


def _without_agent(key: str) -> str:
    return key.split(":", 2)[2] if key.startswith("agent:") else key
