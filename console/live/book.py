"""All sessions of a gateway, kept true from events; any order of events, gaps and reloads ends in the same rows."""

from collections.abc import Container, Iterable, Mapping

from console.live.clean import clean_line
from console.live.placement import RANK, Placement
from console.live.rows import Look, Row, read_row, runs_of
from core.model.events import Activity, Event, RunChanged, SessionChanged
from core.model.sessions import Session
from core.rules.policy import SendPolicy


class Book:
    """The sessions of one gateway.

    Attributes:
        rows: All of them, by key.
        placement: The order in which they are shown.
        policy: The send policy in force, for what the rows say of it.
        costs: Some session has cost money; without, no column is kept free for it.
        counts: How many sessions look how.
    """

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.placement = Placement(self)
        self.policy = SendPolicy()
        self.default_agent = "main"
        self.costs = False
        self.counts: dict[Look, int] = dict.fromkeys(RANK, 0)
        self._seen: dict[str, int] = {}
        self._words: dict[str, str] = {}
        self._children: dict[str, set[str]] = {}

    def load(self, sessions: Iterable[Session], seen: Mapping[str, int]) -> None:
        """Start anew from these sessions.

        Args:
            seen: `seq` up to which each was looked at; a session that is absent counts as seen.
        """
        self.rows.clear()
        self._children.clear()
        self.counts = dict.fromkeys(RANK, 0)
        for session in sessions:
            self._seen[session.key] = seen.get(session.key, session.last_seq)
            self._put(session)
        self.placement.reset()

    def configure(self, default_agent: str, policy: SendPolicy) -> None:
        """Use other rules; what rows say of them follows."""
        self.default_agent, self.policy = default_agent, policy
        for row in list(self.rows.values()):
            self._put(row.session)
        self.placement.reset()

    def apply(self, event: Event) -> str | None:
        """Take an event in; return the key of the row that changed, None when none did."""
        match event:
            case SessionChanged(_, session):
                known = self.rows.get(session.key)
                if known is not None and known.session.rev >= session.rev:
                    return None
                self._seen.setdefault(session.key, 0)
                return self._put(session)
            case Activity(key, _, words):
                self._words[key] = clean_line(words, 160)
                return self._again(key)
            case RunChanged(_, run) if not run.live:
                self._words.pop(run.key, None)
                return self._again(run.key)
            case _:
                return None

    def mark_seen(self, key: str) -> bool:
        """Note that the operator looks at a session; whether that changed its row."""
        row = self.rows.get(key)
        if row is None or not row.unread:
            return False
        self._seen[key] = row.session.last_seq
        self._put(row.session)
        return True

    def unseen(self) -> dict[str, int]:
        """Return the place up to which sessions with something new were looked at."""
        return {key: self._seen[key] for key, row in self.rows.items() if row.unread}

    def children(self, key: str) -> list[Row]:
        """Return the sub-agents a session spawned, those at work first, then the newest."""
        children = self._children.get(key)
        if not children:
            return []
        rows = [self.rows[child] for child in children]
        return sorted(rows, key=lambda row: (RANK[row.look], -row.session.created_at, row.key))

    def below(self, key: str) -> list[tuple[int, Row]]:
        """Return the sub-agents of a session at every depth with their depth, parents before their children."""
        found: list[tuple[int, Row]] = []

        def add(parent: str, depth: int, above: tuple[str, ...]) -> None:
            for row in self.children(parent):
                child = row.session.key
                if child not in above:  # a gateway could tell of sessions that spawned each other
                    found.append((depth, row))
                    add(child, depth + 1, (*above, child))

        add(key, 0, (key,))
        return found

    def at_work_below(self, key: str) -> tuple[int, int]:
        """Return how many sub-agents of a session, at any depth, have runs that are not over, and how many runs."""
        runs = [runs_of(row) for _, row in self.below(key)]
        return sum(count > 0 for count in runs), sum(runs)

    def is_below(self, key: str, tops: Container[str]) -> bool:
        """Whether a session is one of these, or a sub-agent of one at any depth."""
        passed: set[str] = set()
        while key not in tops:
            row = self.rows.get(key)
            if row is None or row.session.spawned_by is None or key in passed:
                return False
            passed.add(key)
            key = row.session.spawned_by
        return True

    def _put(self, session: Session) -> str:
        key = session.key
        known = self.rows.get(key)
        if known is not None:
            self.counts[known.look] -= 1
        row = self.rows[key] = read_row(
            session,
            default_agent=self.default_agent,
            policy=self.policy,
            seen=self._seen.get(key, 0),
            words=self._words.get(key),
        )
        self.counts[row.look] += 1
        self.costs = self.costs or session.cost_usd is not None
        if session.spawned_by is not None:
            self._children.setdefault(session.spawned_by, set()).add(key)
        self.placement.touch(key)
        return key

    def _again(self, key: str) -> str | None:
        row = self.rows.get(key)
        return self._put(row.session) if row is not None else None
