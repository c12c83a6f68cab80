"""The port over a connection to one of our own gateways (dialect `port-v1`, `core.wire.port`): nothing is lost on it.

What is asked for is asked again when the connection is lost meanwhile, and done once; a wait goes on; a feed catches up
from its cursor. While there is no connection, everything is refused at once, with the time of the next attempt.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from core.gateway import Action, AgentInfo, ModelInfo, NativeTool
from core.model.access import Caller, Scope
from core.model.connection import Connection
from core.model.errors import Invalid, SwitchboardError, Unavailable
from core.model.events import ConnectionChanged, Cursor, Event
from core.model.exchanges import Delivery, DeliveryState, Exchange
from core.model.ids import new_id
from core.model.messages import Draft, Message
from core.model.runs import Run, RunOutcome, RunRequest, RunTicket
from core.model.sessions import (
    HistoryPage,
    NewSession,
    Override,
    SearchHit,
    Session,
    SessionPage,
    SessionPatch,
    SessionQuery,
)
from core.remote.hello import Hello, mapping
from core.remote.link import Link
from core.remote.native.feed import Begun, RemoteFeed, Wish
from core.remote.refusal import RequestNotTaken
from core.rules.policy import PolicyDecision
from core.rules.ruleset import RuleSet
from core.tasks import Tasks
from core.wire import port
from core.wire.codec import CALLER, read_events
from core.wire.port import ACTION_SCOPES, DESCRIBED, Described, call

ANSWER_SECONDS: Final = 30.0
WAIT_SECONDS: Final = 20.0
"""How long the gateway is asked to wait for a run at a time; a longer wait asks again."""
PAUSE_SECONDS: Final = 0.25
"""Before a wait that could not be made is tried again."""
UNKNOWN_METHOD: Final = "unknown method"
_MANY_FAILURES: Final = 8
_log: Final = logging.getLogger("switchboard.remote")


class NativeGateway:
    """One of our own gateways, reached over a link.

    The link is its own from then on: it hears the link's events and closes it.
    """

    def __init__(self, link: Link) -> None:
        self.link: Final = link
        self._described: Described | None = None
        self._feeds: dict[str, RemoteFeed] = {}
        self._names = 0
        self._opening = Tasks(_failed)
        self._tasks = Tasks(_failed)
        link.on_up = self.up
        link.on_event = self._take
        link.on_change = self._tell_connection
        link.on_gap = self._begin_all

    @classmethod
    async def open(cls, link: Link) -> "NativeGateway":
        """Make the connection, and return the gateway at its other end.

        Raises:
            SwitchboardError: It cannot be made; the link is closed then.
        """
        gateway = cls(link)
        try:
            await link.open()
        except BaseException:
            await gateway.close()
            raise
        return gateway

    async def close(self) -> None:
        """End the connection and all feeds."""
        for feed in list(self._feeds.values()):
            feed.close()
        await self.link.close()
        await self._opening.stop()
        await self._tasks.stop()

    def retry(self) -> None:
        """Try to connect now instead of later."""
        self.link.retry()

    async def up(self, hello: Hello) -> None:  # noqa: ARG002 - the gateway describes itself in our own words
        """Learn what the gateway says of itself, and begin all feeds; the link calls it after every introduction."""
        self._describe(await self.link.request(port.DESCRIBE, {}))
        for feed in list(self._feeds.values()):
            if not feed.behind:
                await self._begin(feed)

    # What the port asks for: standing facts

    @property
    def rules(self) -> RuleSet:
        """The rules in force there; the defaults until they were told."""
        return self._described.rules if self._described is not None else RuleSet()

    @property
    def connection(self) -> Connection:
        """How the gateway is reached."""
        connection, told = self.link.connection, self._described
        if connection.state != "live" or told is None:
            return connection
        return replace(connection, state=told.state, detail=told.detail)

    @property
    def store_id(self) -> str | None:
        """The uuid of its store; None until it was told."""
        return self._described.store_id if self._described is not None else None

    def now_ms(self) -> int:
        """Return the gateway's time in ms since the Unix epoch."""
        return self.link.now_ms()

    def refusal(self, action: Action, key: str | None = None) -> str | None:  # noqa: ARG002 - one reason covers all
        """Return why an action is not possible now; None when it is."""
        connection, told = self.connection, self._described
        if not self.link.live or told is None:
            return self._not_connected()
        if connection.scopes and ACTION_SCOPES[action] not in connection.scopes:
            may = "only read" if port.WRITE not in connection.scopes else "not do what is the owner's alone"
            return f"this connection may {may}: the gateway did not grant {ACTION_SCOPES[action]}"
        return told.refusals.get(action)

    def unready(self) -> str | None:
        """Return why nothing reaches the gateway now; None when it is reached."""
        return None if self.link.live and self._described is not None else self._not_connected()

    def policy_of(self, session: Session) -> PolicyDecision | None:
        """Return the effective send policy of a session."""
        return self.rules.send_decision(session)

    def native_tool(self, name: str) -> NativeTool | None:
        """Return the tool as the gateway runs it: there it goes on when this end is gone."""

        async def run(arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
            seconds = arguments.get("timeoutSeconds")
            patience = float(seconds) if isinstance(seconds, int | float) else ANSWER_SECONDS
            params = {"name": name, "arguments": dict(arguments), "caller": CALLER.write(caller), **self._once()}
            return dict(mapping(await self._asked(port.TOOL, params, patience + ANSWER_SECONDS)))

        return run

    # Reads

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        """Return sessions, newest first."""
        return await self._call("list_sessions", query=query, scope=scope)

    async def get_session(self, ref: str, scope: Scope) -> Session:
        """Return one session by canonical key or by session id."""
        return await self._call("get_session", ref=ref, scope=scope)

    async def history(
        self,
        ref: str,
        scope: Scope,
        *,
        limit: int,
        before: int | None = None,
        include_tools: bool = True,
        in_brief: bool = False,
    ) -> HistoryPage:
        """Return the newest `limit` messages, or those before a `seq`, in order."""
        return await self._call(
            "history",
            ref=ref,
            scope=scope,
            limit=limit,
            before=before,
            include_tools=include_tools,
            in_brief=in_brief,
        )

    async def search(
        self, text: str, scope: Scope, *, key: str | None = None, limit: int = 50, redacted: bool = False
    ) -> list[SearchHit]:
        """Return messages that hold every word, newest first."""
        return await self._call("search", text=text, scope=scope, key=key, limit=limit, redacted=redacted)

    async def agents(self) -> list[AgentInfo]:
        """Return the configured agents, the default one first."""
        return await self._call("agents")

    async def models(self) -> list[ModelInfo]:
        """Return the models that sessions and spawns may name."""
        return await self._call("models")

    async def overrides(self) -> dict[str, Override]:
        """Return the overrides of the send policy that wait for a session of their key; older gateways keep none."""
        try:
            return await self._call("overrides")
        except RequestNotTaken:
            return {}

    async def runs(self, key: str, scope: Scope, *, limit: int) -> list[Run]:
        """Return the newest runs of a session, newest first."""
        return await self._call("runs", key=key, scope=scope, limit=limit)

    async def wait_run(self, run_id: str, timeout: float | None) -> RunOutcome:  # noqa: ASYNC109 - a wait of the wire
        """Wait until a run ends, at most `timeout` seconds, also across lost connections."""
        clock = self.link.clock
        end = None if timeout is None else clock.monotonic() + timeout
        failures = 0
        while True:
            left = WAIT_SECONDS if end is None else max(0.0, end - clock.monotonic())
            try:
                outcome: RunOutcome = await self._call(
                    "wait_run",
                    seconds=left + ANSWER_SECONDS,
                    run_id=run_id,
                    timeout=min(left, WAIT_SECONDS),
                )
            except Unavailable:
                failures = 0 if not self.link.live else failures + 1
                is_over = end is not None and clock.monotonic() >= end
                if is_over or failures >= _MANY_FAILURES or self.link.connection.state == "refused":
                    raise
                await clock.sleep(PAUSE_SECONDS)
                continue
            if outcome.status != "timeout" or (end is not None and clock.monotonic() >= end):
                return outcome
            failures = 0

    async def exchange(self, exchange_id: str) -> tuple[Exchange, Delivery | None] | None:
        """Return an exchange with the delivery of its announce."""
        return await self._call("exchange", exchange_id=exchange_id)

    async def exchanges(self, key: str, *, limit: int) -> list[tuple[Exchange, Delivery | None]]:
        """Return the newest exchanges of a session, newest first, each with the delivery of its announce."""
        return await self._call("exchanges", key=key, limit=limit)

    async def deliveries(
        self, key: str | None = None, *, states: Collection[DeliveryState] = (), limit: int
    ) -> list[Delivery]:
        """Return the newest deliveries, newest first."""
        return await self._call("deliveries", key=key, states=states, limit=limit)

    async def transcript_path(self, session: Session) -> Path | None:
        """Return where the transcript's JSONL file is, when that is on this machine."""
        return await self._call("transcript_path", session=session)

    # Writes

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        """Accept a message for a session; the run's id is chosen here, so that asked twice it runs once."""
        if request.run_id is None:
            request = replace(request, run_id=new_id())
        return await self._change("start_run", request=request, caller=caller)

    async def abort(self, ref: str, caller: Caller, *, run_id: str | None = None) -> list[str]:
        """Stop the running run of a session and drop the queued ones, or one of them; return the ids."""
        return await self._change("abort", ref=ref, caller=caller, run_id=run_id)

    async def patch(self, ref: str, patch: SessionPatch, caller: Caller) -> Session:
        """Change label, model, levels or send policy of a session."""
        return await self._change("patch", ref=ref, patch=patch, caller=caller)

    async def reset(self, ref: str, caller: Caller) -> Session:
        """Give the session an empty transcript."""
        return await self._change("reset", ref=ref, caller=caller)

    async def archive(self, ref: str, caller: Caller, *, archived: bool) -> Session:
        """Take a session out of the list, or bring it back."""
        return await self._change("archive", ref=ref, caller=caller, archived=archived)

    async def create(self, new: NewSession, caller: Caller) -> Session:
        """Make a session without a message; one that exists already is returned as it is."""
        return await self._change("create", new=new, caller=caller)

    async def delete(self, ref: str, caller: Caller) -> None:
        """Remove a session with its transcripts, for good."""
        await self._change("delete", ref=ref, caller=caller)

    async def append(self, ref: str, draft: Draft, caller: Caller) -> Message:
        """Append a message without a run; when this returns, it is on disk."""
        return await self._change("append", ref=ref, draft=draft, caller=caller)

    async def retry_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Send a delivery again."""
        return await self._change("retry_delivery", delivery_id=delivery_id, caller=caller)

    async def drop_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Give up a delivery."""
        return await self._change("drop_delivery", delivery_id=delivery_id, caller=caller)

    # Events

    def subscribe(self, after: Cursor | None = None) -> RemoteFeed:
        """Hear of every durable change from now on, or of everything since a cursor; reads that follow wait for it."""
        self._names += 1
        feed = RemoteFeed(str(self._names), after, self.store_id, self._do)
        self._feeds[feed.name] = feed
        if self.link.live and self._described is not None:
            self._do(feed, "begin")
        else:
            feed.missed()
        return feed

    def _do(self, feed: RemoteFeed, wish: Wish) -> None:
        """Do what a feed wants; without a connection there is nothing to do, `up` sees to it."""
        if feed.closed:
            self._feeds.pop(feed.name, None)
        if not self.link.live:
            return
        if wish == "begin":
            self._opening.spawn(self._begin(feed))
        elif wish == "watch":
            self._tasks.spawn(self._tell(feed, port.WATCH, _watched(feed)))
        else:
            self._tasks.spawn(self._tell(feed, port.UNSUBSCRIBE, {}))

    async def _begin(self, feed: RemoteFeed) -> None:
        turn = feed.begin()
        params: dict[str, Any] = {"feed": feed.name, "turn": turn, **_watched(feed)}
        if feed.after is not None:
            params |= {"after": feed.after} | ({"storeId": feed.store_id} if feed.store_id is not None else {})
        try:
            answer = mapping(await self.link.request(port.SUBSCRIBE, params))
            cursor, store_id = answer.get("cursor"), answer.get("storeId")
            if not isinstance(cursor, int) or not isinstance(store_id, str):
                raise Unavailable("the gateway does not say where a feed begins")
        except SwitchboardError as error:
            feed.missed()
            _log.warning("a feed could not be begun: %s", error.message)
            return
        feed.begun(turn, Begun(store_id, cursor, answer.get("reset") is True))
        if {**_watched(feed)} != {"watch": params["watch"], "all": params["all"]}:
            self._do(feed, "watch")

    async def _tell(self, feed: RemoteFeed, method: str, params: Mapping[str, Any]) -> None:
        """Tell the gateway about a feed; when that fails, the next beginning tells it."""
        try:
            await self.link.request(method, {"feed": feed.name, **params})
        except SwitchboardError as error:
            _log.info("%s was not heard: %s", method, error.message)

    def _begin_all(self) -> None:
        """Begin all feeds anew: frames were lost between here and there."""
        for feed in self._feeds.values():
            if not feed.behind:
                self._do(feed, "begin")

    def _take(self, name: str, payload: object) -> None:
        if name != port.EVENTS:
            return
        batch = mapping(payload)
        if "described" in batch:
            self._describe(batch["described"])
        feed, turn = self._feeds.get(str(batch.get("feed"))), batch.get("turn")
        if feed is not None and isinstance(turn, int):
            events = read_events(batch.get("events"))
            feed.take(turn, [self._seen_from_here(event) for event in events])

    def _seen_from_here(self, event: Event) -> Event:
        """Return an event as this end tells it: how the gateway fares is a part of how it is reached."""
        return ConnectionChanged(self.connection) if isinstance(event, ConnectionChanged) else event

    def _tell_connection(self, connection: Connection) -> None:  # noqa: ARG002 - ours says more
        for feed in self._feeds.values():
            feed.tell(ConnectionChanged(self.connection))

    # Asking

    async def _call(self, name: str, *, seconds: float = ANSWER_SECONDS, **arguments: object) -> Any:  # noqa: ANN401
        """Call a method that changes nothing."""
        return self._result(name, await self._asked(f"port.{name}", call(name).write(arguments), seconds))

    async def _change(self, name: str, **arguments: object) -> Any:  # noqa: ANN401 - as the port says
        """Call a method that changes something; asked for again, it is done once."""
        params = {**call(name).write(arguments), **self._once()}
        return self._result(name, await self._asked(f"port.{name}", params, ANSWER_SECONDS))

    def _once(self) -> dict[str, Any]:
        boot = self._described.boot if self._described is not None else None
        return {"once": new_id(), "boot": boot}

    async def _asked(self, method: str, params: object, seconds: float) -> Any:  # noqa: ANN401 - any JSON
        await self._opening.wait()
        if not self.link.live:
            raise Unavailable(self._not_connected())
        try:
            return await self.link.request(method, params, timeout=seconds, again=True)
        except Invalid as error:
            if not error.message.startswith(UNKNOWN_METHOD):
                raise
            there = self.link.connection.version or "older than this program"
            raise RequestNotTaken(f"this gateway is {there} and has no {method} yet: update it") from None

    def _result(self, name: str, payload: object) -> Any:  # noqa: ANN401 - as the port says
        try:
            return call(name).result.read(payload)
        except Invalid as error:
            raise Unavailable(
                f"the gateway answers port.{name} in a way that cannot be read: {error.message}"
            ) from None

    def _describe(self, payload: object) -> None:
        try:
            self._described = DESCRIBED.read(payload)
        except Invalid as error:
            raise Unavailable(f"the gateway says nothing of itself that can be read: {error.message}") from None

    def _not_connected(self) -> str:
        connection = self.link.connection
        where = connection.name or connection.address
        if connection.state == "refused":
            return connection.detail
        if connection.retry_at is None:
            return f"not connected to {where} yet"
        seconds = max(0, round((connection.retry_at - self.link.clock.now_ms()) / 1000))
        return f"not connected to {where}: next try in {seconds} s"


def _failed(error: BaseException) -> None:
    _log.error("a feed was not begun, or not told what is watched", exc_info=error)


def _watched(feed: RemoteFeed) -> dict[str, Any]:
    return {"watch": sorted(key for key in feed.watched if key is not None), "all": None in feed.watched}
