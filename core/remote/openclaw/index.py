"""All sessions of an OpenClaw gateway, kept true from its events, with a `rev` of our own for each change."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from core.model.access import Agents, All, One, Scope, Tree
from core.model.events import Cursor, SessionChanged, SessionGone
from core.model.runs import Run
from core.model.sessions import Session, SessionPage, SessionQuery
from core.remote.openclaw.feed import OpenClawHub
from core.remote.openclaw.rows import preview, read_row, settled, text


class Said(NamedTuple):
    """A message, as far as its session's row tells of it.

    Attributes:
        place: In its transcript, from 1; None when it is not known.
        at: ms since the Unix epoch.
    """

    role: str
    words: str
    place: int | None
    at: int


class SessionIndex:
    """The sessions.

    Attributes:
        rows: By key.
        default_agent: Owner of sessions whose key names none.
    """

    def __init__(self, hub: OpenClawHub) -> None:
        self.rows: dict[str, Session] = {}
        self.default_agent = "main"
        self._hub = hub
        self._running: dict[str, Run] = {}
        self._ends: dict[str, Run] = {}

    def replace(self, rows: Iterable[Mapping[str, Any]], since: Cursor, now_ms: int) -> None:
        """Take a whole list, and tell of what differs from what was known.

        Args:
            since: Where the order was when the list was asked for; what was heard after it is newer than the list.
            now_ms: The gateway's time.
        """
        self._running.clear()
        listed: set[str] = set()
        for row in rows:
            key = str(text(row, "key"))
            listed.add(key)
            if (known := self.rows.get(key)) is None or known.rev <= since:
                self._read(settled(row, now_ms), None)
        for key in [key for key, row in self.rows.items() if key not in listed and row.rev <= since]:
            self.remove(key)

    def take(self, row: Mapping[str, Any], said: Said | None = None) -> Session | None:
        """Take the row of an event, with the message that it came with; None for one that cannot be shown.

        What was heard last is newer than what such a row says was said last.
        """
        known = self.rows.get(str(text(row, "key")))
        heard = {"lastMessagePreview": known.preview} if known is not None and known.preview else {}
        return self._read({**row, **heard}, said)

    def _read(self, row: Mapping[str, Any], said: Said | None) -> Session | None:
        session = read_row(row, self.default_agent, self.rows.get(str(text(row, "key"))))
        if session is None:
            return None
        session = session._replace(session_id=self._local_id(session))
        return self.put(_with_words(session, said) if said is not None else session)

    def heard(self, key: str, said: Said) -> None:
        """Note a message of a session."""
        if (session := self.rows.get(key)) is not None:
            self.put(_with_words(session, said))

    def put(self, session: Session) -> Session:
        """Keep a session, and tell of it when anything differs."""
        session = self._with_run(session)
        known = self.rows.get(session.key)
        if known is not None and known == session._replace(rev=known.rev):
            return known
        session = session._replace(rev=self._hub.next())
        self.rows[session.key] = session
        self._hub.tell(SessionChanged(session.rev, session))
        return session

    def remove(self, key: str) -> None:
        """Forget a session that is gone."""
        session = self.rows.pop(key, None)
        self._running.pop(key, None)
        self._ends.pop(key, None)
        if session is not None:
            self._hub.tell(SessionGone(self._hub.next(), key, session.session_id))

    def run_changed(self, run: Run) -> None:
        """Note that a run began or ended; rows of some gateways say so late, or never."""
        if run.state == "queued":
            self._no_longer(run)
        elif run.live:
            self._running[run.key] = run
        else:
            self._no_longer(run)
            self._ends[run.key] = run
        session = self.rows.get(run.key)
        if session is not None:
            self.put(session if run.live else session._replace(error=run.error, status=run.state))

    def _no_longer(self, run: Run) -> None:
        running = self._running.get(run.key)
        if running is not None and running.run_id == run.run_id:
            del self._running[run.key]

    def page(self, query: SessionQuery, scope: Scope) -> SessionPage:
        """Answer a query."""
        children = self._children()
        found = sorted(
            (row for row in self.rows.values() if _matches(row, query) and self.sees(scope, row)),
            key=lambda row: (row.updated_at, row.rev),
            reverse=True,
        )
        end = None if query.limit is None else query.offset + query.limit
        part = tuple(found[query.offset : end])
        below = {row.key: children[row.key] for row in part if row.key in children}
        return SessionPage(part, below, end is not None and len(found) > end)

    def sees(self, scope: Scope, session: Session) -> bool:
        """Whether a session is in a scope."""
        match scope:
            case All():
                return True
            case Agents(ids, root):
                return session.agent_id in ids or root in self._line(session)
            case One(key):
                return session.key == key
            case Tree(root):
                return root in self._line(session)

    def below(self, key: str) -> list[Session]:
        """Return the sessions that one spawned, at any depth."""
        return [row for row in self.rows.values() if row.key != key and key in self._line(row)]

    def by_ref(self, ref: str) -> Session | None:
        """Return a session by key or by the id of its transcript."""
        found = self.rows.get(ref)
        return found or next((row for row in self.rows.values() if row.session_id == ref), None)

    def _line(self, session: Session) -> list[str]:
        line = [session.key]
        while session.spawned_by is not None and session.spawned_by not in line:
            line.append(session.spawned_by)
            parent = self.rows.get(session.spawned_by)
            if parent is None:
                break
            session = parent
        return line

    def _children(self) -> dict[str, tuple[str, ...]]:
        children: dict[str, tuple[str, ...]] = {}
        for row in self.rows.values():
            if row.spawned_by is not None and row.archived_at is None:
                children[row.spawned_by] = (*children.get(row.spawned_by, ()), row.key)
        return children

    def _local_id(self, session: Session) -> str:
        """Return the id by which we know a transcript; some gateways keep the id over a reset."""
        known = self.rows.get(session.key)
        if known is not None and known.session_id.partition("~")[0] == session.session_id:
            return known.session_id
        return session.session_id

    def _with_run(self, session: Session) -> Session:
        """Return the session with the state that was heard, where its row is behind."""
        if (run := self._running.get(session.key)) is not None:  # a row that is behind tells when the one before began
            started = max(session.started_at or 0, run.started_at or 0) or None
            return session._replace(status="running", error=None, started_at=started)
        end = self._ends.get(session.key)
        if end is None:
            return session if session.status == "error" else session._replace(error=None)
        outranked = session.status == "running" or (end.state == "aborted" and session.status is not None)
        if outranked and (session.started_at or 0) <= (end.ended_at or 0):  # some rows call an abort a timeout
            return session._replace(status=end.state, error=end.error)
        return session._replace(error=end.error if session.status == "error" else None)


def _with_words(session: Session, said: Said) -> Session:
    last = max(session.last_seq, session.first_seq - 1 + said.place) if said.place else session.last_seq
    words = (preview(said.words) if said.role in {"user", "assistant"} else None) or session.preview
    return session._replace(last_seq=last, preview=words, updated_at=max(session.updated_at, said.at))


def _matches(row: Session, query: SessionQuery) -> bool:
    if query.kinds and row.kind not in query.kinds:
        return False
    if query.archived is not None and (row.archived_at is not None) != query.archived:
        return False
    if query.updated_after is not None and row.updated_at < query.updated_after:
        return False
    exact = ((query.agent_id, row.agent_id), (query.label, row.label), (query.spawned_by, row.spawned_by))
    if any(wanted is not None and wanted != has for wanted, has in exact):
        return False
    words = " ".join(part for part in (row.key, row.label, row.display_name, row.preview) if part)
    return query.search is None or query.search.lower() in words.lower()
