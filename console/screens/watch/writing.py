"""What is written in the composer: the draft of each session, and its way to the gateway."""

from console.live.outgoing import Outgoing
from console.operations import failed, load_dispatch, sent
from console.screens.watch.picture import DELETED
from console.screens.watch.position import Duty, Position
from core.model.access import OPERATOR
from core.model.errors import SwitchboardError


class Writing(Duty):
    """The draft, and what of it is on its way."""

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        self._outgoing = Outgoing()

    def enter(self) -> None:
        """Put the cursor into the composer."""
        self._screen.add_class("-reading")
        if self._parts.main.composer is not None:
            self._parts.main.composer.field.focus()

    def is_first_minute(self) -> bool:
        """Whether there is nothing to look at yet, and what is typed can only be meant for a first message."""
        book = self._view_model.book
        return book.listed.issuperset(self._view_model.gateway.names) and not book.rows and not self._shell.is_demo

    def load(self) -> None:
        """Put the draft of the open session into the composer."""
        composer, memory = self._parts.main.composer, self._view_model.memory
        if composer is not None:
            composer.load(memory.drafts.get(self._position.draft_key, ""))
            composer.field.sent = list(memory.history)

    def keep(self) -> None:
        """Keep what stands in the composer as the draft of the open session."""
        composer = self._parts.main.composer
        if composer is not None and self._view_model.memory.keep_draft(self._position.draft_key, composer.text):
            self._shell.remember_soon()

    def submit(self, draft: str) -> None:
        """Send what was written."""
        from console.widgets.composer import HELP, unknown_command

        view_model, open_key, key = self._view_model, self._parts.main.key, self._position.draft_key
        row = view_model.book.rows.get(open_key or "")
        text = self._outgoing.rest(key, draft)
        if not text.strip():  # nothing, or a second Enter before the first is answered
            if not view_model.book.rows and not draft.strip():
                self._parts.notice.say("nothing is written yet: type a message, then ↵ sends it")
            return
        if text.strip() == f"/{HELP.name}":
            from console.screens.help import Help

            self._sent(key, text)
            self._shell.push_screen(Help(self._position.explained()))
            return
        was_deleted = row is None and open_key is not None
        problem = DELETED if was_deleted else unknown_command(text) or view_model.gateway.refusal("send", open_key)
        if problem is not None:
            self._parts.notice.say(f"{problem}; the draft is kept", "warning")
            return
        self._outgoing.add(key, text)
        to = row.session.session_id if row is not None else key
        self._screen.run_worker(self._send(to, key, text), group="send")

    async def _send(self, to: str, key: str, text: str) -> None:
        """Send what stands in the composer; it is only cleared once the message is stored."""
        async with self._outgoing.turn(key, text) as goes:
            if not goes:
                return
            dispatch, arguments = await load_dispatch(), {"sessionKey": to, "message": text, "timeoutSeconds": 0}
            try:
                outcome = sent(await dispatch(self._view_model.gateway, OPERATOR, "sessions_send", arguments))
            except SwitchboardError as error:
                outcome = failed(error)
            if not outcome.ok:
                self._outgoing.refuse(key)
        self._parts.notice.say(outcome.sentence, outcome.tone)
        if outcome.ok:
            self._sent(key, text)
            self._parts.main.view.action_last()

    def _sent(self, key: str, text: str) -> None:
        """Move a draft to the history; one that was written on meanwhile stays."""
        memory, composer = self._view_model.memory, self._parts.main.composer
        memory.move_to_history(key, text)
        self._shell.remember_soon()
        if composer is not None:
            composer.field.sent = list(memory.history)
            if self._position.draft_key == key:
                composer.load(composer.text.removeprefix(text))
