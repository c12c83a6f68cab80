"""What is known of an OpenClaw gateway, kept true: read once after each connection, then from its events.

The list of sessions is read when a connection comes up and never again while it holds; a gateway with thousands of
sessions needs seconds for it. After a connection was lost, the list is compared with what was known, and the
transcripts that somebody watches are read on from where they ended.
"""

import contextlib
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from core.gateway import AgentInfo
from core.model.access import Scope
from core.model.errors import NotFound, SwitchboardError
from core.model.events import ConnectionChanged, Delta
from core.model.json_codec import mapping
from core.model.keys import quoted
from core.model.runs import Run, RunState
from core.model.sessions import Session
from core.model.wrappers import unwrapped
from core.remote.hello import Hello, strings
from core.remote.link import Link
from core.remote.openclaw.features import Features
from core.remote.openclaw.feed import OpenClawHub
from core.remote.openclaw.index import Said, SessionIndex
from core.remote.openclaw.live import LATE_SECONDS, Live
from core.remote.openclaw.rows import place_of, rows_of, text, whole, words_of
from core.remote.openclaw.rules import read_rules
from core.remote.openclaw.transcripts import Follower, TranscriptCache
from core.remote.refusal import RequestNotTaken
from core.rules.ruleset import RuleSet
from core.tasks import Tasks
from core.wire.scopes import ADMIN, READ, WRITE

LIST: Final = "sessions.list"
PAGE: Final = 200
LIST_SECONDS: Final = 120.0
"""An older gateway with very many sessions takes that long."""
WAIT_SECONDS: Final = 60.0
CLOCK_MS: Final = 5_000
"""By so much what is reckoned of the moment when a gateway started may differ between two connections."""
LATE_TIMES: Final = 5
"""How often the words of an end are looked for that was told without them."""
PAUSE_SECONDS: Final = 5.0
"""Between two catch-ups; frames that miss without end must not keep a gateway busy."""
_log: Final = logging.getLogger("switchboard.remote")
_IMPLIED: Final = {READ: {READ, WRITE, ADMIN}, WRITE: {WRITE, ADMIN}}


class GatewayCache:
    """What is known of one gateway.

    Attributes:
        rules: As far as the gateway tells them; `rules_known` says whether it does.
        features: What it takes.
        allowed: Tools that it opened to calls over the wire; None when it does not tell.
    """

    def __init__(self, link: Link) -> None:
        self.link: Final = link
        self.features: Final = Features(link)
        self.rules = RuleSet()
        self.rules_known = False
        self.agents: list[AgentInfo] = []
        self.allowed: frozenset[str] | None = None
        self.hub: Final = OpenClawHub(link.clock.now_ms(), self._partial, self._watch)
        self.index: Final = SessionIndex(self.hub)
        self.live: Final = Live(
            self.hub, link.clock, link.now_ms, self.index.run_changed, self._tell_end, self._last_words
        )
        self.follower: Final = Follower(self.features, self.hub, self._moved, self.live.committed)
        self._loaded = False
        self._tasks = Tasks(_failed)
        self._catching_up = False
        self._behind = False
        self._subscribed = True
        self._names_agents = False
        self._boot: str | None = None
        self._began: float | None = None
        link.on_event, link.on_up, link.on_gap = self._take, self._up, self._gap
        link.on_change = lambda connection: self.hub.tell(ConnectionChanged(connection))

    def may(self, scope: str) -> bool:
        """Whether the connection was granted a scope, as far as is known."""
        hello = self.link.hello
        if hello is None or hello.scopes is None:
            return hello is not None
        return any(granted in _IMPLIED.get(scope, {scope}) for granted in hello.scopes)

    def find(self, ref: str, scope: Scope) -> Session:
        """Return a session by key or id; raises `NotFound` when there is none in this scope."""
        session = self.index.by_ref(ref)
        if session is None or not self.index.sees(scope, session):
            raise NotFound(f"there is no session {quoted(ref)}")
        return session

    def for_each_agent(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters that ask something of the gateway's agents: of each, where it wants one named."""
        if not self._names_agents or not self.features.takes(method, "agentId"):
            return [{}]
        return [{"agentId": agent.agent_id} for agent in self.agents]

    async def close(self) -> None:
        """End the connection and all feeds."""
        await self._tasks.stop()
        await self.follower.close()
        await self.live.close()
        await self.link.close()
        self.hub.close()

    # The connection

    async def _up(self, hello: Hello) -> None:
        self.features.forget()  # what the hello names is not all that it has
        started_anew = self._started_anew(hello)
        self._subscribed = await self.features.optional("sessions.subscribe") is not None
        await self._read_rules()
        await self._read_list(started_anew=started_anew)
        self._loaded = True

    async def _read_rules(self) -> None:
        agents = await self.features.optional("agents.list") or {}
        self._names_agents = agents.get("selectionRequired") is True
        told = await self.features.optional("config.get")  # it is the gateway's to say who reads its configuration
        config = mapping((told or {}).get("config"))
        allowed = strings(mapping(mapping(config.get("gateway")).get("tools")).get("allow"))
        self.rules_known, self.allowed = bool(config), frozenset(allowed) if told is not None else None
        self.rules = read_rules(config, agents)
        self.index.default_agent = self.rules.default_agent
        rows = {text(row, "id"): row for row in rows_of(agents, "agents")}
        self.agents = [
            AgentInfo(name, agent.name, _model(rows.get(name, {})), default=name == self.rules.default_agent)
            for name, agent in self.rules.agents.items()
        ]
        self.agents.sort(key=lambda agent: not agent.default)

    def _started_anew(self, hello: Hello) -> bool:
        """Whether the gateway is another process than at the last connection, as far as it tells."""
        began = None if hello.uptime_ms is None else self.link.now_ms() - hello.uptime_ms
        (boot, before), (self._boot, self._began) = (self._boot, self._began), (hello.boot_id, began)
        if boot is not None and hello.boot_id is not None:
            return boot != hello.boot_id
        return before is not None and began is not None and began - before > CLOCK_MS

    async def _read_list(self, *, started_anew: bool = False) -> None:
        """Read all sessions, compare them with what was known, and read on in the transcripts that are watched."""
        before = self.hub.rev
        rows = await self._pages(archived="all")
        if not self.features.takes(LIST, "archived", "all") and self.features.takes(LIST, "archived"):
            rows += await self._pages(archived=True)  # it has two lists
        interrupted = self.live.interrupted() if self._loaded else []
        self.index.replace(rows, before, self.link.now_ms())
        if started_anew:
            self.live.cut_off(interrupted, _at_work(rows))
        else:
            for run in interrupted:
                self._tasks.spawn(self.ask_for_end(run.run_id, None))  # which may have been missed
        for key in self.hub.watched_keys():
            if self.follower.get(key) is not None:
                self.follower.hint(key)

    async def _pages(self, *, archived: bool | str) -> list[Mapping[str, Any]]:
        """Read the rows of the list, all at once where there are no pages.

        Args:
            archived: `"all"`, or whether those are wanted that are archived.
        """
        rows: list[Mapping[str, Any]] = []

        def params() -> dict[str, Any]:
            pages = {"limit": PAGE, "offset": len(rows), "includeLastMessage": True}
            part = pages if self.features.takes(LIST, "offset") else {}
            return self.features.pick(LIST, includeGlobal=True, includeUnknown=True, archived=archived, **part)

        while True:
            answer = await self.features.ask(LIST, params, timeout=LIST_SECONDS)
            page = rows_of(answer, "sessions")
            rows += page
            if not page or answer.get("hasMore") is not True or not self.features.takes(LIST, "offset"):
                return rows

    def _gap(self) -> None:
        self._behind = True
        if not self._catching_up:
            self._catching_up = True
            self._tasks.spawn(self._catch_up())

    async def _catch_up(self) -> None:
        try:
            while self._behind:
                self._behind = False
                await self._read_list()
                await self.link.clock.sleep(PAUSE_SECONDS)
        finally:
            self._catching_up = False

    # Events

    def _take(self, name: str, payload: object) -> None:
        data = mapping(payload)
        key = text(data, "sessionKey")
        if key is None:
            return
        match name:
            case "chat":
                self.live.chat(data, self._session_id(key))
                if not self._subscribed and (key not in self.index.rows or text(data, "state") != "delta"):
                    self._hint(key)
                    self._gap()  # nobody tells what became of the session, so that it has to be read
            case "agent" | "session.tool":
                self.live.agent(data, self._session_id(key))
                if text(mapping(data.get("data")), "phase") in {"result", "end"}:
                    self._hint(key)
            case "session.message":
                self._take_message(key, data)
            case "sessions.changed":
                self._take_change(key, data)
            case _:
                pass

    def _take_message(self, key: str, data: Mapping[str, Any]) -> None:
        message = mapping(data.get("message"))
        place = whole(data, "messageSeq") or place_of(message)
        stored = text(data, "messageId") is not None  # an older gateway tells of a message before it has stored it
        at = whole(message, "timestamp") or self.link.now_ms()
        counts = stored and not self.hub.wants(key)  # in a transcript that is followed, places come with the messages
        said = Said(text(message, "role") or "", unwrapped(words_of(message)), place if counts else None, at)
        row = _row_of(data)
        if row is None:
            self.index.heard(key, said)
        else:
            self.index.take(row, said if stored else None)
        if stored:
            self._hint(key, place)

    def _take_change(self, key: str, data: Mapping[str, Any]) -> None:
        reason, phase, run_id = text(data, "reason"), text(data, "phase"), text(data, "runId")
        if reason == "delete":
            self.follower.forget(key)
            self.index.remove(key)
            return
        row = _row_of(data)
        session = self.index.take(row) if row is not None else self.index.rows.get(key)
        if run_id is not None and phase == "start":
            self.live.begin(run_id, key, self._session_id(key))
        if run_id is not None and phase in {"end", "error"}:
            ended: RunState = "error" if phase == "error" else "done"
            if session is not None and session.status in {"error", "aborted", "timed_out"}:
                ended = session.status
            self.live.end_late(run_id, ended)
        if reason in {"reset", "compact"} or phase in {"end", "error", "message"}:
            self._hint(key)

    def _hint(self, key: str, place: int | None = None) -> None:
        if self.hub.wants(key):
            self.follower.hint(key, place)

    def _session_id(self, key: str) -> str:
        session = self.index.rows.get(key)
        return session.session_id if session is not None else ""

    def _watch(self, key: str) -> None:
        if self.follower.get(key) is not None and self.link.live:
            self.follower.hint(key)

    def _partial(self, key: str | None) -> Iterable[Delta]:
        return self.live.partial(key)

    def _moved(self, cached: TranscriptCache) -> None:
        session = self.index.rows.get(cached.key)
        if session is not None:
            name = cached.session_id or session.session_id
            places = {"first_seq": cached.first_seq, "last_seq": cached.last_seq}
            self.index.put(session._replace(session_id=name, **places))

    # Runs

    async def _tell_end(self, run: Run) -> None:
        try:
            if self.hub.wants(run.key):
                await self.follower.sync(run.key)
        except SwitchboardError:
            pass  # the words will be read when the connection is back
        finally:
            self.live.over(run)

    async def ask_for_end(self, run_id: str, seconds: float | None) -> None:
        """Ask the gateway for the end of a run until it has ended, at most that long."""
        clock = self.link.clock
        began = clock.monotonic()
        while seconds is None or clock.monotonic() - began < seconds:
            left = WAIT_SECONDS if seconds is None else min(WAIT_SECONDS, seconds - (clock.monotonic() - began))
            params = {"runId": run_id, "timeoutMs": max(round(left * 1000), 1)}
            asked = clock.monotonic()
            try:
                answer = await self.features.ask("agent.wait", params, timeout=left + WAIT_SECONDS, again=True)
            except RequestNotTaken:
                return  # what is heard of it has to do
            status = text(answer, "status")
            if status in {"ok", "error"}:
                if text(mapping(answer.get("terminalReply")), "text") is None:
                    await self._words_came(run_id)
                run = self.live.get(run_id)
                if run is None or run.state != "queued":
                    await self._take_end(run_id, answer)
                    return
            if clock.monotonic() - asked < 1:  # it does not know the run, and does not wait for it either
                await clock.sleep(1)

    async def _words_came(self, run_id: str) -> None:
        """Wait for what knows more of an end: its words, or that the message is queued; they may be late."""
        for _ in range(LATE_TIMES):
            await self.link.clock.sleep(LATE_SECONDS)
            run = self.live.get(run_id)
            if run is None or run.state != "running" or await self._last_words(run):
                return

    async def _take_end(self, run_id: str, answer: Mapping[str, Any]) -> None:
        run = self.live.get(run_id)
        if run is None or not run.live:
            return
        if answer.get("status") == "error":
            state: RunState = "aborted" if answer.get("stopReason") == "rpc" else "error"
            self.live.end(run_id, state, "", text(answer, "error") or "the run failed")
            return
        reply = text(mapping(answer.get("terminalReply")), "text")
        self.live.end(run_id, "done", await self._last_words(run) if reply is None else reply)

    async def _last_words(self, run: Run) -> str:
        """Return what the agent said last in a run's session, for a run whose own last words were missed."""
        with contextlib.suppress(SwitchboardError):
            cached = await self.follower.sync(run.key)
            for message in reversed(await self.follower.read(cached, cached.last_seq - 10, cached.last_seq)):
                if message.role == "assistant" and message.timestamp >= run.accepted_at:
                    return message.text
        return ""


def _failed(error: BaseException) -> None:
    if not isinstance(error, SwitchboardError):  # else the connection was lost: the next one catches up
        _log.error("what was missed was not read", exc_info=error)


def _row_of(payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the session's row that an event carries, None when it carries none.

    The row comes nested, flat, or both; the nested one is whole.
    """
    nested = payload.get("session")
    key = payload.get("sessionKey")
    if isinstance(nested, Mapping):
        return {"key": key, **nested}
    if payload.get("sessionId") and "updatedAt" in payload:
        return {**payload, "key": key}
    return None


def _at_work(rows: list[Mapping[str, Any]]) -> dict[str, str]:
    """Return the runs that a list says are at work, by session."""
    return {
        key: run_ids[0] for row in rows if (key := text(row, "key")) and (run_ids := strings(row.get("activeRunIds")))
    }


def _model(row: Mapping[str, Any]) -> str:
    return text(mapping(row.get("model")), "primary") or text(row, "model") or "unknown"
