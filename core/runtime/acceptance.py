"""Accepting a message: the one transaction that checks every rule, stores the message and queues its run."""

from dataclasses import dataclass, field
from typing import Final

from core.config.settings import Settings
from core.model.access import Caller, Operator, SessionCaller
from core.model.errors import Conflict, Forbidden, Invalid, NotFound
from core.model.ids import new_id
from core.model.keys import JOBS, MAIN, Job, parse, quoted
from core.model.messages import Block, Draft, text_block, user_draft
from core.model.runs import Run, RunRequest, SpawnSpec
from core.model.sessions import Session
from core.rules.limits import ALLOW_AGENTS_CONTROL, CHILDREN_CONTROL, DEPTH_CONTROL, SANDBOX_CONTROL, self_send
from core.runtime.authority import identified
from core.store import exchanges, messages, runs, sessions
from core.store.database import Db, Tx
from core.store.exchanges import NewExchange
from core.store.runs import NewRun

MAX_MESSAGE_BYTES: Final = 524_288
MAX_HOPS_CONTROL: Final = "session.agentToAgent.maxHops"


@dataclass(frozen=True, slots=True)
class Accepted:
    """What an accepted request became; `fresh` is False when the same request had been accepted before."""

    run: Run
    created: bool
    fresh: bool


@dataclass(frozen=True, slots=True)
class ChildFiles:
    """The files that wait for a child.

    Attributes:
        child_id: The id that the child's key ends with, and the folder of its files.
        contents: What its first message holds of them besides the task; empty without any.
    """

    child_id: str = field(default_factory=new_id)
    contents: tuple[Block, ...] = ()


def check_message(request: RunRequest) -> None:
    """Refuse a message that is empty or too long (`Invalid`), before anything is touched."""
    what, use = ("message", "write something to send") if request.spawn is None else ("task", "say what is to be done")
    if not request.message.strip():
        raise Invalid(f"the {what} is empty: {use}")
    size = len(request.message.encode("utf-8", "replace"))
    if size > MAX_MESSAGE_BYTES:
        raise Invalid(
            f"the {what} is {size:,} bytes long and at most {MAX_MESSAGE_BYTES:,} fit: put it in a file and name that"
        )


def accept(
    tx: Tx, request: RunRequest, caller: Caller, settings: Settings, files: ChildFiles | None = None
) -> Accepted:
    """Store the message and queue its run, if every rule allows it now.

    Args:
        files: What a spawn's attachments became on the disk; None without any.

    Raises:
        Invalid, Forbidden, NotFound, Conflict: See `Gateway.start_run`.
    """
    run_id = request.run_id or new_id()
    print_ = runs.fingerprint(request)
    known = runs.same_request(tx.db, run_id, print_)
    if known is not None:
        return Accepted(known, created=False, fresh=False)
    if request.run_id is not None:
        check_free(tx, request.run_id)
    root, spawn = root_of(tx, caller), request.spawn
    if spawn is None:
        requester = requester_of(caller)
        session, created = _addressed(tx, request, requester, root, caller, settings)
        message = messages.append(tx, session.key, user_draft(request.message, request.provenance), run_id)
        limit, turns = request.timeout_ms or 0, settings.max_ping_pong_turns
        new = NewRun(run_id, "turn", message.seq, print_, requester, timeout_ms=limit, root=root)
        exchange = None
        if requester is not None:
            exchange = NewExchange(run_id, "send", requester, session.key, turns, message.seq, root or run_id)
    else:
        files, requester, created = files or ChildFiles(), spawn.requester, True
        session = _child(tx, spawn, caller, settings, files.child_id)
        draft = Draft("user", (text_block(request.message), *files.contents))
        message = messages.append(tx, session.key, draft, run_id)
        limit = settings.subagent_timeout_ms if request.timeout_ms is None else request.timeout_ms
        new = NewRun(run_id, "subagent", message.seq, print_, requester, spawn.model, spawn.thinking, limit, root=root)
        exchange = NewExchange(run_id, "spawn", requester, session.key, 0, message.seq, root or run_id, spawn.cleanup)
    run = runs.accept(tx, session, new if exchange is None else new._replace(exchange=run_id))
    if exchange is not None:
        exchanges.begin(tx, exchange)
    return Accepted(run, created=created, fresh=True)


def _addressed(
    tx: Tx, request: RunRequest, requester: str | None, root: str | None, caller: Caller, settings: Settings
) -> tuple[Session, bool]:
    """Return the session a message is for and whether it was made now, if every rule allows the message."""
    session, created = target_of(tx, request, caller, settings)
    for key in (session.key, requester):
        check_harness(key)
    refusal = self_send(requester, session.key)
    if refusal is not None:
        raise Invalid(refusal)
    decision = settings.rules.send_decision(session)
    if not decision.allowed:
        raise Forbidden(f"{session.key}: {decision.refusal}", decision.decided_by)
    if root is not None and exchanges.hops(tx.db, root) >= settings.max_hops:  # agents must not talk in circles
        sentence = f"one message has already caused {settings.max_hops} sends between sessions, which is the limit"
        raise Forbidden(f"{sentence} ({MAX_HOPS_CONTROL}): answer with what you have", (MAX_HOPS_CONTROL,))
    if session.kind == "main" and session.channel == "unknown":
        sessions.update(tx, session.key, channel="webchat", last_channel="webchat")
    return session, created


def check_free(tx: Tx, run_id: str) -> None:
    """Refuse an idempotency key that steps of an exchange have, or would have: theirs are `<exchange>:<step>`.

    `Conflict` for that of a step, of an exchange whose first session was deleted, and for the beginning of a key that
    was given to another run.
    """
    known = any(exchanges.by_id(tx.db, name) is not None for name in (run_id, run_id.rpartition(":")[0]))
    if known or runs.has_steps(tx.db, run_id):
        raise Conflict(f"run id {quoted(run_id)} belongs to an exchange: give the message another one")


def requester_of(caller: Caller) -> str | None:
    """Return the session that asks, None when the operator asks alone (S13)."""
    return caller.key if isinstance(caller, SessionCaller) else caller.acting_for


def root_of(tx: Tx, caller: Caller) -> str | None:
    """Return the run that caused this call, directly or not; None when a person did."""
    run = runs.by_id(tx.db, caller.run_id) if isinstance(caller, SessionCaller) and caller.run_id else None
    return (run.root or run.run_id) if run is not None else None


def current(db: Db, ref: str, caller: Caller, settings: Settings) -> Session:
    """Return the session that a mutation means.

    `NotFound` when this caller may see none; `Conflict` when the reference is the id of a transcript that a reset has
    ended since the caller looked at it.
    """
    session = sessions.named(db, ref, settings.rules.grant(identified(db, caller)).scope)
    if ref not in {session.key, session.session_id}:
        raise Conflict(f"session {session.key} was reset meanwhile: look at it again before you change it")
    return session


def target_of(tx: Tx, request: RunRequest, caller: Caller, settings: Settings) -> tuple[Session, bool]:
    """Return the session of a message or a command, and whether it was made now: the operator names it in full (K6)."""
    try:
        return current(tx.db, request.target, caller, settings), False
    except NotFound:
        if not request.create or not isinstance(caller, Operator):
            raise
        key = parse(request.target)
        if not key.structured:
            raise
    return create_for_operator(tx, key.text, settings, request.agent_id), True


def check_harness(key: str | None) -> None:
    """Refuse to run an agent of ours in a session of an external harness (`Invalid`): it would pose as one (K4)."""
    if key is not None and parse(key).is_acp:
        sentence = f"session {quoted(key)} is one of an external harness, and nothing here runs harnesses yet"
        raise Invalid(f"{sentence} (Agent Client Protocol): write to another session; what it holds can be read")


def create_for_operator(
    tx: Tx, text: str, settings: Settings, agent_id: str | None = None, origin: Job | None = None
) -> Session:
    """Create the session of a key, as a channel would.

    Args:
        agent_id: Whose it is when the key names nobody; None for the default agent.
        origin: What it is for, where that was given with the key; None for what the key says.

    Raises:
        NotFound: The key names an agent that is not configured, or it is one that only a spawn makes.
        Invalid: The key is of an external harness.
    """
    key = parse(text)
    if key.is_subagent:
        raise NotFound(f"no session has the key {quoted(text)}: sub-agent sessions are made by spawning only")
    check_harness(key.text)
    whose = None if key.text == MAIN else agent_id
    agent = settings.agent(key.agent_id or whose or settings.rules.default_agent)
    channel = "webchat" if key.kind == "main" else None
    told = origin or (key.kind if key.kind in JOBS else "operator")
    return sessions.create(tx, sessions.SessionInsert(text, agent.agent_id, channel, told))


def _child(tx: Tx, spawn: SpawnSpec, caller: Caller, settings: Settings, child_id: str) -> Session:
    """Create a sub-agent's session, if every rule allows it (W2-W4, W9, W12)."""
    requester = sessions.by_key(tx.db, spawn.requester)
    if requester is None:
        if not isinstance(caller, Operator) or spawn.requester != settings.rules.main_key:
            raise NotFound(f"no session has the key {quoted(spawn.requester)}: name the session that spawns")
        requester = create_for_operator(tx, spawn.requester, settings)
    _check_spawn(spawn, requester, settings)
    limit = settings.rules.spawning.max_children
    if sessions.live_children(tx.db, requester.key) >= limit:
        sentence = f"session {requester.key} has {limit} sub-agents at work, which is the limit ({CHILDREN_CONTROL})"
        raise Forbidden(f"{sentence}: wait until one has ended", (CHILDREN_CONTROL,))
    above = parse(requester.key)
    nested = above.text.removeprefix(f"agent:{above.agent_id}") if above.is_subagent else ""
    new = sessions.SessionInsert(
        f"agent:{spawn.agent_id}{nested}:subagent:{child_id}",
        spawn.agent_id,
        channel="internal",
        origin="spawn",
        label=spawn.label,
        model=spawn.model,
        thinking_level=spawn.thinking,
        spawned_by=requester.key,
    )
    return sessions.create(tx, new)


def _check_spawn(spawn: SpawnSpec, requester: Session, settings: Settings) -> None:
    """Refuse a spawn that the rules do not allow (W3, W4, W9)."""
    depth, deepest = parse(requester.key).spawn_depth, settings.rules.spawning.max_depth
    if depth >= deepest:
        sentence = (
            f"a sub-agent of level {depth} cannot spawn: levels end at {deepest} ({DEPTH_CONTROL}); do the task here"
        )
        raise Forbidden(sentence, (DEPTH_CONTROL,))
    agent = settings.agent(spawn.agent_id)
    own = settings.rules.agents.get(requester.agent_id)
    _check_sandbox(spawn, agent.agent_id, settings, sandboxed=own is not None and own.sandboxed)
    allowed = settings.rules.spawn_targets(requester.agent_id)
    if agent.agent_id not in allowed:
        raise Forbidden(
            f'agent "{requester.agent_id}" may not spawn sub-agents of "{agent.agent_id}": allowed are'
            f" {', '.join(allowed)} ({ALLOW_AGENTS_CONTROL})",
            (ALLOW_AGENTS_CONTROL,),
        )
    if spawn.model is not None:
        settings.model(spawn.model)


def _check_sandbox(spawn: SpawnSpec, agent_id: str, settings: Settings, *, sandboxed: bool) -> None:
    """Refuse a child that would have more freedom than it may (W9)."""
    child = settings.rules.agents.get(agent_id)
    if child is not None and child.sandboxed:
        return
    if spawn.sandboxed:
        raise Forbidden(
            f'agent "{agent_id}" is not sandboxed, and sandbox "require" was asked for ({SANDBOX_CONTROL}):'
            " name one that is",
            (SANDBOX_CONTROL,),
        )
    if sandboxed:
        sentence = f'a sandboxed session cannot spawn a sub-agent of "{agent_id}", which is not sandboxed'
        raise Forbidden(f"{sentence} ({SANDBOX_CONTROL}): agents_list shows those that are", (SANDBOX_CONTROL,))
