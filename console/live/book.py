"""All sessions, of one gateway or several, kept true from events: any order, gaps and reloads end in the same rows."""

from collections.abc import Callable, Container, Iterable, Mapping

from console.live.placement import RANK, Placement
from console.live.rows import Look, Row, read_row, runs_of
from console.live.text.clean import clean_line
from console.live.text.words import key_name
from core.model.events import Activity, Event, RunChanged, SessionChanged
from core.model.keys import main_key, split
from core.model.sessions import Override, Session
from core.rules.policy import PolicyDecision

Decide = Callable[[Session], PolicyDecision | None]
"""Says whether messages may go into a session; None where that is not known."""


class Book:
    """The sessions.

    Args:
        decide: What the rows say of the send policy; None: nothing.

    Attributes:
        rows: All of them, by key.
        placement: The order in which they are shown.
        main_key: The session that is meant where none is named.
        costs: Some session has cost money; without, no column is kept free for it.
        counts: How many sessions look how.
        listed: The gateways whose sessions were read when they were reached, so that none means that there is none.
        overrides: Those of the send policy that wait for a session of their key.
    """

    def __init__(self, decide: Decide | None = None) -> None:
        self.rows: dict[str, Row] = {}
        self.placement = Placement(self.rows, self.children)
        self.main_key = main_key("main")
        self._agents: dict[str, str] = {}
        self._void: set[str] = set()
        self.costs = False
        self.counts: dict[Look, int] = dict.fromkeys(RANK, 0)
        self.listed: set[str] = set()
        self.overrides: Mapping[str, Override] = {}
        self._decide = decide
        self._seen: dict[str, int] = {}
        self._words: dict[str, str] = {}
        self._children: dict[str, set[str]] = {}

    def load(self, sessions: Iterable[Session], seen: Mapping[str, int]) -> None:
        """Start anew from these sessions; `seen` has the `seq` up to which each was looked at, all of it by default."""
        self.rows.clear()
        self._void.clear()
        self._children.clear()
        self.counts = dict.fromkeys(RANK, 0)
        for session in sessions:
            self._seen[session.key] = seen.get(session.key, session.last_seq)
            self._put(session)
        self.placement.reset()

    def load_one(self, gateway: str, sessions: Iterable[Session], seen: Mapping[str, int]) -> None:
        """Start anew from these sessions of one gateway; what was heard since it was void is kept."""
        self.listed.add(gateway)
        found = set[str]()
        for session in sessions:
            found.add(session.key)
            self._seen.setdefault(session.key, seen.get(session.key, session.last_seq))
            known = self.rows.get(session.key)
            is_newer = known is None or session.key in self._void or known.session.rev < session.rev
            self._void.discard(session.key)
            self._put(session if known is None or is_newer else known.session)
        for key in self.of(gateway) - found:
            if key in self._void:
                self.remove(key)
            elif key not in self._seen:  # it began while the list was on its way
                self._seen[key] = 0
                self._put(self.rows[key].session)
        self.placement.reset()

    def void(self, gateway: str) -> None:
        """Note that nothing is known for certain of a gateway: whatever comes next of a session is newer."""
        self._void |= self.of(gateway)

    def of(self, gateway: str) -> set[str]:
        """Return the keys of the sessions of a gateway."""
        return {key for key, row in self.rows.items() if row.gateway == gateway}

    def name_of(self, key: str) -> str:
        """Return the name of a session for the screen, also of one that is not known."""
        row = self.rows.get(key)
        return row.name if row is not None else clean_line(key_name(key, self.default_agent(key)), 60)

    def default_agent(self, key: str) -> str:
        """Return the default agent of the gateway that a key belongs to."""
        return self._agents.get(split(key)[0], "main")

    def configure(self, main_key: str, agents: Mapping[str, str]) -> None:
        """Note other rules: the main key, each gateway's default agent by its name; what rows say of them follows."""
        self.main_key, self._agents = main_key, dict(agents)
        for row in list(self.rows.values()):
            self._put(row.session)
        self.placement.reset()

    def apply(self, event: Event) -> str | None:
        """Take an event in; return the key of the row that changed, None when none did."""
        match event:
            case SessionChanged(_, session):
                known = self.rows.get(session.key)
                if known is not None and known.session.rev >= session.rev and session.key not in self._void:
                    return None
                if split(session.key)[0] in self.listed:  # else it may be an old one, and the list tells
                    self._seen.setdefault(session.key, 0)
                self._void.discard(session.key)
                return self._put(session)
            case Activity(key, _, words):
                self._words[key] = clean_line(words, 160)
                return self._again(key)
            case RunChanged(_, run) if not run.live:
                self._words.pop(run.key, None)
                return self._again(run.key)
            case _:
                return None

    def remove(self, key: str) -> bool:
        """Take out a session that was deleted; whether it was known. What it spawned stays."""
        row = self.rows.pop(key, None)
        if row is None:
            return False
        self.counts[row.look] -= 1
        self._children.get(row.session.spawned_by or "", set[str]()).discard(key)
        self._seen.pop(key, None)
        self._words.pop(key, None)
        self._void.discard(key)
        self.placement.reset()
        return True

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
            default_agent=self.default_agent(key),
            policy=self._decide(session) if self._decide is not None else None,
            seen=self._seen.get(key, session.last_seq),
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
