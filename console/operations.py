"""What the operator's actions do, each ending in one sentence for the screen; no Textual here.

Every change names the session id it was shown for, so that a list that moved, or a session that was reset, cannot make
it hit another.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from console.export import file_name, markdown, read_whole
from console.live.text.clean import clean_line
from console.live.text.exchanges import address_words
from console.live.text.words import counted, session_name
from console.live.view_model import ViewModel
from core.files import create_file
from core.model.access import OPERATOR, Operator
from core.model.errors import SwitchboardError
from core.model.exchanges import Delivery
from core.model.keys import split
from core.model.sessions import Override, Session, SessionPatch

T = TypeVar("T")
Tone = Literal["good", "warning", "error"]
NEXT_OVERRIDE: Final[dict[Override | None, Override | None]] = {None: "allow", "allow": "deny", "deny": None}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an action.

    Attributes:
        key: The session that it made or is about, to go there.
        refused: Nothing was changed, so that what was written may be wanted again.
    """

    sentence: str
    tone: Tone = "good"
    key: str | None = None
    refused: bool = False

    @property
    def ok(self) -> bool:
        """Whether it was done."""
        return self.tone != "error"


Doing = Coroutine[Any, Any, Outcome]
"""An action under way."""


@dataclass(frozen=True, slots=True)
class SendOrder:
    """A message to send.

    Attributes:
        to: Key or session id.
        sender: Key of the session it comes from, None for the operator.
        wait_seconds: How long to wait for the reply, 0 not at all.
    """

    to: str
    message: str
    sender: str | None = None
    wait_seconds: float = 0.0


class Operations:
    """The operator's actions on what the console shows."""

    def __init__(self, view_model: ViewModel) -> None:
        self._view_model = view_model

    async def call(self, tool: str, arguments: Mapping[str, Any], acting_for: str | None = None) -> dict[str, Any]:
        """Call a session tool as the operator, or for a session."""
        dispatch = await asyncio.to_thread(_load_dispatch)  # 60 ms of imports, once
        return await dispatch(self._view_model.gateway, Operator(acting_for), tool, arguments)

    async def send(self, order: SendOrder) -> Outcome:
        """Send a message, and wait for the reply if that is asked for."""
        arguments = {"sessionKey": order.to, "message": order.message, "timeoutSeconds": order.wait_seconds}
        return await _said(lambda: self.call("sessions_send", arguments, order.sender), self._sent)

    async def spawn(self, arguments: dict[str, Any], requester: str | None) -> Outcome:
        """Start a sub-agent; `arguments` are those of `sessions_spawn`."""

        def told(result: dict[str, Any]) -> Outcome:
            if result["status"] != "accepted":
                return Outcome(str(result.get("error", result["status"])), "error", refused=True)
            seen = result.get("exchange") != {"state": "unavailable"}  # OpenClaw posts it for some callers only
            where = "its result will be posted here" if seen else "its result is in its own session"
            return Outcome(f"sub-agent started; {where}", key=result["childSessionKey"])

        return await _said(lambda: self.call("sessions_spawn", arguments, requester), told)

    async def next_policy(self, session: Session) -> Outcome:
        """Turn the send policy on: inherit, allow, deny, inherit; also of a session that is yet to be (`absent`)."""
        override = NEXT_OVERRIDE[session.send_policy]

        def told(changed: Session) -> Outcome:
            decision = self._view_model.gateway.policy_of(changed)
            waits = ", which waits for its session" if override is not None and not changed.session_id else ""
            said = f"{self._name(session)}: {override or 'inherit'}{waits}"
            if decision is None:
                return Outcome(said)
            tone: Tone = "good" if decision.allowed else "warning"
            return Outcome(f"{said}, so {decision.effective} ({decision.reason})", tone)

        return await _said(lambda: self._patch(session, {"sendPolicy": override}), told)

    async def abort(self, session: Session) -> Outcome:
        """Stop what a session is at work on."""

        def told(stopped: list[str]) -> Outcome:
            if not stopped:
                return Outcome(f"{self._name(session)} had already ended", "warning")
            return Outcome(f"{self._name(session)}: {counted(len(stopped), 'run')} stopped, what was said is kept")

        return await _said(lambda: self._view_model.gateway.abort(session.session_id, OPERATOR), told)

    async def archive(self, session: Session) -> Outcome:
        """Archive a session, or bring it back."""
        archived = session.archived_at is None
        words = "archived; x in the archive (A) brings it back" if archived else "back in the list"
        return await _said(
            lambda: self._view_model.gateway.archive(session.session_id, OPERATOR, archived=archived),
            lambda _: Outcome(f"{self._name(session)}: {words}"),
        )

    async def reset(self, session: Session) -> Outcome:
        """Give a session an empty transcript."""
        return await _said(
            lambda: self._view_model.gateway.reset(session.session_id, OPERATOR),
            lambda _: Outcome(
                f"{self._name(session)}: a new transcript; the old one has the id {split(session.session_id)[1]}"
            ),
        )

    async def retry(self, delivery: Delivery) -> Outcome:
        """Send a delivery again."""
        return await _said(
            lambda: self._view_model.gateway.retry_delivery(delivery.delivery_id, OPERATOR),
            lambda _: Outcome(f"{self._announce(delivery)} is tried again"),
        )

    async def drop(self, delivery: Delivery) -> Outcome:
        """Give a delivery up."""
        return await _said(
            lambda: self._view_model.gateway.drop_delivery(delivery.delivery_id, OPERATOR),
            lambda _: Outcome(f"{self._announce(delivery)} is dropped: it is not tried any more"),
        )

    async def export(self, session: Session, folder: Path) -> Outcome:
        """Write a session's transcript as markdown into a new file of a folder."""

        async def write() -> Path:
            path = folder / file_name(session)
            whole = await read_whole(self._view_model.gateway, session.session_id)
            text = "".join(markdown(message) for message in whole.messages)
            head = f"# {self._name(session)}\n\n`{session.key}` · {split(session.session_id)[1]}\n\n"
            await asyncio.to_thread(create_file, path, f"{head}{text}".encode("utf-8", "replace"))
            return path

        return await _said(write, lambda path: Outcome(f"written to {path}"))

    async def _patch(self, session: Session, fields: dict[str, str | None]) -> Session:
        return await self._view_model.gateway.patch(session.session_id or session.key, SessionPatch(fields), OPERATOR)

    def _sent(self, result: dict[str, Any]) -> Outcome:
        match result["status"]:
            case "accepted":
                return Outcome("delivered to the session; its run is accepted")
            case "ok":
                return Outcome(f"answered: {clean_line(str(result.get('reply', '')), 200)}")
            case "timeout":
                return Outcome(str(result["error"]), "warning")
            case status:
                return Outcome(str(result.get("error", status)), "error", refused=status == "forbidden")

    def _announce(self, delivery: Delivery) -> str:
        return clean_line(
            f"the announce of {self._view_model.book.name_of(delivery.key)} to {address_words(delivery)}", 160
        )

    def _name(self, session: Session) -> str:
        return clean_line(session_name(session, self._view_model.book.default_agent(session.key)), 60)


def _load_dispatch() -> Callable[..., Awaitable[dict[str, Any]]]:
    from core.tools.dispatch import dispatch

    return dispatch


async def _said(do: Callable[[], Awaitable[T]], tell: Callable[[T], Outcome]) -> Outcome:
    """Do something and put what came of it into one sentence."""
    try:
        return tell(await do())
    except SwitchboardError as error:
        return Outcome(error.message, "error", refused=True)
    except FileExistsError as error:
        return Outcome(f"{error.filename} exists already: move it away to export again", "error")
    except OSError as error:
        return Outcome(f"{error.filename or 'the file'} cannot be written: {error.strerror}", "error")
