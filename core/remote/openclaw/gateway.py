"""The port over OpenClaw's own protocol, all generations of it (protocol#openclaw)."""

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from core.gateway import Action, AgentInfo, ModelInfo, NativeTool
from core.model.access import ALL, Caller, Operator, Scope
from core.model.commands import parse_command
from core.model.connection import Connection
from core.model.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from core.model.events import Cursor
from core.model.exchanges import Delivery, DeliveryState, Exchange
from core.model.ids import new_id
from core.model.keys import parse, quoted
from core.model.messages import Draft, Message, brief, text_of
from core.model.runs import Run, RunOutcome, RunRequest, RunTicket
from core.model.sessions import (
    HistoryPage,
    NewSession,
    Override,
    SearchHit,
    SearchHits,
    Session,
    SessionPage,
    SessionPatch,
    SessionQuery,
)
from core.remote.hello import mapping, strings
from core.remote.link import Link
from core.remote.openclaw import search
from core.remote.openclaw.cache import GatewayCache, is_main
from core.remote.openclaw.commands import THEIRS, carry_out
from core.remote.openclaw.dialect import ADMIN, LIST, WRITE
from core.remote.openclaw.feed import HubFeed
from core.remote.openclaw.rows import rows_of, text, whole
from core.remote.openclaw.tools import Tools, how_to_open
from core.remote.profile import Profile
from core.rules.policy import PolicyDecision, decide
from core.rules.ruleset import RuleSet
from core.wire.errors import SEND_BLOCKED

SEND_SECONDS: Final = 60.0
_NEEDS: Final[dict[Action, str]] = {
    "send": WRITE,
    "exchange": WRITE,
    "spawn": WRITE,
    "abort": WRITE,
    "patch": WRITE,
    "archive": WRITE,
    "create": WRITE,
    "policy": ADMIN,
    "reset": ADMIN,
    "delete": ADMIN,
    "append": ADMIN,
    "deliver": ADMIN,
}

_NOT_CONNECTED: Final = "there is no connection to this gateway"


class OpenClawGateway:
    """An OpenClaw gateway; see `core.gateway.Gateway`.

    Args:
        link: The connection, not necessarily open yet; everything heard on it comes here from now on.
    """

    def __init__(self, link: Link, profile: Profile) -> None:
        self._link = link
        self._known = GatewayCache(link)
        self._features = self._known.features
        self._index = self._known.index
        self._tools = Tools(self, self._known, profile)

    # What is known without asking

    @property
    def rules(self) -> RuleSet:
        """The rules in force here, as far as the gateway tells them."""
        return self._known.rules

    @property
    def connection(self) -> Connection:
        """How current the answers are."""
        return self._link.connection

    def now_ms(self) -> int:
        """Return the gateway's time in ms since the Unix epoch."""
        return self._link.now_ms()

    def refusal(self, action: Action, key: str | None = None) -> str | None:
        """Return why an action is not possible here, in one sentence; None when it is."""
        if not self._link.live:
            return self._link.connection.detail or _NOT_CONNECTED
        needed = self._needed(action)
        if not self._known.may(needed):
            return f"this connection may not do that: the gateway did not grant it {needed}"
        if action == "spawn" and not self._tools.open("sessions_spawn"):
            return how_to_open("sessions_spawn")
        if action == "exchange" and not self._tools.open("sessions_send"):
            return f"only the first run of such a send happens here: {how_to_open('sessions_send')}"
        if action == "archive" and not self._archives():
            return "this gateway cannot archive sessions: reset or delete them instead"
        if action == "deliver":
            return "this gateway keeps its deliveries to itself: they cannot be listed or tried again from here"
        if action == "delete" and key is not None and is_main(key):
            return "the main session of an agent cannot be deleted: reset it instead"
        return None

    def unready(self) -> str | None:
        """Return why nothing reaches the gateway now; None when it is reached."""
        return None if self._link.live else self._link.connection.detail or _NOT_CONNECTED

    def policy_of(self, session: Session) -> PolicyDecision | None:
        """Return the effective send policy of a session; None where the gateway does not tell its rules."""
        if session.send_policy is None and not self._known.rules_known:
            return None
        return decide(self._known.rules.send_policy, session)

    def native_tool(self, name: str) -> NativeTool | None:
        """Return a session tool that the gateway runs itself; None when it runs here, over this port."""
        return self._tools.native(name)

    # Reads

    async def list_sessions(self, query: SessionQuery, scope: Scope) -> SessionPage:
        """Return sessions, newest first."""
        await self._known.ready()
        return self._index.page(query, scope)

    async def get_session(self, ref: str, scope: Scope) -> Session:
        """Return one session by canonical key or by session id.

        Raises:
            NotFound: There is none in this scope.
        """
        await self._known.ready()
        session = self._known.find(ref, scope)
        if self._known.hub.wants(session.key) and self._known.follower.get(session.key) is None:
            await self._known.follower.sync(session.key)
            session = self._index.rows.get(session.key, session)
        return session

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
        """Return the newest `limit` messages, or those before a `seq`, in order; of the current transcript only."""
        await self._known.ready()
        session = self._known.find(ref, scope)
        cached = self._known.follower.get(session.key)
        if cached is None or before is None or not cached.wire_id:
            cached = await self._known.follower.sync(session.key)
        end = cached.last_seq + 1 if before is None else min(before, cached.last_seq + 1)
        found: list[Message] = []
        while len(found) < limit and end > cached.first_seq:
            start = max(cached.first_seq, end - max(limit - len(found), 1))
            part = await self._known.follower.read(cached, start, end - 1)
            found = [message for message in part if include_tools or message.role != "toolResult"] + found
            end = start
        messages = tuple(brief(message) if in_brief else message for message in found)
        return HistoryPage(session.key, cached.session_id, messages, end if end > cached.first_seq else None)

    async def search(
        self, text: str, scope: Scope, *, key: str | None = None, limit: int = 50, redacted: bool = False
    ) -> list[SearchHit]:
        """Return messages that hold the words; of one session when `key` is given.

        Raises:
            Unavailable: This gateway cannot search all sessions.
        """
        await self._known.ready()
        if key is not None:
            page = await self.history(key, scope, limit=search.READ)
            return search.scan(page, text, limit, redacted=redacted)
        rows = [row for row in self._index.rows.values() if self._index.sees(scope, row)]
        by_agent: dict[str, list[str]] = {agent.agent_id: [] for agent in self._known.agents}
        for row in rows:
            by_agent.setdefault(row.agent_id, []).append(row.key)
        answer = await search.search_all(self._features, text, by_agent, self._known.rules.default_agent)
        seen = {row.key for row in rows}
        found = [hit for hit in search.read_hits(answer.rows, text, redacted=redacted) if hit.key in seen]
        return SearchHits(found[:limit], answer.unsearched)

    async def agents(self) -> list[AgentInfo]:
        """Return the configured agents, the default one first."""
        await self._known.ready()
        return list(self._known.agents)

    async def models(self) -> list[ModelInfo]:
        """Return the models that sessions and spawns may name."""
        found: dict[str, ModelInfo] = {}
        for params in self._known.for_each_agent("models.list"):
            answer = await self._features.ask("models.list", params, again=True)
            for row in rows_of(answer, "models"):
                if name := text(row, "id"):
                    ref = "/".join(part for part in (text(row, "provider"), name) if part)
                    found.setdefault(ref, ModelInfo(ref, whole(row, "contextWindow")))
        return list(found.values())

    async def overrides(self) -> dict[str, Override]:
        """Return nothing: there, an override needs a session."""
        return {}

    async def runs(self, key: str, scope: Scope, *, limit: int) -> list[Run]:
        """Return the newest runs of a session that were heard of, newest first."""
        self._known.find(key, scope)
        return self._known.live.of(key, limit)

    async def exchange(self, exchange_id: str) -> tuple[Exchange, Delivery | None] | None:  # noqa: ARG002
        """Return None: these gateways do not tell of exchanges."""
        return None

    async def exchanges(self, key: str, *, limit: int) -> list[tuple[Exchange, Delivery | None]]:  # noqa: ARG002
        """Return nothing: these gateways do not tell of exchanges."""
        return []

    async def deliveries(
        self,
        key: str | None = None,  # noqa: ARG002
        *,
        states: Collection[DeliveryState] = (),  # noqa: ARG002
        limit: int,  # noqa: ARG002
    ) -> list[Delivery]:
        """Return nothing: these gateways keep their deliveries to themselves."""
        return []

    async def transcript_path(self, session: Session) -> Path | None:  # noqa: ARG002
        """Return None: their files are on another machine."""
        return None

    def subscribe(self, after: Cursor | None = None) -> HubFeed:
        """Hear of every change from now on."""
        return self._known.hub.subscribe(after)

    # Writes

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        """Have a message accepted; it is the gateway's from then on."""
        self._check("spawn" if request.spawn is not None else "send")
        if request.spawn is not None:
            raise Unavailable(how_to_open("sessions_spawn"))
        await self._known.ready()
        session = self._target(request)
        run_id = request.run_id or new_id()
        key = session.key if session is not None else request.target
        command = parse_command(request.message) if request.provenance is None else None
        if command is not None and command.name not in THEIRS and session is not None:
            return await carry_out(self, session, command, caller, run_id)
        answer = await self._hand_over(request, session, key, run_id)
        run_id = text(answer, "runId") or run_id
        session_id = session.session_id if session is not None else ""
        if answer.get("status") == "error":
            raise Unavailable(text(answer, "summary") or "the gateway did not start the run")
        run = self._known.live.begin(run_id, key, session_id)
        self._known.follower.hint(key)
        return RunTicket(run_id, key, session_id, run.state, created=session is None)

    async def wait_run(self, run_id: str, timeout: float | None) -> RunOutcome:  # noqa: ASYNC109 - a wait of the wire
        """Wait until a run ends; it is heard, and asked for in case that was missed."""
        heard = asyncio.ensure_future(self._known.live.ended(run_id))
        asked = asyncio.ensure_future(self._known.ask_for_end(run_id, timeout))
        waits: list[asyncio.Future[Any]] = [heard, asked]
        if timeout is not None:
            waits.append(asyncio.ensure_future(self._link.clock.sleep(timeout)))
        try:
            while not heard.done():
                done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if asked in done:
                    asked.result()
                    waits.remove(asked)
                if timeout is not None and waits[-1] in done and waits[-1] is not asked:
                    break
        finally:
            for task in (*waits, asked):
                task.cancel()
        return await self._outcome(run_id)

    async def abort(self, ref: str, caller: Caller, *, run_id: str | None = None) -> list[str]:  # noqa: ARG002
        """Stop what runs in a session; without a run id the sub-agents that it spawned too."""
        self._check("abort")
        session = self._known.find(ref, ALL)
        params: dict[str, Any] = {"sessionKey": session.key} | ({"runId": run_id} if run_id else {})
        answer = await self._features.ask("chat.abort", params, again=True)
        stopped = strings(answer.get("runIds"))
        keys = (
            [] if run_id is not None else [row.key for row in self._index.below(session.key) if row.status == "running"]
        )
        if not stopped and session.status == "running":
            keys.insert(0, session.key)
        for key in keys:
            params = {"key": key} | ({"runId": run_id} if run_id and key == session.key else {})
            answer = await self._features.ask("sessions.abort", params, again=True)
            if (name := text(answer, "abortedRunId")) is not None:
                stopped.append(name)
        return stopped

    async def patch(self, ref: str, patch: SessionPatch, caller: Caller) -> Session:
        """Change label, model, levels or send policy of a session."""
        fields = dict(patch.fields)
        unknown = fields.keys() - {"label", "model", "thinkingLevel", "verboseLevel", "sendPolicy"}
        if unknown:
            raise Invalid(f"a session has no field {quoted(min(unknown))} that can be changed")
        self._check("policy" if "sendPolicy" in fields else "patch")
        if "sendPolicy" in fields and not (isinstance(caller, Operator) and caller.owner):
            raise Forbidden("only the owner may change the send policy of a session", ("owner",))
        session = self._known.find(ref, ALL)
        params: dict[str, Any] = {"key": session.key, **fields}
        await self._features.ask("sessions.patch", params, again=True)
        model = fields.get("model", session.model)
        changed = session._replace(
            label=fields.get("label", session.label) or None,
            model=model,
            used_model=model or session.used_model,
            thinking_level=fields.get("thinkingLevel", session.thinking_level),
            verbose_level=fields.get("verboseLevel", session.verbose_level),
            send_policy=_policy(fields["sendPolicy"]) if "sendPolicy" in fields else session.send_policy,
        )
        return self._index.put(changed)

    async def reset(self, ref: str, caller: Caller) -> Session:  # noqa: ARG002
        """Give the session an empty transcript."""
        self._check("reset")
        session = self._known.find(ref, ALL)
        if session.status == "running":
            raise Conflict("a run of this session is not over: abort it first")
        await self._known.follower.sync(session.key)  # what it held last is needed to know the new one from it
        await self._features.ask("sessions.reset", {"key": session.key})
        await self._known.follower.sync(session.key)
        return self._index.rows.get(session.key, session)

    async def archive(self, ref: str, caller: Caller, *, archived: bool) -> Session:  # noqa: ARG002
        """Take a session out of the list, or bring it back."""
        self._check("archive")
        session = self._known.find(ref, ALL)

        def params() -> dict[str, Any]:
            seen = self._features.pick("sessions.patch", expectedSessionId=session.session_id.partition("~")[0])
            return {"key": session.key, "archived": archived} | seen

        await self._features.ask("sessions.patch", params, again=True)
        return self._index.put(session._replace(archived_at=self.now_ms() if archived else None))

    async def create(self, new: NewSession, caller: Caller) -> Session:
        """Make a session without a message."""
        self._check("create")
        if not isinstance(caller, Operator):
            raise Forbidden("only the operator creates sessions", ("operator",))
        if new.origin is not None:
            raise Invalid("this gateway keeps no origin with a session: name it by its key, as cron:<id> or hook:<id>")
        await self._known.ready()
        if new.key is not None and (known := self._index.rows.get(new.key)) is not None:
            return known
        agent_id = new.agent_id or (parse(new.key).agent_id if new.key else None)
        if agent_id is not None and agent_id not in {agent.agent_id for agent in self._known.agents}:
            raise NotFound(f"there is no agent {quoted(agent_id)} on this gateway")
        given = {"key": new.key, "agentId": new.agent_id, "label": new.label, "model": new.model}
        given["parentSessionKey"] = new.parent
        params = {name: value for name, value in given.items() if value is not None}
        answer = await self._features.ask("sessions.create", params)
        key = text(answer, "key") or new.key or ""
        entry = {**mapping(answer.get("entry")), "key": key, "sessionId": text(answer, "sessionId")}
        session = self._index.rows.get(key) or self._index.take(entry)
        if session is None:
            raise Unavailable("the gateway made a session and did not say which")
        return session

    async def delete(self, ref: str, caller: Caller) -> None:  # noqa: ARG002
        """Remove a session for good."""
        session = self._known.find(ref, ALL)
        self._check("delete", session.key)
        await self._features.ask("sessions.delete", {"key": session.key}, again=True)
        self._known.follower.forget(session.key)
        self._index.remove(session.key)

    async def append(self, ref: str, draft: Draft, caller: Caller) -> Message:  # noqa: ARG002
        """Append a message without a run; these gateways take what an agent might have said, and nothing else."""
        self._check("append")
        if draft.role != "assistant":
            raise Unavailable("this gateway appends messages as its agent's only: send it instead")
        session = self._known.find(ref, ALL)
        params = {"sessionKey": session.key, "message": text_of(draft.content)}
        answer = await self._features.ask("chat.inject", params)
        cached = await self._known.follower.sync(session.key)
        for message in reversed(await self._known.follower.read(cached, cached.last_seq - 10, cached.last_seq)):
            if message.id == text(answer, "messageId") or message.text == params["message"]:
                return message
        raise Unavailable("the message was appended, and cannot be read back")

    async def retry_delivery(self, delivery_id: str, caller: Caller) -> Delivery:  # noqa: ARG002
        """Refuse: these gateways keep their deliveries to themselves."""
        raise Unavailable(self.refusal("deliver") or "this gateway keeps its deliveries to itself")

    async def drop_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Refuse, as `retry_delivery` does."""
        return await self.retry_delivery(delivery_id, caller)

    async def close(self) -> None:
        """End the connection and all feeds."""
        await self._known.close()

    # Within

    def _check(self, action: Action, key: str | None = None) -> None:
        refusal = self.refusal(action, key)
        if refusal is None:
            return
        if self._link.live and not self._known.may(self._needed(action)):
            raise Forbidden(refusal, (self._needed(action),))
        raise Unavailable(refusal)

    def _needed(self, action: Action) -> str:
        """Return the scope that an action needs; some gateways want more for a change than others."""
        return (self._features.needs("sessions.patch") if action == "patch" else None) or _NEEDS[action]

    def _archives(self) -> bool:
        """Whether sessions can be archived, and be found again."""
        return self._features.takes("sessions.patch", "archived") and self._features.takes(LIST, "archived")

    def _target(self, request: RunRequest) -> Session | None:
        """Return the session that a message is for, None for one that it makes.

        Raises:
            NotFound: There is none, and the message may not make one.
        """
        session = self._index.by_ref(request.target)
        if session is not None:
            return session
        if not request.create or ":" not in request.target:
            raise NotFound(f"there is no session {quoted(request.target)}")
        key = parse(request.target)
        agent_ids = {agent.agent_id for agent in self._known.agents}
        if not key.structured or (key.agent_id is not None and key.agent_id not in agent_ids):
            raise NotFound(f"there is no session {quoted(request.target)}, and no agent of this gateway to make it for")
        return None

    async def _hand_over(
        self, request: RunRequest, session: Session | None, key: str, run_id: str
    ) -> Mapping[str, Any]:
        """Hand a message over; a refusal by send policy says which control decided, where that is known.

        What comes from another session goes a way of its own: there it keeps its provenance also when it has to wait.
        """
        params: dict[str, Any] = {"sessionKey": key, "message": request.message, "idempotencyKey": run_id}
        decision = self.policy_of(session) if session is not None else None
        if request.provenance is not None:
            if decision is not None and not decision.allowed:  # some gateways do not ask their policy on this way
                raise Forbidden(decision.refusal, decision.decided_by)
            if request.timeout_ms:
                params["timeout"] = -(-request.timeout_ms // 1000)
            params |= {"deliver": False, "inputProvenance": request.provenance.as_json()}
            return await self._features.ask("agent", params, timeout=SEND_SECONDS, again=True)
        if request.timeout_ms:
            params["timeoutMs"] = request.timeout_ms
        expected = {}
        if session is not None and request.target != key:
            expected = {"sessionId": session.session_id.partition("~")[0]}
        try:
            return await self._features.ask(
                "chat.send",
                lambda: params | self._features.pick("chat.send", **expected),
                timeout=SEND_SECONDS,
                again=True,
            )
        except Forbidden as error:
            if decision is None or decision.allowed or not error.message.startswith(SEND_BLOCKED):
                raise
            raise Forbidden(decision.refusal, decision.decided_by) from None

    async def _outcome(self, run_id: str) -> RunOutcome:
        run = self._known.live.get(run_id)
        if run is None or run.live:
            lost = None if self._link.live else f"{self.unready()}; what became of the run is not known"
            error = lost or self._known.live.standing(run_id)
            return RunOutcome(run_id, run.key if run else "", "timeout", "running", error=error)
        if run.state == "done":
            return RunOutcome(run_id, run.key, "ok", run.state, reply=self._known.live.replies.get(run_id, ""))
        return RunOutcome(run_id, run.key, "error", run.state, error=run.error or f"the run ended as {run.state}")


def _policy(value: str | None) -> Override | None:
    return "allow" if value == "allow" else "deny" if value == "deny" else None
