"""What the keys of the watch screen do; which keys there are stands in `console.actions`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType

from console.actions import ACTIONS
from console.live.placement import ORDERS
from console.live.rows import Row, runs_of
from console.live.text.words import counted
from console.operations import Doing, Outcome, SendOrder
from console.screens.watch import DELETED, WatchView
from console.widgets.line_list import LineList
from core.gateway import Action as GatewayAction
from core.model.access import ALL
from core.model.errors import SwitchboardError

if TYPE_CHECKING:
    from textual.widgets import Input

    from console.screens.spawn import SpawnOrder
    from console.widgets.composer import Composer

WAIT_SECONDS: Final = 30.0
"""How long a send waits unless the operator says something else."""


class WatchScreen(WatchView):
    """The watch screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(action.keys, f"do('{action.id}')", action.title, show=False, id=action.id, priority=action.id == "quit")
        for action in ACTIONS
    ]

    _refused_send: SendOrder | None = None
    _refused_spawn: "SpawnOrder | None" = None

    def action_do(self, action_id: str) -> None:
        """Do an action of the table, or say why it does not work now."""
        action = next(action for action in ACTIONS if action.id == action_id)
        reason = action.why_not(self.state)
        if reason is not None:
            self.say(reason, "warning")
            return
        self.notice.say("")
        getattr(self, f"do_{action_id.replace('-', '_')}")()

    # Going about

    def do_open(self) -> None:
        """Go into the transcript."""
        if self.row is None:
            self.enter_composer()
            return
        self._open_selected()
        self.add_class("-reading")
        self.main.view.focus()

    def do_write(self) -> None:
        """Go into the composer."""
        self._open_selected()
        self.enter_composer()

    def do_back(self) -> None:
        """Go one step out."""
        if self.find is not None and self.focused is self.find:
            self.remove_class("-finding")
            self.main.view.focus()
        elif self.pane == "composer" and self.focused is not self.filter:
            self.main.view.focus()
        elif self.pane in {"transcript", "spawns"}:
            self.remove_class("-reading")
            self.sessions.focus()
        else:
            self._set_filter("")
            self.sessions.focus()

    def do_next_pane(self) -> None:
        """Go to the next pane."""
        self.focus_next()
        self._read_if_focused()

    def do_previous_pane(self) -> None:
        """Go to the previous pane."""
        self.focus_previous()
        self._read_if_focused()

    def do_next_session(self) -> None:
        """Go to the next session."""
        self.sessions.action_move(1)

    def do_previous_session(self) -> None:
        """Go to the previous session."""
        self.sessions.action_move(-1)

    def do_urgent(self) -> None:
        """Go to the session that needs somebody most."""
        urgent = [row for row in self.view_model.book.rows.values() if row.look == "failed" and row.unread]
        if not urgent:
            self.say("nothing has failed since you looked")
            return
        self.go_to(max(urgent, key=lambda row: row.session.updated_at).session.key)

    def do_order(self) -> None:
        """Sort another way."""
        placement = self.view_model.book.placement
        placement.order = ORDERS[(ORDERS.index(placement.order) + 1) % len(ORDERS)]
        self._replace_rows()

    def do_archived(self) -> None:
        """Show the archive, or leave it."""
        placement = self.view_model.book.placement
        placement.archived = not placement.archived
        self._replace_rows()

    def do_filter(self) -> None:
        """Narrow the list, or search the transcript."""
        if self.pane == "transcript" and self.find is not None:
            self.add_class("-finding")
            self.find.focus()
        elif self.filter is not None:
            self.query_one("#sessions-pane").add_class("-filtering")
            self.filter.focus()

    def do_tile(self) -> None:
        """Keep the transcript beside the next one, or give the kept one up."""
        if self.second is not None:
            kept, second = self.second.key, self.second
            self.second = None
            second.remove()
            if kept is not None and kept != self.main.key:
                self.view_model.transcripts.close(kept)
            self.remove_class("-tiled")
        else:
            self.run_worker(self._tile, group="open", exclusive=True)

    # Acting

    def do_send(self) -> None:
        """Ask for a message and send it."""
        from console.screens.send import SendDialog

        to = self.row.session.key if self.row is not None else self.view_model.main_key
        order = self._refused_send or SendOrder(to, "", wait_seconds=WAIT_SECONDS)
        refusals = self._refusal_of("send"), self._refusal_of("exchange")
        self.shell.push_screen(SendDialog(self._choices(), order, *refusals), self._send_ordered)

    def do_spawn(self) -> None:
        """Ask for a task and start a sub-agent."""
        self.run_worker(partial(self.shell.typeahead.opening, self._ask_spawn), group="dialog", exclusive=True)

    def do_policy(self) -> None:
        """Turn the send policy on."""
        row = self._subject_row()
        self._run(self.shell.operations.next_policy(row.session))

    def do_abort(self) -> None:
        """Stop the runs of a session and of its sub-agents, after asking."""
        row = self._subject_row()
        helpers, below = self.view_model.book.at_work_below(row.session.key)
        own = {0: "", 1: "its run"}.get(runs_of(row), f"its {runs_of(row)} runs")
        theirs = f"{counted(below, 'run')} of {counted(helpers, 'sub-agent')}" if helpers else ""
        busy = "is at work" if own else "has sub-agents at work"
        stopped = " and ".join(filter(None, (own, theirs)))
        text = f"{row.name} {busy}. Aborting stops {stopped}; what was said so far is kept."
        self._ask("abort?", text, "abort", lambda: self.shell.operations.abort(row.session))

    def do_archive(self) -> None:
        """Archive, or bring back."""
        self._run(self.shell.operations.archive(self._subject_row().session))

    def do_reset(self) -> None:
        """Start an empty transcript, after asking."""
        row = self._subject_row()
        count = row.session.last_seq - row.session.first_seq + 1
        text = (
            f"{row.name} starts anew: its agent forgets {counted(count, 'message')}. They stay readable by the old id."
        )
        self._ask("reset?", text, "reset", lambda: self.shell.operations.reset(row.session))

    def do_label(self) -> None:
        """Begin a /label command."""
        self.do_write()
        begin = partial(self._begin_command, "/label ", self._subject_row().session.key)
        self.run_worker(begin, group="open", exclusive=True)

    def do_export(self) -> None:
        """Write the transcript to a file."""
        self._run(self.shell.operations.export(self._subject_row().session, Path.cwd()))

    def do_tools(self) -> None:
        """Show or hide what tools answered."""
        view = self.main.view
        transcript = view.transcript
        if transcript is not None:
            view.unfold_all(unfold=not transcript.unfolded)

    def do_thinking(self) -> None:
        """Show or hide thinking."""
        for pane in self.panes:
            pane.view.thinking = not pane.view.thinking
            pane.view.redraw()

    def do_full(self) -> None:
        """Show a message in full."""
        item, key = self.main.view.current, self.main.key
        if item is not None and key is not None:
            showing = partial(self._show_whole, key, item.seq)
            self.run_worker(partial(self.shell.typeahead.opening, showing), group="dialog", exclusive=True)

    def do_copy(self) -> None:
        """Copy a message."""
        item = self.main.view.current
        if item is not None:
            self.shell.copy_to_clipboard(item.text)
            self.say(f"copied {len(item.text):,} characters", "good")

    def do_copy_code(self) -> None:
        """Copy the last code block of a message."""
        item = self.main.view.current
        parts = item.text.split("```") if item is not None else []
        if len(parts) < 3:
            self.say("there is no code block in this message", "warning")
            return
        code = parts[-2].partition("\n")[2]
        self.shell.copy_to_clipboard(code)
        self.say(f"copied {len(code):,} characters of code", "good")

    def do_search(self) -> None:
        """Search all transcripts."""
        from console.screens.search import SearchDialog

        def go(found: tuple[str, int] | None) -> None:
            if found is not None:
                self.run_worker(partial(self._go_to_message, *found), group="open", exclusive=True)

        self.shell.push_screen(SearchDialog(self.view_model), go)

    def do_deliveries(self) -> None:
        """Show what was announced."""
        from console.screens.deliveries import DeliveriesScreen

        self.shell.push_screen(DeliveriesScreen(self.view_model), self._go_from_page)

    def do_rules(self) -> None:
        """Show which rules decide about the session."""
        from console.screens.policy import PolicyScreen

        subject = self.subject
        key = subject.session.key if subject is not None else self.view_model.main_key
        self.shell.push_screen(PolicyScreen(self.view_model, key), self._go_from_page)

    def do_gateways(self) -> None:
        """Show the gateways."""
        from console.screens.connect import ConnectScreen

        self.shell.push_screen(ConnectScreen(self.view_model, self.shell.gateways), self._go_from_page)

    def do_configuration(self) -> None:
        """Read the configuration again."""
        self.shell.configure_again()

    def do_palette(self) -> None:
        """Search all actions and sessions."""
        self.shell.action_command_palette()

    def do_help(self) -> None:
        """Show the keys."""
        from console.screens.help import Help

        state = self.state
        self.shell.push_screen(Help((a.shown, a.help, a.why_not(state) or "") for a in self.actions))

    def do_quit(self) -> None:
        """Leave, after asking when something is at work."""
        self.shell.leave()

    # Fields

    @on(LineList.Chosen, "#sessions")
    def _chosen(self) -> None:
        self.action_do("open")

    @on(LineList.Chosen, "#spawns")
    def _spawn_chosen(self) -> None:
        if self.spawns.selected is not None:
            self.go_to(self.spawns.selected)
            self.main.view.focus()
            self.add_class("-reading")

    def on_input_changed(self, event: "Input.Changed") -> None:
        """Narrow the list as the filter is written."""
        if event.input is self.filter and self.view_model.book.placement.needle != event.value:
            self.view_model.book.placement.needle = event.value
            self._replace_rows()

    async def on_input_submitted(self, event: "Input.Submitted") -> None:
        """Leave the filter for the list, or look for the next older match."""
        if event.input is self.filter:
            self.sessions.focus()
        elif event.input is self.find:
            await self._find_older(event)

    async def _find_older(self, event: "Input.Submitted") -> None:
        view, key = self.main.view, self.main.key
        if key is None or view.transcript is None or not event.value.strip():
            return
        try:
            hits = await self.view_model.gateway.search(event.value, ALL, key=key, limit=200)
        except SwitchboardError as error:
            self.say(error.message, "error")
            return
        places = [hit.seq for hit in hits if hit.seq >= view.transcript.first]
        older = [seq for seq in places if view.cursor is None or seq < view.cursor]
        if not places:
            self.say(f"nothing here holds {event.value}", "warning")
            return
        target = (older or places)[0]
        view.jump(target)
        self.say(f"match {places.index(target) + 1} of {len(places)}" + ("" if older else ", from the newest again"))

    def on_composer_submitted(self, event: "Composer.Submitted") -> None:
        """Send what was written."""
        from console.widgets.composer import HELP, unknown_command

        row, key = self.view_model.book.rows.get(self.main.key or ""), self.draft_key
        text = self._outgoing.rest(key, event.text)
        if not text.strip():  # nothing, or a second Enter before the first is answered
            if not self.view_model.book.rows and not event.text.strip():
                self.say("nothing is written yet: type a message, then ↵ sends it")
            return
        if text.strip() == f"/{HELP.name}":
            self._sent_draft(key, text)
            self.do_help()
            return
        was_deleted = row is None and self.main.key is not None
        problem = (
            DELETED if was_deleted else unknown_command(text) or self.view_model.gateway.refusal("send", self.main.key)
        )
        if problem is not None:
            self.say(f"{problem}; the draft is kept", "warning")
            return
        self._outgoing.add(key, text)
        self.run_worker(self._submit_draft(row.session.session_id if row is not None else key, key, text), group="send")

    # Inside

    async def _submit_draft(self, to: str, key: str, text: str) -> None:
        """Send what stands in the composer; it is only cleared once the message is stored."""
        async with self._outgoing.turn(key, text) as goes:
            if not goes:
                return
            outcome = await self.shell.operations.send(SendOrder(to, text))
            if not outcome.ok:
                self._outgoing.refuse(key)
        self.say(outcome.sentence, outcome.tone)
        if outcome.ok:
            self._sent_draft(key, text)
            self.main.view.action_last()

    def _sent_draft(self, key: str, text: str) -> None:
        """Move a draft to the history; one that was written on meanwhile stays."""
        memory, composer = self.view_model.memory, self.main.composer
        memory.move_to_history(key, text)
        self.shell.remember_soon()
        if composer is not None:
            composer.use_history(memory.history)
            if self.draft_key == key:
                composer.load(composer.text.removeprefix(text))

    async def _begin_command(self, words: str, key: str) -> None:
        """Put the start of a command into an empty composer, once it is that session's."""
        if self.main.key != key:
            await self.open_session(key)
        if self.main.composer is not None and not self.main.composer.text:
            self.main.composer.load(words)

    async def _tile(self) -> None:
        """Show the transcript a second time, to stay there when the first one goes on."""
        row = self.view_model.book.rows.get(self.main.key or "")
        transcript = self.view_model.transcripts.opened.get(self.main.key or "")
        if row is not None and transcript is not None:
            self.second = self._new_pane("second")
            self.second.view.coloured = self.main.view.coloured
            await self.query_one("#body").mount(self.second)
            self.add_class("-tiled")
            self.second.show(row, transcript)

    def _send_ordered(self, order: SendOrder | None) -> None:
        self._refused_send = None
        if order is None:
            return

        async def send() -> Outcome:
            outcome = await self.shell.operations.send(order)
            self._refused_send = order if outcome.refused else None
            return outcome

        self.say("sending …")
        self._run(send(), go=order.to)

    async def _ask_spawn(self) -> None:
        from console.screens.spawn import SpawnDialog, SpawnOrder

        first = SpawnOrder({}, self.row.session.key if self.row is not None else None)
        gateway = self.view_model.gateway.of(first.requester or "")
        try:
            agents, models = await gateway.agents(), await gateway.models()
        except SwitchboardError as error:
            self.say(error.message, "error")
            return

        async def spawn(order: SpawnOrder) -> Outcome:
            outcome = await self.shell.operations.spawn(order.arguments, order.requester)
            self._refused_spawn = order if outcome.refused else None
            return outcome

        def start(order: SpawnOrder | None) -> None:
            self._refused_spawn = None
            if order is not None:
                self._run(spawn(order))

        order = self._refused_spawn or first
        dialog = SpawnDialog(self._choices(), order, agents, models, self._refusal_of("spawn"))
        await self.shell.push_screen(dialog, start)

    async def _show_whole(self, key: str, seq: int) -> None:
        from console.live.items import read_item
        from console.screens.viewer import Viewer

        try:
            message = await self.view_model.transcripts.whole(key, seq)
        except SwitchboardError as error:
            self.say(error.message, "error")
            return
        if message is not None:
            title = f"{self.view_model.book.name_of(key)}, message {seq}"
            self.shell.push_screen(Viewer(title, "\n\n".join(part.text for part in read_item(message).parts)))

    async def _go_to_message(self, key: str, seq: int) -> None:
        if self.go_to(key):
            await self.open_session(key)
            self.do_open()
            self.main.view.jump(seq)

    def _ask(self, title: str, text: str, answer: str, do: Callable[[], Doing]) -> None:
        from console.screens.confirm import Choice, Confirm

        choice = Choice("y", answer, "yes")

        def answered(given: str | None) -> None:
            if given == choice.answer:
                self._run(do())

        self.shell.push_screen(Confirm(title, text, [choice]), answered)

    def _run(self, deed: Doing, go: str | None = None) -> None:
        """Do something in the background and say what came of it."""

        async def run() -> None:
            outcome = await deed
            self.say(outcome.sentence, outcome.tone)
            if go is not None and outcome.ok:
                self.go_to(go)

        self.run_worker(run(), group="deeds")

    def _go_from_page(self, key: str | None) -> None:
        """Go where another screen points to."""
        if key is not None and self.go_to(key):
            self.sessions.focus()

    def _subject_row(self) -> Row:
        row = self.subject
        assert row is not None, "the table of actions has seen to it"
        return row

    def _refusal_of(self, action: GatewayAction) -> Callable[[str], str | None]:
        """Return what says why the gateway of a session does not allow an action."""
        return lambda key: self.view_model.gateway.refusal(action, key)

    def _choices(self) -> list[Row]:
        rows = self.view_model.book.rows.values()
        return sorted((row for row in rows if row.look != "archived"), key=lambda row: -row.session.updated_at)

    def _set_filter(self, needle: str) -> None:
        self.query_one("#sessions-pane").set_class(bool(needle), "-filtering")
        if self.filter is not None:
            self.filter.value = needle

    def _replace_rows(self) -> None:
        self.view_model.book.placement.reset()
        self.sessions.release()
        self._place()

    def _read_if_focused(self) -> None:
        self.set_class(self.pane in {"transcript", "composer"}, "-reading")
