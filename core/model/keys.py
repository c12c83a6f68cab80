"""Session keys: the grammar, the aliases and what can be read off a key (K1-K7).

A key is text made of parts separated by colons:

    agent:<agentId>:main                               the agent's main session
    agent:<agentId>:<channel>:group:<id>               a group; `channel:<id>` likewise
    agent:<agentId>:subagent:<uuid>[:subagent:<uuid>]  a sub-agent, nested ones append
    agent:<agentId>:acp:<uuid>                         an external harness
    agent:<agentId>:<anything else>                    another direct session
    cron:<jobId>   hook:<uuid>   node-<nodeId>         not tied to an agent by name
    <parent key>:thread:<threadId>                     a thread of any of them
    main                                               the one session of `session.scope = "global"`; the store alone
                                                       calls it `global`, which is accepted but never given out

The agent id, the channel and the words of these forms are written in any case and compared in lower case; ids are as
they were written. Short forms are accepted wherever a key is (`resolve`): `main`, `<channel>:group:<id>`,
`<channel>:channel:<id>` and `subagent:<uuid>` mean those of the current agent. Where several gateways are shown as one,
`@<gateway>:<key>` is a key of one of them (`split`).
"""

import unicodedata
from dataclasses import dataclass
from typing import Final, Literal, get_args

from core.model.errors import Invalid

Kind = Literal["main", "group", "cron", "hook", "node", "other"]
ChatType = Literal["direct", "group", "channel"]
Job = Literal["cron", "hook", "node"]
JOBS: Final[tuple[Job, ...]] = get_args(Job)
"""What a session can be for that has no form of key of its own (K7)."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

MAX_KEY_BYTES: Final = 512
MAIN: Final = "main"
GLOBAL: Final = "global"
"""What the store calls the session that is `MAIN` everywhere else; nothing but the store and `resolve` knows it."""
RESERVED: Final = frozenset({GLOBAL, "unknown"})
_ROOMS: Final = frozenset({"group", "channel"})
_SPAWNED: Final = frozenset({"subagent", "acp"})
_CHATS: Final = _ROOMS | {"direct", "dm"}
_BAD_CATEGORIES: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_BIDI: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True, slots=True)
class Key:
    """A canonical key and what can be read off it.

    Attributes:
        text: The key itself, canonical: all but its ids in lower case, ids as they came.
        kind: Derived from the key alone; a recorded origin can override it (`kind_of`).
        agent_id: The agent named in the key; None for cron, hook, node and free keys, which belong to whoever
            created them.
        channel: The channel named in the key of a group; None elsewhere.
        chat_type: `group` or `channel` for rooms, `direct` for everything else.
        structured: It has one of the forms above, so the operator's first message may create it (K6).
    """

    text: str
    kind: Kind
    agent_id: str | None
    channel: str | None
    chat_type: ChatType
    structured: bool

    @property
    def is_subagent(self) -> bool:
        """Whether the key names a sub-agent session, at any depth."""
        return self.spawn_depth > 0

    @property
    def spawn_depth(self) -> int:
        """How many spawns lie between this session and one that nobody spawned (W3)."""
        rest = self.text.removeprefix(f"agent:{self.agent_id}")
        return rest.count(":subagent:") if rest.startswith(":subagent:") else 0

    @property
    def is_acp(self) -> bool:
        """Whether the key names a session of an external harness, or a thread of one."""
        return self.agent_id is not None and self.text.startswith(f"agent:{self.agent_id}:acp:")


def parse(text: str) -> Key:
    """Read a full key.

    `Invalid` when it is malformed: an empty part, a control character, over 512 bytes, or `..` (K7).
    """
    parts = _checked_parts(text)
    if len(parts) > 2 and parts[-2].lower() == "thread":
        parts[-2] = "thread"
    if parts[0].lower() == "agent":
        key = _parse_agent_key(parts, text)
        _checked_parts(key.text)  # a letter can need more bytes in lower case
        return key
    head, text = parts[0], ":".join(parts)
    threaded = len(parts) > 2 and parts[-2] == "thread"
    if text == MAIN:
        return Key(text, "main", None, None, "direct", structured=True)
    if len(parts) > 1 and head in {"cron", "hook"}:
        kind: Kind = "other" if threaded and len(parts) > 3 else "cron" if head == "cron" else "hook"
        return Key(text, kind, None, None, "direct", structured=True)
    if head.startswith("node-") and len(head) > len("node-"):
        return Key(text, "other" if threaded else "node", None, None, "direct", structured=True)
    return Key(text, "other", None, None, "direct", structured=False)


def _parse_agent_key(parts: list[str], text: str) -> Key:
    if len(parts) < 3:
        raise Invalid(
            f"session key {quoted(text)} is malformed: expected agent:<agentId>:<rest>, for example agent:main:main"
        )
    parts[0] = "agent"
    parts[1] = agent_id = parts[1].lower()
    rest = parts[2:]
    bare = rest[:-2] if len(rest) > 2 and rest[-2] == "thread" else rest
    if len(bare) == 1:
        if bare[0].lower() == "main":
            parts[2] = "main"
        kind: Kind = "main" if parts[2] == "main" and bare is rest else "other"
        return Key(":".join(parts), kind, agent_id, None, "direct", structured=True)
    parts[2] = channel = rest[0].lower()
    if len(bare) >= 3 and (word := bare[1].lower()) in _CHATS and channel not in _SPAWNED:
        parts[3] = word
    for place in range(2, len(parts) - 1, 2):  # nested ones append
        if parts[2] == "subagent" and parts[place].lower() == "subagent":
            parts[place] = "subagent"
    if len(bare) >= 3 and parts[3] in _ROOMS:
        room: ChatType = "group" if parts[3] == "group" else "channel"
        kind = "group" if bare is rest else "other"
        return Key(":".join(parts), kind, agent_id, channel, room, structured=True)
    named = channel if channel not in _SPAWNED and len(bare) > 2 and parts[3] in _CHATS else None
    return Key(":".join(parts), "other", agent_id, named, "direct", structured=True)


def resolve(text: str, agent_id: str, *, global_agent: str | None = None) -> str:
    """Turn any accepted spelling into the canonical key, seen from one agent (K1, K2, K4, K5).

    Args:
        text: A key, a short form, or a session id (which comes back unchanged).
        agent_id: The current agent: `main` means its main session.
        global_agent: `session.scope` is "global", and this is the default agent: `main` is the one session then, to
            every agent, and so is the key of the default agent's own.

    Raises:
        Invalid: The key is malformed, or names a reserved session.
    """
    stripped = text.strip()
    parts = _checked_parts(stripped)
    lowered = stripped.lower()
    if lowered == MAIN or (stripped == GLOBAL and global_agent is not None):
        return main_key(agent_id) if global_agent is None else MAIN
    if stripped in RESERVED:
        raise Invalid(f'session key "{stripped}" is reserved: use "main"')
    if parts[0].lower() == "subagent" and len(parts) > 1:
        return parse(f"agent:{agent_id}:{stripped}").text
    key = parse(stripped)
    if len(parts) > 2 and parts[1].lower() in _ROOMS and not key.structured:
        return parse(f"agent:{agent_id}:{stripped}").text
    return MAIN if global_agent is not None and key.text == main_key(global_agent) else key.text


def shown(key: str, agent_id: str | None) -> str:
    """Return the key as a row shows it to a caller of that agent: its own main session is `main` (K1).

    No agent where `session.scope` is "global": the one session is `main` already, and no other (K5).
    """
    return MAIN if agent_id is not None and key == main_key(agent_id) else key


def main_key(agent_id: str) -> str:
    """Return the key of an agent's main session."""
    return f"agent:{agent_id}:main"


def kind_of(key: str, origin: str | None) -> Kind:
    """Return the kind of a session: by its key, or by the origin recorded when it was created (K7)."""
    kind = parse(key).kind
    for job in JOBS:
        if kind == "other" and origin == job:
            return job
    return kind


def split(ref: str) -> tuple[str, str]:
    """Return the gateway that a key or id names, and what it is there: `@prod:<key>` is `<key>` of `prod`.

    No key of a gateway begins with `@`; without it, the name is empty.
    """
    if not ref.startswith("@"):
        return "", ref
    name, colon, rest = ref[1:].partition(":")
    return (name, rest) if colon else ("", ref)


def joined(gateway: str, ref: str) -> str:
    """Return a key or id with the gateway that it belongs to; an empty name changes nothing."""
    return f"@{gateway}:{ref}" if gateway else ref


def quoted(text: str, limit: int = 80) -> str:
    """Return hostile or long text fit for an error sentence: escaped, at most `limit` characters, in quotes."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut) + '"'


def _checked_parts(text: str) -> list[str]:
    """Split a key, refusing what must not touch store or disk (K7)."""
    if not text:
        raise Invalid("the session key is empty: give a key such as main, or a session id")
    if len(text) > MAX_KEY_BYTES:  # before anything looks at each of its characters
        raise Invalid(f"session key {quoted(text)} is longer than {MAX_KEY_BYTES} bytes")
    if any(c in _BIDI or unicodedata.category(c) in _BAD_CATEGORIES for c in text):
        raise Invalid(f"session key {quoted(text)} holds a control character: remove it")
    if len(text.encode()) > MAX_KEY_BYTES:
        raise Invalid(f"session key {quoted(text)} is longer than {MAX_KEY_BYTES} bytes: shorten it")
    if ".." in text:
        raise Invalid(f'session key {quoted(text)} holds "..", which no key may: leave it out')
    parts = text.split(":")
    if not all(part.strip() for part in parts):
        raise Invalid(f"session key {quoted(text)} has an empty part between its colons: fill it in")
    return parts
