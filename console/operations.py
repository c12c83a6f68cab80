"""What the operator's actions do, each ending in one sentence for the screen; no Textual here.

Every change names the session id it was shown for, so that a list that moved, or a session that was reset, cannot make
it hit another. What cannot be done is raised; `failed` is the sentence for it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from console.export import file_name, markdown, read_whole
from console.live.text.clean import clean_line
from console.live.text.exchanges import address_words
from console.live.text.words import counted, session_name
from console.live.view_model import ViewModel
from core.files import write_file
from core.model.access import OPERATOR
from core.model.errors import SwitchboardError
from core.model.exchanges import Delivery
from core.model.keys import split
from core.model.sessions import Override, Session, SessionPatch

Tone = Literal["good", "warning", "error"]
NEXT_OVERRIDE: Final[dict[Override | None, Override | None]] = {None: "allow", "allow": "deny", "deny": None}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an action; `refused`: nothing was changed, so that what was written may be wanted again."""

    sentence: str
    tone: Tone = "good"
    refused: bool = False

    @property
    def ok(self) -> bool:
        """Whether it was done."""
        return self.tone != "error"


Doing = Coroutine[Any, Any, Outcome]
"""An action under way."""


class Order(NamedTuple):
    """What a dialog has a session tool do; `acting_for` is the session that it is done for, None for the operator."""

    arguments: dict[str, Any]
    acting_for: str | None = None


class Operations:
    """The operator's actions on what is shown; each raises `SwitchboardError` or `OSError` where it cannot be done."""

    def __init__(self, view_model: ViewModel) -> None:
        self._gateway = view_model.gateway
        self._book = view_model.book

    async def next_policy(self, session: Session) -> Outcome:
        """Turn the send policy on: inherit, allow, deny, inherit; also of a session that is yet to be (`absent`)."""
        override = NEXT_OVERRIDE[session.send_policy]
        patch = SessionPatch({"sendPolicy": override})
        changed = await self._gateway.patch(session.session_id or session.key, patch, OPERATOR)
        decision = self._gateway.policy_of(changed)
        waits = ", which waits for its session" if override is not None and not changed.session_id else ""
        said = f"{self._name(session)}: {override or 'inherit'}{waits}"
        if decision is None:
            return Outcome(said)
        said += f", so {decision.effective} ({decision.reason})"
        return Outcome(said, "good" if decision.allowed else "warning")

    async def abort(self, session: Session) -> Outcome:
        """Stop what a session is at work on."""
        stopped = await self._gateway.abort(session.session_id, OPERATOR)
        if not stopped:
            return Outcome(f"{self._name(session)} had already ended", "warning")
        return Outcome(f"{self._name(session)}: {counted(len(stopped), 'run')} stopped, what was said is kept")

    async def archive(self, session: Session) -> Outcome:
        """Archive a session, or bring it back."""
        archived = session.archived_at is None
        await self._gateway.archive(session.session_id, OPERATOR, archived=archived)
        words = "archived; x in the archive (A) brings it back" if archived else "back in the list"
        return Outcome(f"{self._name(session)}: {words}")

    async def reset(self, session: Session) -> Outcome:
        """Give a session an empty transcript."""
        await self._gateway.reset(session.session_id, OPERATOR)
        old = split(session.session_id)[1]
        return Outcome(f"{self._name(session)}: a new transcript; the old one has the id {old}")

    async def retry(self, delivery: Delivery) -> Outcome:
        """Send a delivery again."""
        await self._gateway.retry_delivery(delivery.delivery_id, OPERATOR)
        return Outcome(f"{self._announce(delivery)} is tried again")

    async def drop(self, delivery: Delivery) -> Outcome:
        """Give a delivery up."""
        await self._gateway.drop_delivery(delivery.delivery_id, OPERATOR)
        return Outcome(f"{self._announce(delivery)} is dropped: it is not tried any more")

    async def export(self, session: Session, folder: Path) -> Outcome:
        """Write a session's transcript as markdown into a new file of a folder."""
        path = folder / file_name(session)
        whole = await read_whole(self._gateway, session.session_id)
        text = "".join(markdown(message) for message in whole.messages)
        head = f"# {self._name(session)}\n\n`{session.key}` · {split(session.session_id)[1]}\n\n"
        await asyncio.to_thread(write_file, path, f"{head}{text}".encode("utf-8", "replace"), replace=False)
        return Outcome(f"written to {path}")

    def _announce(self, delivery: Delivery) -> str:
        return clean_line(f"the announce of {self._book.name_of(delivery.key)} to {address_words(delivery)}", 160)

    def _name(self, session: Session) -> str:
        return clean_line(session_name(session, self._book.default_agent(session.key)), 60)


def failed(error: SwitchboardError | OSError) -> Outcome:
    """Return what came of an action that could not be done."""
    if isinstance(error, SwitchboardError):
        return Outcome(error.message, "error", refused=True)
    if isinstance(error, FileExistsError):
        return Outcome(f"{error.filename} exists already: move it away to export again", "error")
    return Outcome(f"{error.filename or 'the file'} cannot be written: {error.strerror}", "error")


def sent(result: dict[str, Any]) -> Outcome:
    """Return what came of a call of `sessions_send`."""
    match result["status"]:
        case "accepted":
            return Outcome("delivered to the session; its run is accepted")
        case "ok":
            return Outcome(f"answered: {clean_line(str(result.get('reply', '')), 200)}")
        case "timeout":
            return Outcome(str(result["error"]), "warning")
        case status:
            return Outcome(str(result.get("error", status)), "error", refused=status == "forbidden")


def spawned(result: dict[str, Any]) -> Outcome:
    """Return what came of a call of `sessions_spawn`."""
    if result["status"] != "accepted":
        return Outcome(str(result.get("error", result["status"])), "error", refused=True)
    seen = result.get("exchange") != {"state": "unavailable"}  # OpenClaw posts it for some callers only
    return Outcome(f"sub-agent started; its result {'will be posted here' if seen else 'is in its own session'}")


async def load_dispatch() -> Callable[..., Awaitable[dict[str, Any]]]:
    """Return `dispatch` of the session tools, which is imported where its 60 ms hold nobody up."""
    await asyncio.to_thread(import_module, "core.tools.dispatch")
    from core.tools.dispatch import dispatch

    return dispatch
