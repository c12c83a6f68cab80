"""The keys that act on sessions, some after a question or a dialog."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from console.live.rows import Row, runs_of
from console.live.text.words import counted
from console.operations import Doing, Order, Outcome, load_dispatch, sent, spawned
from console.screens.watch.open_sessions import OpenSessions
from console.screens.watch.position import Duty, Position
from core.gateway import Action as GatewayAction
from core.model.access import Operator
from core.model.errors import SwitchboardError

WAIT_SECONDS: Final = 30.0
"""How long a send waits unless the operator says something else."""


class SessionCommands(Duty):
    """Acting on sessions; each method `do_<id>` is what an action of the table does.

    What was refused is asked for again with what was written.
    """

    def __init__(self, position: Position, open_sessions: OpenSessions) -> None:
        super().__init__(position)
        self._open_sessions = open_sessions
        self._refused: dict[str, Order] = {}

    def do_send(self) -> None:
        from console.screens.send import SendDialog

        row = self._position.row
        to = row.session.key if row is not None else self._view_model.main_key
        first = Order({"sessionKey": to, "message": "", "timeoutSeconds": WAIT_SECONDS})
        order = self._refused.get("sessions_send", first)
        refusals = self._refusal_of("send"), self._refusal_of("exchange")
        dialog = SendDialog(self._choices(), order, *refusals)
        self._shell.push_screen(dialog, partial(self._ordered, "sessions_send", sent))

    def do_spawn(self) -> None:
        asking = partial(self._shell.typeahead.opening, self._ask_spawn)
        self._screen.run_worker(asking, group="dialog", exclusive=True)

    async def _ask_spawn(self) -> None:
        from console.screens.spawn import SpawnDialog

        row = self._position.row
        first = Order({}, row.session.key if row is not None else None)
        gateway = self._view_model.gateway.of(first.acting_for or "")
        try:
            agents, models = await gateway.agents(), await gateway.models()
        except SwitchboardError as error:
            self._parts.notice.say(error.message, "error")
            return
        order = self._refused.get("sessions_spawn", first)
        dialog = SpawnDialog(self._choices(), order, agents, models, self._refusal_of("spawn"))
        await self._shell.push_screen(dialog, partial(self._ordered, "sessions_spawn", spawned))

    def _ordered(self, tool: str, told: Callable[[dict[str, Any]], Outcome], order: Order | None) -> None:
        """Have a tool do what a dialog asks for."""
        self._refused.pop(tool, None)
        if order is None:
            return

        async def call() -> Outcome:
            dispatch, caller = await load_dispatch(), Operator(order.acting_for)
            return told(await dispatch(self._view_model.gateway, caller, tool, order.arguments))

        def done(outcome: Outcome) -> None:
            if outcome.refused:
                self._refused[tool] = order
            if outcome.ok and "sessionKey" in order.arguments:
                self._open_sessions.go_to(order.arguments["sessionKey"])

        if tool == "sessions_send":
            self._parts.notice.say("sending …")
        self._screen.run_deed(call(), done)

    def do_policy(self) -> None:
        self._screen.run_deed(self._shell.operations.next_policy(self._subject().session))

    def do_abort(self) -> None:
        """Stop the runs of a session and of its sub-agents, after asking."""
        row = self._subject()
        helpers, below = self._view_model.book.at_work_below(row.session.key)
        own = {0: "", 1: "its run"}.get(runs_of(row), f"its {runs_of(row)} runs")
        theirs = f"{counted(below, 'run')} of {counted(helpers, 'sub-agent')}" if helpers else ""
        busy = "is at work" if own else "has sub-agents at work"
        stopped = " and ".join(filter(None, (own, theirs)))
        text = f"{row.name} {busy}. Aborting stops {stopped}; what was said so far is kept."
        self._ask("abort?", text, "abort", lambda: self._shell.operations.abort(row.session))

    def do_archive(self) -> None:
        self._screen.run_deed(self._shell.operations.archive(self._subject().session))

    def do_reset(self) -> None:
        """Start an empty transcript, after asking."""
        row = self._subject()
        count = row.session.last_seq - row.session.first_seq + 1
        text = (
            f"{row.name} starts anew: its agent forgets {counted(count, 'message')}. They stay readable by the old id."
        )
        self._ask("reset?", text, "reset", lambda: self._shell.operations.reset(row.session))

    def do_label(self) -> None:
        """Begin a /label command."""
        self._open_sessions.write()
        begin = partial(self._begin_command, "/label ", self._subject().session.key)
        self._screen.run_worker(begin, group="open", exclusive=True)

    async def _begin_command(self, words: str, key: str) -> None:
        """Put the start of a command into an empty composer, once it is that session's."""
        main = self._parts.main
        if main.key != key:
            await self._open_sessions.open(key)
        if main.composer is not None and not main.composer.text:
            main.composer.load(words)

    def do_export(self) -> None:
        self._screen.run_deed(self._shell.operations.export(self._subject().session, Path.cwd()))

    def _ask(self, title: str, text: str, answer: str, do: Callable[[], Doing]) -> None:
        from console.screens.confirm import Confirm

        def answered(given: str | None) -> None:
            if given is not None:
                self._screen.run_deed(do())

        self._shell.push_screen(Confirm(title, text, {"y": answer}), answered)

    def _subject(self) -> Row:
        row = self._position.subject
        assert row is not None, "the table of actions has seen to it"
        return row

    def _refusal_of(self, action: GatewayAction) -> Callable[[str], str | None]:
        """Return what says why the gateway of a session does not allow an action."""
        return lambda key: self._view_model.gateway.refusal(action, key)

    def _choices(self) -> list[Row]:
        rows = self._view_model.book.rows.values()
        return sorted((row for row in rows if row.look != "archived"), key=lambda row: -row.session.updated_at)
