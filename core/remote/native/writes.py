"""What is changed at one of our own gateways; what is asked for again is done once."""

from dataclasses import replace

from core.model.access import Caller
from core.model.exchanges import Delivery
from core.model.ids import new_id
from core.model.messages import Draft, Message
from core.model.runs import RunRequest, RunTicket
from core.model.sessions import NewSession, Session, SessionPatch
from core.remote.native.requests import PortRequests


class NativeWrites:
    """The writes of a gateway; see `core.gateway.Writes`."""

    def __init__(self, requests: PortRequests) -> None:
        self._requests = requests

    async def start_run(self, request: RunRequest, caller: Caller) -> RunTicket:
        """Accept a message for a session; the run's id is chosen here, so that asked twice it runs once."""
        if request.run_id is None:
            request = replace(request, run_id=new_id())
        return await self._requests.change("start_run", request=request, caller=caller)

    async def abort(self, ref: str, caller: Caller, *, run_id: str | None = None) -> list[str]:
        """Stop the running run of a session and drop the queued ones, or one of them; return the ids."""
        return await self._requests.change("abort", ref=ref, caller=caller, run_id=run_id)

    async def patch(self, ref: str, patch: SessionPatch, caller: Caller) -> Session:
        """Change label, model, levels or send policy of a session."""
        return await self._requests.change("patch", ref=ref, patch=patch, caller=caller)

    async def reset(self, ref: str, caller: Caller) -> Session:
        """Give the session an empty transcript."""
        return await self._requests.change("reset", ref=ref, caller=caller)

    async def archive(self, ref: str, caller: Caller, *, archived: bool) -> Session:
        """Take a session out of the list, or bring it back."""
        return await self._requests.change("archive", ref=ref, caller=caller, archived=archived)

    async def create(self, new: NewSession, caller: Caller) -> Session:
        """Make a session without a message; one that exists already is returned as it is."""
        return await self._requests.change("create", new=new, caller=caller)

    async def delete(self, ref: str, caller: Caller) -> None:
        """Remove a session with its transcripts, for good."""
        await self._requests.change("delete", ref=ref, caller=caller)

    async def append(self, ref: str, draft: Draft, caller: Caller) -> Message:
        """Append a message without a run; when this returns, it is on disk."""
        return await self._requests.change("append", ref=ref, draft=draft, caller=caller)

    async def retry_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Send a delivery again."""
        return await self._requests.change("retry_delivery", delivery_id=delivery_id, caller=caller)

    async def drop_delivery(self, delivery_id: str, caller: Caller) -> Delivery:
        """Give up a delivery."""
        return await self._requests.change("drop_delivery", delivery_id=delivery_id, caller=caller)
