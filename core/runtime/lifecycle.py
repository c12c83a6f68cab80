"""Sessions that the operator makes before anything is said in them, and the end of a session for good."""

from core.config.settings import Settings
from core.model.errors import Conflict, Invalid, NotFound
from core.model.ids import new_id
from core.model.json_codec import encodable
from core.model.keys import MAIN, kind_of, parse, quoted
from core.model.sessions import NewSession, Override, Session, SessionPatch
from core.runtime import acceptance, commands
from core.store import deliveries, exchanges, gone, sessions
from core.store.database import Tx


def create(tx: Tx, new: NewSession, settings: Settings) -> Session:
    """Make a session, or return the one that has its key already, as it is.

    `Invalid`: the key is malformed or reserved, or another session has the label. `NotFound`: there is no such agent,
    model or parent, or the key is one that only a spawn makes.
    """
    key, generated = _key(new, settings)
    known = sessions.by_key(tx.db, key)
    if known is not None:
        if key != MAIN and new.agent_id is not None and known.agent_id != new.agent_id.lower():
            sentence = f"session {key} belongs to agent {quoted(known.agent_id)} already"
            raise Conflict(f"{sentence}: leave out the agent, or choose another key")
        return known
    label = encodable(new.label) if new.label else None
    if label is not None:
        commands.check_label(label)
        if sessions.by_label(tx.db, label) is not None:
            raise Invalid(f"label already in use: {label}")
    if new.model is not None:
        settings.model(new.model)
    if new.parent is not None and sessions.by_key(tx.db, new.parent) is None:
        raise NotFound(f"no session has the key {quoted(new.parent)}: name the session that the new one belongs to")
    made = acceptance.create_for_operator(tx, key, settings, new.agent_id and new.agent_id.lower(), new.origin)
    more = {"label": label, "model": new.model, "spawned_by": new.parent}
    if generated:  # it is made for the operator's own eyes, and what is said there is said on its channel
        more |= {"channel": "webchat", "last_channel": "webchat"}
    chosen = {name: value for name, value in more.items() if value is not None}
    if chosen:
        sessions.update(tx, made.key, **chosen)
    return sessions.by_key(tx.db, made.key) or made


def override(tx: Tx, text: str, change: SessionPatch, settings: Settings) -> Session:
    """Let an override of the send policy wait for the session of a key; return that session to be (P5).

    `Invalid`: the key is malformed, or no message makes its session; or the value is not known. `NotFound`: it is no
    key in full.
    """
    session = settings.rules.absent(text, {})
    if (known := sessions.by_key(tx.db, session.key)) is not None:  # made meanwhile
        commands.patch(tx, known, change, settings)
        return sessions.by_key(tx.db, known.key) or known
    if parse(session.key).is_subagent:
        raise Invalid(
            f"session key {quoted(text)} is of a sub-agent, which only a spawn makes: nothing can wait for it"
        )
    acceptance.check_harness(session.key)
    value = change.fields["sendPolicy"]
    if value not in {"allow", "deny", None}:
        raise Invalid(f"sendPolicy cannot be {quoted(str(value))}: use one of allow, deny")
    chosen: Override | None = "allow" if value == "allow" else "deny" if value == "deny" else None
    sessions.put_override(tx, session.key, chosen)
    return session._replace(send_policy=chosen)


def delete(tx: Tx, session: Session) -> list[str]:
    """Remove a session for good; return the ids of the transcripts it had.

    `Invalid`: it is the main session of an agent. `Conflict`: a run or an exchange of it is not over, or an announce of
    it is being sent.
    """
    key = session.key
    if session.kind == "main":
        raise Invalid(f"cannot delete the main session ({key}): it always exists; reset it for an empty transcript")
    commands.check_idle(session)
    exchange = exchanges.under_way(tx.db, key)
    if exchange is not None:
        other = exchange.target if exchange.requester == key else exchange.requester
        raise Conflict(f"session {key} has an exchange with {other}: abort it first, or wait until it has ended")
    if deliveries.newest(tx.db, key=key, states={"sending"}, limit=1):
        raise Conflict(f"an announce of session {key} is being sent: wait until that has ended")
    return gone.delete(tx, session)


def _key(new: NewSession, settings: Settings) -> tuple[str, bool]:
    """Return the canonical key of a new session, and whether it is one of its own."""
    rules = settings.rules
    agent_id = (new.agent_id or rules.default_agent).lower()
    settings.agent(agent_id)
    if new.origin is not None and (new.key is None or kind_of(parse(new.key).text, new.origin) != new.origin):
        raise Invalid(
            f"a {new.origin} session needs a key that is no other kind's: give one, such as {new.origin}-<name>"
        )
    if new.key is None:
        return f"agent:{agent_id}:dashboard:{new_id()}", True
    key = parse(rules.resolve(new.key, agent_id))
    if not key.structured and new.origin is None:
        raise Invalid(f"session key {quoted(new.key)} is not one in full: write it as agent:{agent_id}:<name>")
    if new.agent_id is not None and key.agent_id not in {None, agent_id}:
        raise Invalid(f"session key {quoted(new.key)} is not of agent {quoted(agent_id)}: leave one of them out")
    return key.text, False
