"""The builtin agent: offline and deterministic, so that everything can be tried without a key.

It understands a few plain sentences (`help` lists them), uses the session tools as any agent would, and streams. It
counts one word as one token and costs nothing.
"""

import re
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from core.agents.port import (
    AgentEvent,
    AgentFailure,
    Reply,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolResult,
    ToolStarted,
    Turn,
)
from core.model import json_codec
from core.model.exchanges import ANNOUNCE_SKIP, REPLY_SKIP
from core.model.messages import Usage, text_block, thinking_block, tool_call_block

NAME: Final = "builtin"
PACE_SECONDS: Final = 0.03
SLOW_SECONDS: Final = 20.0
MAX_SLOW_SECONDS: Final = 3600.0
THANKS: Final = "Thanks, that is what I needed."

HELP: Final = """\
I am the builtin agent: offline, no key, the same words always get the same answer. I understand:

- `list sessions`
- `read KEY`
- `send to KEY: MESSAGE`
- `spawn: TASK` — the task is one of these sentences too
- `say TEXT`
- `think about SUBJECT`
- `show markdown`
- `be slow [SECONDS]`
- `fail [REASON]`

For a real model set `SWITCHBOARD_MODEL_URL` and `SWITCHBOARD_MODEL`."""

MARKDOWN: Final = """\
## What markdown looks like here

Plain words, **bold**, *italic*, `code`, and a [link](https://example.org).

| region | price | latency |
| --- | ---: | ---: |
| eu-central | 0.042 | 31 ms |
| us-east | 0.038 | 96 ms |

1. first
2. second
   - nested

```python
def pick(regions):
    return min(regions, key=lambda region: region.latency)
```

> Quoted words stand apart."""


@dataclass(frozen=True, slots=True)
class _Say:
    """Words to stream, each piece after a pause; None for that of the backend."""

    text: str
    pause: float | None = None
    thinking: bool = False


@dataclass(frozen=True, slots=True)
class _Use:
    """A tool to call; its answer is put into words by `tell`."""

    tool: str
    arguments: dict[str, Any]
    tell: Callable[[Any], str]


_Plan = list[_Say | _Use]


class BuiltinBackend:
    """The backend of sessions without a model; `pace` is seconds between two words."""

    def __init__(self, pace: float = PACE_SECONDS) -> None:
        self._pace = pace

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent, None]:
        said, thought = "", ""
        for number, step in enumerate(_steps(turn)):
            words = step
            if isinstance(words, _Use):
                call_id, tool, arguments = f"call_{turn.run_id[:8]}_{number}", words.tool, words.arguments
                yield Reply((tool_call_block(call_id, tool, arguments),), _usage(turn, tool), NAME, "toolUse")
                yield ToolStarted(call_id, tool)
                result = await turn.call_tool(call_id, tool, arguments)
                yield ToolEnded(call_id, tool, result)
                words = _Say(_told(words, result))
            pause = self._pace if words.pause is None else words.pause
            for word in re.findall(r"\S+\s*|\s+", words.text):
                if pause:
                    await turn.clock.sleep(pause)
                yield ThinkingDelta(word) if words.thinking else TextDelta(word)
            if words.thinking:
                thought += words.text
            else:
                said += words.text
        content = ([thinking_block(thought)] if thought else []) + [text_block(said)]
        yield Reply(tuple(content), _usage(turn, said + thought), NAME)

    async def close(self) -> None:
        """Hold nothing."""


def _steps(turn: Turn) -> _Plan:
    """Return what to do in this run; of a message the first sentence that fits decides."""
    asked = turn.transcript[-1].text if turn.transcript else ""
    if turn.kind == "reply":  # one turn of thanks, so that a loop can be watched, and then its end
        return [_Say(REPLY_SKIP if asked == THANKS else THANKS)]
    if turn.kind == "announce":
        own = [message.text for message in turn.transcript if message.role == "assistant"]
        return [_Say(next((text for text in reversed(own) if text != REPLY_SKIP), ANNOUNCE_SKIP))]
    for pattern, make in _SENTENCES:
        if match := pattern.fullmatch(asked.strip()):
            return make(match)
    heard = _shortened(asked, 120)
    return [_Say(f"Builtin agent here (offline). I heard: {heard}\n\nSay `help` for what I can do.")]


def _told(step: _Use, result: ToolResult) -> str:
    data: Any = json_codec.decode(result.text)
    if isinstance(data, dict):
        answer = cast("dict[str, Any]", data)
        if answer.get("status") in {"error", "forbidden", "timeout"}:
            return f"{step.tool} answered {answer['status']}: {answer.get('error', 'no reason given')}"
    return step.tell(data)


def _usage(turn: Turn, said: str) -> Usage:
    heard = sum(len(message.text.split()) for message in turn.transcript[-50:])
    return Usage(input=heard, output=len(said.split()))


def _shortened(text: str, most: int) -> str:
    """Return a text as one line of at most so many characters."""
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most - 1] + "…"


def _think(match: re.Match[str]) -> _Plan:
    subject = match["subject"]
    thought = f"The question is about {subject}. Nothing here can know the answer, so I say what I would look at first."
    return [_Say(thought, thinking=True), _Say(f"About {subject}: I would look at what changed last.")]


def _slow(match: re.Match[str]) -> _Plan:
    seconds = min(float(match["seconds"] or SLOW_SECONDS), MAX_SLOW_SECONDS)
    steps = max(1, int(seconds * 2))
    words = "".join(f"{n} " if n % 10 else f"{n}\n" for n in range(1, steps + 1))
    return [_Say(words.rstrip() + " done", seconds / (steps + 1))]


def _fail(match: re.Match[str]) -> _Plan:
    raise AgentFailure(f"the builtin agent failed as asked: {match['reason'] or 'no reason given'}")


def _list(_: re.Match[str]) -> _Plan:
    def tell(answer: dict[str, Any]) -> str:
        rows = (
            f"- `{row['key']}` {row['kind']}, {row['channel']}, {row.get('status', 'idle')}"
            for row in answer["sessions"]
        )
        return "\n".join(["I see these sessions:", "", *rows])

    return [_Use("sessions_list", {"limit": 20}, tell)]


def _read(match: re.Match[str]) -> _Plan:
    def tell(answer: dict[str, Any]) -> str:
        lines: list[str] = []
        for message in answer["messages"]:
            text = " ".join(block.get("text", "") for block in message["content"])
            lines.append(f"- **{message['role']}**: {_shortened(text, 100)}")
        return "\n".join([f"The newest messages of {answer['sessionKey']}:", "", *(lines or ["- none yet"])])

    return [_Use("sessions_history", {"sessionKey": match["key"], "limit": 5}, tell)]


def _send(match: re.Match[str]) -> _Plan:
    key = match["key"]
    arguments = {"sessionKey": key, "message": match["text"]}
    return [_Use("sessions_send", arguments, lambda answer: f"{key} answered:\n\n{answer.get('reply', 'nothing')}")]


def _spawn(match: re.Match[str]) -> _Plan:
    def tell(answer: dict[str, Any]) -> str:
        return f"I have started a sub-agent; its result will be posted here.\n\n`{answer['childSessionKey']}`"

    label = " ".join(match["task"].split())[:40]
    return [_Use("sessions_spawn", {"task": match["task"], "label": label}, tell)]


_FLAGS: Final = re.IGNORECASE | re.DOTALL
_SENTENCES: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], _Plan]], ...]] = (
    (re.compile(r"help[.?!]?", _FLAGS), lambda _: [_Say(HELP)]),
    (re.compile(r"(?:list|show)(?: all)?(?: the)? sessions[.?!]?", _FLAGS), _list),
    (re.compile(r"read (?P<key>\S+)", _FLAGS), _read),
    (re.compile(r"(?:send to|tell|ask) (?P<key>\S+?):? +(?P<text>.+)", _FLAGS), _send),
    (re.compile(r"spawn:?\s+(?P<task>.+)", _FLAGS), _spawn),
    (re.compile(r"say:? (?P<text>.+)", _FLAGS), lambda match: [_Say(match["text"])]),
    (re.compile(r"think about (?P<subject>.+)", _FLAGS), _think),
    (re.compile(r"show markdown[.?!]?", _FLAGS), lambda _: [_Say(MARKDOWN)]),
    (re.compile(r"be slow(?: (?P<seconds>\d+(?:\.\d+)?))?(?: ?s(?:econds)?)?[.!]?", _FLAGS), _slow),
    (re.compile(r"fail(?:: ?| )?(?P<reason>.*)", _FLAGS), _fail),
)
