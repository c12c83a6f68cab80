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
from core.store.database import Tx
from core.store.exchanges import NewExchange
from core.store.runs import NewRun

MAX_MESSAGE_BYTES: Final = 524_288
MAX_HOPS_CONTROL: Final = "session.agentToAgent.maxHops"


@dataclass(frozen=True, slots=True)
class Accepted:
    """What an accepted request became.

    Attributes:
        fresh: False when the same request had been accepted before.
    """

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
    """Refuse a message before anything is touched.

    Raises:
        Invalid: It is empty or too long.
    """
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
    if request.spawn is not None:
        return _accept_spawn(tx, request, request.spawn, caller, settings, files or ChildFiles(), (run_id, print_))
    session, created = _target(tx, request, caller, settings)
    requester = requester_of(caller)
    for key in (session.key, requester):
        check_harness(key)
    refusal = self_send(requester, session.key)
    if refusal is not None:
        raise Invalid(refusal)
    allow(session, settings)
    root = root_of(tx, caller)
    check_hops(tx, root, settings)
    if session.kind == "main" and session.channel == "unknown":
        sessions.update(tx, session.key, channel="webchat", last_channel="webchat")
    message = messages.append(tx, session.key, user_draft(request.message, request.provenance), run_id)
    new = NewRun(
        run_id,
        "turn",
        message.seq,
        print_,
        requester,
        timeout_ms=request.timeout_ms or 0,
        exchange=run_id if requester is not None else None,
        root=root,
    )
    run = runs.accept(tx, session, new)
    if requester is not None:
        turns = settings.max_ping_pong_turns
        exchanges.begin(tx, NewExchange(run_id, "send", requester, session.key, turns, message.seq, root or run_id))
    return Accepted(run, created=created, fresh=True)


def check_free(tx: Tx, run_id: str) -> None:
    """Refuse an idempotency key that steps of an exchange have, or would have: theirs are `<exchange>:<step>`.

    Raises:
        Conflict: It stands for a step, for an exchange whose first session was deleted, or it is the beginning of a key
            that was given to another run.
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


def check_hops(tx: Tx, root: str | None, settings: Settings) -> None:
    """Refuse a send when one message has already caused as many as it may: agents must not talk in circles.

    Raises:
        Forbidden: The hop budget is used up.
    """
    if root is not None and exchanges.hops(tx.db, root) >= settings.max_hops:
        sentence = f"one message has already caused {settings.max_hops} sends between sessions, which is the limit"
        raise Forbidden(f"{sentence} ({MAX_HOPS_CONTROL}): answer with what you have", (MAX_HOPS_CONTROL,))


def allow(session: Session, settings: Settings) -> None:
    """Refuse a message to a session whose send policy denies it (P4).

    Raises:
        Forbidden: With the controls that decided.
    """
    decision = settings.rules.send_decision(session)
    if not decision.allowed:
        raise Forbidden(f"{session.key}: {decision.refusal}", decision.decided_by)


def current(tx: Tx, ref: str, caller: Caller, settings: Settings) -> Session:
    """Return the session that a mutation means.

    Raises:
        NotFound: There is none that this caller may see.
        Conflict: The id is of a transcript that a reset has ended.
    """
    scope = settings.rules.grant(identified(tx.db, caller)).scope
    session = sessions.named(tx.db, ref, scope)
    check_current(session, ref)
    return session


def check_current(session: Session, ref: str) -> None:
    """Refuse to change a session that was reset since the caller looked at it.

    Raises:
        Conflict: The reference is the id of a transcript that has ended.
    """
    if ref not in {session.key, session.session_id}:
        raise Conflict(f"session {session.key} was reset meanwhile: look at it again before you change it")


def _target(tx: Tx, request: RunRequest, caller: Caller, settings: Settings) -> tuple[Session, bool]:
    """Return the session a message is for, creating it when the operator names a new one (K6)."""
    try:
        return current(tx, request.target, caller, settings), False
    except NotFound:
        if not request.create or not isinstance(caller, Operator):
            raise
        key = parse(request.target)
        if not key.structured:
            raise
    return create_for_operator(tx, key.text, settings, request.agent_id), True


def for_command(tx: Tx, request: RunRequest, caller: Caller, settings: Settings) -> Session:
    """Return the session a command is for; like a message, it creates one that the operator names in full."""
    return _target(tx, request, caller, settings)[0]


def check_harness(key: str | None) -> None:
    """Refuse to run an agent of ours in a session of an external harness: it would pose as that harness (K4).

    Raises:
        Invalid: It is one.
    """
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


def _accept_spawn(
    tx: Tx,
    request: RunRequest,
    spawn: SpawnSpec,
    caller: Caller,
    settings: Settings,
    files: ChildFiles,
    identity: tuple[str, str],
) -> Accepted:
    """Create the sub-agent's session and queue its first turn (W2)."""
    requester = sessions.by_key(tx.db, spawn.requester)
    if requester is None:
        if not isinstance(caller, Operator) or spawn.requester != settings.rules.main_key:
            raise NotFound(f"no session has the key {quoted(spawn.requester)}: name the session that spawns")
        requester = create_for_operator(tx, spawn.requester, settings)
    _check_spawn(spawn, requester, settings)
    _check_children(tx, requester, settings)
    above = parse(requester.key)
    nested = above.text.removeprefix(f"agent:{above.agent_id}") if above.is_subagent else ""
    child_key = f"agent:{spawn.agent_id}{nested}:subagent:{files.child_id}"
    child = sessions.create(
        tx,
        sessions.SessionInsert(
            child_key,
            spawn.agent_id,
            channel="internal",
            origin="spawn",
            label=spawn.label,
            model=spawn.model,
            thinking_level=spawn.thinking,
            spawned_by=requester.key,
        ),
    )
    run_id, print_ = identity
    message = messages.append(tx, child_key, Draft("user", (text_block(request.message), *files.contents)), run_id)
    limit = settings.subagent_timeout_ms if request.timeout_ms is None else request.timeout_ms
    root = root_of(tx, caller)
    new = NewRun(
        run_id,
        "subagent",
        message.seq,
        print_,
        requester.key,
        spawn.model,
        spawn.thinking,
        limit,
        exchange=run_id,
        root=root,
    )
    run = runs.accept(tx, child, new)
    exchanges.begin(
        tx, NewExchange(run_id, "spawn", requester.key, child_key, 0, message.seq, root or run_id, spawn.cleanup)
    )
    return Accepted(run, created=True, fresh=True)


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


def _check_children(tx: Tx, requester: Session, settings: Settings) -> None:
    """Refuse one more child than a session may have at once (W12)."""
    limit = settings.rules.spawning.max_children
    if sessions.live_children(tx.db, requester.key) >= limit:
        sentence = f"session {requester.key} has {limit} sub-agents at work, which is the limit ({CHILDREN_CONTROL})"
        raise Forbidden(f"{sentence}: wait until one has ended", (CHILDREN_CONTROL,))
