"""Runs and replies under way at an OpenClaw gateway, made out of its passing events (protocol#events).

Those gateways keep no runs that could be read: one begins with the first thing heard of it and ends with the first
word of its end. What a run says comes as the whole reply so far; what is new in it is told. A message for a session
that is at work ends at once without a word: it counts as queued until a later run of another id carries it, or until
the run at work, which took it in, has ended.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from core.clock import Clock
from core.model.events import Activity, Delta, RunChanged, ToolProgress
from core.model.json_codec import mapping
from core.model.runs import Run, RunState, bare_run
from core.remote.openclaw.feed import OpenClawHub
from core.remote.openclaw.rows import PREVIEW_CHARS, last_words_of, text, words_of
from core.tasks import Tasks

KEPT_RUNS: Final = 2000
ACTIVITY_SECONDS: Final = 0.5
NOTE_CHARS: Final = 200
LATE_SECONDS: Final = 1.0
"""How long the words of an end may come after it was told that a run has ended."""
CARRIED_SECONDS: Final = 8.0
"""How long a queued message waits for the run that carries it, once nothing runs."""
RESUMED_SECONDS: Final = 30.0
"""How long after a gateway has started anew it may still go on with what it was at."""
CUT_OFF: Final = "the gateway started anew while it ran, and has not gone on with it: send again what is still wanted"
_log: Final = logging.getLogger("switchboard.remote")
_ENDS: Final[dict[str, RunState]] = {"final": "done", "aborted": "aborted", "error": "error"}


@dataclass(slots=True)
class _Words:
    """What the running reply of a session says.

    Attributes:
        said: All of it.
        done: Characters of it that stand in the transcript by now.
        told_at: When its last words were told for the row.
    """

    run_id: str
    said: str = ""
    done: int = 0
    told_at: float = float("-inf")

    @property
    def open(self) -> str:
        """What does not stand in the transcript yet."""
        return self.said[self.done :].lstrip("\n")


@dataclass(slots=True)
class Live:
    """What runs.

    Args:
        now_ms: The gateway's time.
        changed: Told of a run that began or ended, before anybody hears of it.
        ended: Hears of a run that has ended, and tells the others, once its reply stands in the transcript.
        recall: Reads the last words of a run in its transcript, where they were not heard.

    Attributes:
        replies: Last words of runs that ended, by id.
    """

    _hub: OpenClawHub
    _clock: Clock
    _now_ms: Callable[[], int]
    _changed: Callable[[Run], None]
    _ended: Callable[[Run], Coroutine[Any, Any, None]]
    _recall: Callable[[Run], Awaitable[str]]
    replies: OrderedDict[str, str] = field(init=False, default_factory=OrderedDict[str, str])
    _runs: OrderedDict[str, Run] = field(init=False, default_factory=OrderedDict[str, Run])
    _words: dict[str, _Words] = field(init=False, default_factory=dict[str, _Words])
    _waiting: dict[str, asyncio.Event] = field(init=False, default_factory=dict[str, asyncio.Event])
    _late: Tasks = field(init=False, default_factory=lambda: Tasks(_failed))
    _at_work: set[str] = field(init=False, default_factory=set[str])
    _queued: dict[str, list[str]] = field(init=False, default_factory=dict[str, list[str]])
    _carries: dict[str, list[str]] = field(init=False, default_factory=dict[str, list[str]])
    _cut: set[str] = field(init=False, default_factory=set[str])

    # What is heard

    def chat(self, payload: Mapping[str, Any], session_id: str) -> None:
        """Take a `chat` event."""
        key, run_id, state = text(payload, "sessionKey"), text(payload, "runId"), text(payload, "state")
        if key is None or run_id is None or state is None:
            return
        if state in _ENDS:
            error = text(payload, "errorMessage") or ("the run failed" if state == "error" else None)
            self.begin(run_id, key, session_id)
            if state == "final" and "message" not in payload and run_id not in self._at_work:
                self._queue(run_id)
            else:
                self.end(run_id, _ENDS[state], last_words_of(payload.get("message")), error)
            return
        self._work(run_id, key, session_id)
        if state == "delta":
            self._say(key, run_id, words_of(payload.get("message")), text(payload, "deltaText") or "")

    def agent(self, payload: Mapping[str, Any], session_id: str) -> None:
        """Take an `agent` or `session.tool` event."""
        key, run_id, data = text(payload, "sessionKey"), text(payload, "runId"), mapping(payload.get("data"))
        if key is None or run_id is None:
            return
        stream, phase = text(payload, "stream"), text(data, "phase")
        if stream == "lifecycle":
            if phase == "start":
                self._work(run_id, key, session_id)
            elif phase in {"end", "error"}:
                state: RunState = "aborted" if data.get("aborted") is True else "error" if phase == "error" else "done"
                self.end_late(run_id, state, text(data, "error"))
        elif phase in {"start", "update"} and (stream == "tool" or (stream == "item" and data.get("kind") == "tool")):
            self._work(run_id, key, session_id)
            note = "" if phase == "start" and stream == "tool" else text(data, "meta") or text(data, "title") or ""
            call, name = text(data, "toolCallId") or text(data, "itemId") or "", text(data, "name") or "tool"
            self._hub.tell(ToolProgress(key, run_id, call, name, note[:NOTE_CHARS]))

    def begin(self, run_id: str, key: str, session_id: str) -> Run:
        """Note that a run goes on; one that is over stays over."""
        known = self._runs.get(run_id)
        if known is not None:
            return known
        now = self._now_ms()
        run = bare_run(run_id, key, session_id, "turn", "running", now)
        return self._tell(run._replace(rev=self._hub.next(), started_at=now, attempts=1))

    def end(self, run_id: str, state: RunState, reply: str = "", error: str | None = None) -> None:
        """Note that a run is over; only the first time counts."""
        run = self._runs.get(run_id)
        if run is None or not run.live:
            return
        run = run._replace(state=state, ended_at=self._now_ms(), error=error, rev=self._hub.next())
        self.replies[run_id] = reply
        while len(self.replies) > KEPT_RUNS:
            self.replies.popitem(last=False)
        self._keep(run)
        self._cut.discard(run_id)
        self._at_work.discard(run_id)
        for carried in self._carries.pop(run_id, ()):
            self.end(carried, state, reply, error)
        if (waiting := self._waiting.pop(run_id, None)) is not None:
            waiting.set()
        self._changed(run)
        self._late.spawn(self._ended(run))

    def end_late(self, run_id: str, state: RunState, error: str | None = None) -> None:
        """Note that a run is over, unless its end comes with words in a moment."""
        run = self._runs.get(run_id)
        if run is None or not run.live:
            return

        async def wait() -> None:
            await self._clock.sleep(LATE_SECONDS)
            self.end(run_id, state, "", error)

        self._late.spawn(wait())

    def cut_off(self, runs: Iterable[Run], successors: Mapping[str, str]) -> None:
        """Note that a gateway has started anew under runs: one of another id may go on with each.

        Args:
            successors: Runs that are at work there now, by session.
        """
        keys: dict[str, str] = {}
        for run in runs:
            keys[run.key] = run.session_id
            self._at_work.discard(run.run_id)
            self._cut.add(run.run_id)
            if run.run_id not in self._queued.setdefault(run.key, []):
                self._queued[run.key].append(run.run_id)
            self._change(run.run_id, "queued")
            self._late.spawn(self._miss(run))
        for key, session_id in keys.items():
            if (successor := successors.get(key)) is not None:
                self._work(successor, key, session_id)

    async def _miss(self, run: Run) -> None:
        await self._clock.sleep(RESUMED_SECONDS)
        if run.run_id in self._queued.get(run.key, ()):
            self._queued[run.key].remove(run.run_id)
            self.end(run.run_id, "interrupted", "", CUT_OFF)

    def standing(self, run_id: str) -> str:
        """Return what is known of a run that has not ended, for whoever has waited long enough."""
        after = "its reply will be in the session's transcript"
        if run_id not in self._cut:
            return f"the run goes on; {after}"
        carrier = next((name for name, carried in self._carries.items() if run_id in carried), None)
        if carrier is not None:
            return f"the gateway started anew while it ran, and goes on with it as run {carrier}; {after}"
        return "the gateway started anew while it ran; whether it goes on with it is not known yet"

    def _work(self, run_id: str, key: str, session_id: str) -> None:
        """Note that a run is at work; one that nobody here asked for carries what was queued."""
        is_new = run_id not in self._runs
        run = self.begin(run_id, key, session_id)
        if run.live:
            self._at_work.add(run_id)
        if is_new and (queued := self._queued.pop(key, None)):
            self._carries[run_id] = queued
            for carried in queued:
                self._change(carried, "running")

    def _queue(self, run_id: str) -> None:
        run = self._runs[run_id]
        if run.state == "running":
            self._queued.setdefault(run.key, []).append(run_id)
            self._change(run_id, "queued")
            self._late.spawn(self._give_up(run_id))

    async def _give_up(self, run_id: str) -> None:
        """End a queued message that no run carries: it was taken into the one that was at work."""
        key = self._runs[run_id].key
        while run_id in self._queued.get(key, ()):
            await self._clock.sleep(CARRIED_SECONDS)
            if any(run.key == key and run.state == "running" for run in self._runs.values()):
                continue
            if run_id in self._queued.get(key, ()):
                self._queued[key].remove(run_id)
                await self._end_taken_in(self._runs[run_id])

    async def _end_taken_in(self, run: Run) -> None:
        """End a message with the run that took it in, when that failed; otherwise with what was said since."""
        later = [
            each for each in self._runs.values() if each.key == run.key and (each.ended_at or 0) >= run.accepted_at
        ]
        host = max(later, key=lambda each: each.ended_at or 0, default=None)
        if host is None or host.state == "done":
            self.end(run.run_id, "done", await self._recall(run))
            return
        how = "was stopped" if host.state == "aborted" else "failed"
        why = f": {host.error}" if host.error else ""
        error = f"the gateway gave the message to run {host.run_id}, which {how} before it answered{why}"
        self.end(run.run_id, host.state, "", error)

    def _change(self, run_id: str, state: RunState) -> None:
        self._tell(self._runs[run_id]._replace(state=state, rev=self._hub.next()))

    def _tell(self, run: Run) -> Run:
        self._keep(run)
        self._changed(run)
        self._hub.tell(RunChanged(run.rev, run))
        return run

    def over(self, run: Run) -> None:
        """Tell everybody of a run that has ended."""
        words = self._words.get(run.key)
        if words is not None and words.run_id == run.run_id:
            del self._words[run.key]
        rev = self._hub.next()
        self._hub.tell(RunChanged(rev, run._replace(rev=rev)))

    def committed(self, key: str, words: str) -> None:
        """Note that words of a running reply stand in the transcript now; what follows them is told anew."""
        live, said = self._words.get(key), words.strip()
        if live is None or not said or not live.open.startswith(said):
            return
        live.done = live.said.index(said, live.done) + len(said)
        if live.open:
            self._hub.tell(Delta(key, live.run_id, 0, "text", 0, live.open))

    def interrupted(self) -> list[Run]:
        """Return the runs of which the end may have been missed."""
        self._words.clear()
        return [run for run in self._runs.values() if run.live]

    # What is asked

    def get(self, run_id: str) -> Run | None:
        """Return a run that was heard of."""
        return self._runs.get(run_id)

    def of(self, key: str, limit: int) -> list[Run]:
        """Return the newest runs of a session, newest first."""
        return [run for run in reversed(self._runs.values()) if run.key == key][:limit]

    def partial(self, key: str | None) -> Iterable[Delta]:
        """Return the reply under way in a session, or in all."""
        for name, words in list(self._words.items()):
            if key in {None, name} and words.open:
                yield Delta(name, words.run_id, 0, "text", 0, words.open)

    async def ended(self, run_id: str) -> None:
        """Wait until a run that was heard of has ended."""
        run = self._runs.get(run_id)
        if run is None or run.live:
            await self._waiting.setdefault(run_id, asyncio.Event()).wait()

    async def close(self) -> None:
        """Give up what waits."""
        await self._late.stop()

    def _say(self, key: str, run_id: str, whole: str, piece: str) -> None:
        run = self._runs[run_id]
        if not run.live:
            return
        words = self._words.get(key)
        if words is None or words.run_id != run_id:
            words = self._words[key] = _Words(run_id)
        said = whole or words.said + piece
        if not said.startswith(words.said[: words.done]):
            words.done = 0  # it begins anew after a tool
        old, words.said = words.open, said
        new = words.open
        goes_on = bool(old) and new.startswith(old)
        start = len(old) if goes_on else 0
        if len(new) > start or not goes_on:
            self._hub.tell(Delta(key, run_id, 0, "text", start, new[start:]))
        now = self._clock.monotonic()
        if now - words.told_at >= ACTIVITY_SECONDS:
            words.told_at = now
            self._hub.tell(Activity(key, run_id, " ".join(new[-2 * PREVIEW_CHARS :].split())[-PREVIEW_CHARS:]))

    def _keep(self, run: Run) -> None:
        self._runs[run.run_id] = run
        while len(self._runs) > KEPT_RUNS:
            self._runs.popitem(last=False)


def _failed(error: BaseException) -> None:
    _log.error("the end of a run was not found out, or not told", exc_info=error)
