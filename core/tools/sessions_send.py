"""`sessions_send`: a message into another session, with a wait for its reply (S1-S8, S12, S13)."""

from typing import Any

from pydantic import Field

from core.gateway import Gateway
from core.model.access import ALL, Caller, Operator
from core.model.errors import Forbidden, Invalid, NotFound
from core.model.messages import Provenance
from core.model.runs import RunRequest, RunTicket
from core.rules.limits import self_send
from core.tools.params import Number, ToolParams
from core.tools.target import Refusal, canonical, find

NAME = "sessions_send"
DESCRIPTION = (
    "Send a message to another session and wait for the reply. With timeoutSeconds 0 it returns at once; when the wait"
    " runs out the run goes on and the reply will be in sessions_history."
)
DEFAULT_SECONDS = 30.0
MAX_SECONDS = 86_400.0


class SessionsSendParams(ToolParams):
    """Parameters of `sessions_send`."""

    session_key: str = Field(description="Key or session id, as sessions_list shows it.")
    message: str = Field(description="What to say.")
    timeout_seconds: Number = Field(
        default=DEFAULT_SECONDS, ge=0, le=MAX_SECONDS, description="How long to wait for the reply; 0 not at all."
    )


async def run(gateway: Gateway, caller: Caller, params: SessionsSendParams) -> dict[str, Any]:
    """Return `{runId, status, reply | error, exchange?, delivery?}`, or what refuses it without a run.

    A reply that the model's limit has cut has `stopReason` and a `note` that says so; it is `ok` all the same.

    The three states stay apart: `status` is the first run's, `exchange` and `delivery` have their own.
    """
    try:
        ticket = await _start(gateway, caller, params)
    except Forbidden as error:
        raise Refusal(error.message, error.decided_by) from None
    if ticket.reply is not None:
        return {"runId": ticket.run_id, "status": "ok", "reply": ticket.reply}
    between_sessions = not isinstance(caller, Operator) or caller.acting_for is not None
    if params.timeout_seconds == 0:
        accepted = {"runId": ticket.run_id, "status": "accepted"}
        return accepted | await _exchange(gateway, ticket.run_id, between_sessions=between_sessions)
    outcome = await gateway.wait_run(ticket.run_id, params.timeout_seconds)
    result: dict[str, Any] = {"runId": ticket.run_id, "status": outcome.status}
    if outcome.note is not None:
        result |= {"stopReason": outcome.stop_reason, "note": outcome.note}
    if outcome.status == "ok":
        result["reply"] = outcome.reply or ""
    else:
        result["error"] = outcome.error or f"the run ended as {outcome.state}"
    return result | await _exchange(gateway, ticket.run_id, between_sessions=between_sessions)


async def _exchange(gateway: Gateway, run_id: str, *, between_sessions: bool) -> dict[str, Any]:
    """Return what follows the send beside its first run; nothing when the operator alone has sent it (S13).

    A gateway that cannot have it followed says so: a loop run by a client would die with the client
    (architecture#tools).
    """
    found = await gateway.exchange(run_id)
    if found is None:
        unavailable = between_sessions and gateway.refusal("exchange") is not None
        return {"exchange": {"state": "unavailable"}} if unavailable else {}
    exchange, delivery = found
    announce = delivery.as_json() if delivery is not None else {"state": "pending"}
    return {"exchange": exchange.as_json()} | ({"delivery": announce} if exchange.outcome in {None, "done"} else {})


async def _start(gateway: Gateway, caller: Caller, params: SessionsSendParams) -> RunTicket:
    requester = caller.acting_for if isinstance(caller, Operator) else caller.key
    target = canonical(gateway, caller, params.session_key)
    try:
        key = (await find(gateway, caller, params.session_key)).key
    except NotFound:
        if not isinstance(caller, Operator):
            raise
        key = target
    refusal = self_send(requester, key)
    if refusal is not None:
        raise Invalid(refusal)
    provenance = None
    if requester is not None:
        session = await gateway.get_session(requester, ALL)
        provenance = Provenance(session.key, session.channel, NAME)
    request = RunRequest(target, params.message, provenance=provenance, create=isinstance(caller, Operator))
    return await gateway.start_run(request, caller)
