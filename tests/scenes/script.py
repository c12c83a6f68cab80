"""What the agents of the scenes do about each message, and what their fleet is configured to be."""

from dataclasses import dataclass
from typing import Any, Final

from core.model.messages import Usage
from core.runtime.exchanges.announce import ANNOUNCE_SKIP
from core.runtime.exchanges.steps import REPLY_SKIP

MODEL: Final = "anthropic/claude-sonnet-5"
MAIN: Final = "agent:main:main"
OPS: Final = "agent:main:discord:group:ops"
DESIGN: Final = "agent:main:discord:channel:design"
FAMILY: Final = "agent:main:whatsapp:group:family"
SUPPORT: Final = "agent:main:telegram:direct:42"
TOKYO: Final = "agent:main:slack:group:tokyo"
ON_CALL: Final = "agent:main:signal:group:on-call"

CONFIG: Final[dict[str, Any]] = {
    "models": {
        "providers": {
            "anthropic": {
                "baseUrl": "http://127.0.0.1:9",
                "api": "anthropic-messages",
                "models": [{"id": "claude-sonnet-5", "contextWindow": 200_000}],
            }
        }
    },
    "agents": {
        "defaults": {"model": {"primary": MODEL}, "subagents": {"maxConcurrent": 1}},
        "list": [
            {"id": "main", "default": True, "subagents": {"allowAgents": ["research"]}},
            {"id": "research", "name": "research"},
        ],
    },
    "session": {
        "sendPolicy": {
            "rules": [
                {"action": "deny", "match": {"channel": "discord", "chatType": "channel"}},
                {"action": "deny", "match": {"keyPrefix": "agent:main:sms:"}},
            ]
        }
    },
    "tools": {"sessions": {"visibility": "all"}},
}


@dataclass(frozen=True, slots=True)
class Say:
    """Words of an agent."""

    text: str


@dataclass(frozen=True, slots=True)
class Work:
    """Time that passes while an agent is at work, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Use:
    """A tool that an agent uses.

    Attributes:
        answer: What the tool says after `seconds`; None for a session tool, which is really called.
    """

    tool: str
    arguments: dict[str, Any]
    answer: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Hold:
    """Stay at work until the day goes on with this session."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The end of a turn that cannot be finished."""

    reason: str


Step = Say | Work | Use | Hold | Fail


@dataclass(frozen=True, slots=True)
class Part:
    """What an agent does about one message, and what that used."""

    steps: tuple[Step, ...]
    usage: Usage = Usage()


REGION: Final = "Which region first, eu or us? Ask ops, and look at prices yourself."
USERS: Final = "And where are our users?"
ICONS: Final = "Is the icon set final?"
PROMISE: Final = "May I promise Thursday to everybody in Tokyo?"
PARCEL: Final = "Tell the customer of order 1177 that the parcel has left."
TONIGHT: Final = "Who is on call tonight?"
QUESTION: Final = "Both work. Does the price count more, or how near it is?"
NEAR: Final = "How near it is, and look at prices before you answer."
COMPARE: Final = "Compare the two regions and tell me which one to start with."
RESEARCH: Final = "Research eu prices."
LICENCES: Final = "Check the licences of all dependencies."
OLD_IDEA: Final = "Look at the old idea again."
ORDER: Final = "Where is my order 1182?"

COMPARED: Final = """\
Prices first, then latency from where most of your users are:

| region | price | latency |
| --- | ---: | ---: |
| eu-central | 0.042 | 31 ms |
| us-east | 0.038 | 96 ms |
| ap-tokyo | 0.051 | 140 ms |

us-east is **10 % cheaper**, eu-central is **three times nearer**. To try it on one worker:

```sh
deploy --region eu-central --workers 1
```

I would start in eu-central: most of your users are"""
FOUND: Final = """\
1. eu-central on-demand 0.042 an hour
2. us-east on-demand 0.038 an hour
3. ap-tokyo on-demand 0.051 an hour"""


def _answer(seconds: float, text: str, tokens: int, cost: float) -> Part:
    return Part((Work(seconds), Say(text)), Usage(tokens, len(text), cost_usd=cost))


SCRIPT: Final[dict[str, Part]] = {
    "Run the nightly checks.": _answer(71, "All 14 checks passed. Three merged branches can go.", 21_400, 0.07),
    "Morning report?": _answer(3, "Battery at 81 %, two updates are waiting.", 1_900, 0.01),
    "Disk?": _answer(1, "212 GB free.", 900, 0.02),
    "Dinner on Sunday?": _answer(2, "Sunday at six, Ana brings the cake.", 800, 0.004),
    ICONS: Part((Hold(), Work(6), Say("Yes: 24 icons, all on the grid.")), Usage(7_700, 30, cost_usd=0.08)),
    "Yes: 24 icons, all on the grid.": _answer(1, REPLY_SKIP, 93_700, 0.01),
    PROMISE: _answer(3, "Yes: all parcels for Tokyo leave tonight.", 5_300, 0.05),
    "Yes: all parcels for Tokyo leave tonight.": _answer(1, REPLY_SKIP, 93_400, 0.01),
    PARCEL: _answer(2, "I will, with the number of the carrier.", 2_100, 0.02),
    "I will, with the number of the carrier.": _answer(1, REPLY_SKIP, 500, 0.01),
    TONIGHT: _answer(2, "Ana until two, then Kofi.", 900, 0.01),
    "Ana until two, then Kofi.": _answer(1, REPLY_SKIP, 500, 0.01),
    "配送は間に合いますか。": _answer(4, "はい、木曜日の午前に届きます。", 5_100, 0.05),
    "Can I change my address?": _answer(5, "Yes, until the parcel leaves.", 10_900, 0.11),
    "Anything new since this morning?": _answer(3, "Both updates are in, no restart needed.", 17_900, 0.03),
    "Good morning. What is open?": _answer(4, "Two licences to check: ops is at it.", 93_200, 1.2),
    "Check what we ship, and the old idea.": Part(
        (
            Work(2),
            Use("sessions_spawn", {"task": LICENCES, "label": "check licences"}),
            Use("sessions_spawn", {"task": OLD_IDEA, "label": "old idea"}),
            Say("A sub-agent is at each of them."),
        ),
        Usage(11_800, 400, cost_usd=0.31),
    ),
    LICENCES: Part(
        (Hold(), Work(72), Say("All permissive; one needs its notice kept.")), Usage(2_700, 300, cost_usd=0.02)
    ),
    OLD_IDEA: Part((Hold(), Work(31), Say("The page it links to is gone.")), Usage(1_100, 100, cost_usd=0.01)),
    "Is checkout up?": _answer(3, "Yes: 212 orders since noon, none failed.", 6_400, 0.04),
    "Release 1.42 to all regions.": Part((Work(2), Fail("the region ap-tokyo did not answer the health check"))),
    "Which model answers our tickets best?": _answer(9, "The small one, on 41 of 50 tickets.", 31_000, 0.22),
    "Deploy 2f9c1ab to production.": Part(
        (Work(2), Fail("model refused: 401 from the provider, the key is not valid"))
    ),
    ORDER: Part(
        (
            Use("orders_lookup", {"order": 1182}, '{"order": 1182, "state": "packed"}', 0.4),
            Say("It is packed and leaves today. I am asking the carrier for the number"),
            Hold(),
        )
    ),
    REGION: Part(
        (
            Work(4),
            Use("sessions_send", {"sessionKey": OPS, "message": COMPARE, "timeoutSeconds": 0}),
            Say("I have asked ops to compare them."),
        )
    ),
    COMPARE: _answer(5, QUESTION, 12_300, 0.01),
    QUESTION: _answer(3, NEAR, 94_100, 0.02),
    USERS: Part((Work(2), Say("Most of them are in Europe. I am counting those of last month"), Hold())),
    NEAR: Part(
        (
            Hold(),
            Say("Looking at both. First, whether anybody in support complains of latency."),
            Use("sessions_history", {"sessionKey": SUPPORT, "limit": 20}),
            Use("web_search", {"query": "eu-central us-east on-demand prices"}, FOUND, 1.9),
            Use("sessions_spawn", {"task": RESEARCH, "label": "research eu prices", "agentId": "research"}),
            Use("sessions_spawn", {"task": "Write the summary.", "label": "write summary"}),
            Say(COMPARED),
            Hold(),
        )
    ),
    RESEARCH: Part(
        (
            Hold(),
            Use("web_search", {"query": "eu prices"}, FOUND, 0.8),
            Say("Reading the price lists of four providers"),
            Hold(),
        )
    ),
}
"""By the message."""

ANNOUNCES: Final[dict[str, str]] = {
    LICENCES: "All licences are permissive; one needs its notice kept.",
    OLD_IDEA: ANNOUNCE_SKIP,
    PARCEL: "Your parcel has left. With the number 8841-77-20 the carrier shows where it is.",
    TONIGHT: "On call tonight: Ana until two, then Kofi. Whoever wants to swap says so before six.",
    PROMISE: "木曜日の午前に、東京の全員に届きます。",
}
"""What is announced, by the message that began it all; what is not here holds."""
