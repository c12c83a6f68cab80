"""What the commands that do one thing and leave share: what they work on, how they answer, how they are stopped."""

import argparse
import asyncio
import signal
from collections.abc import Callable, Mapping
from typing import Any

from console.cli.output import print_error, print_json
from console.hosts.remote_host import AnyHost
from console.live.text.clean import clean_line
from core.model.access import ALL, OPERATOR, Operator
from core.model.keys import shown
from core.model.sessions import Session
from core.tools.dispatch import dispatch
from core.tools.target import canonical


class OneShot:
    """What the commands share; `works` says that the command changes something."""

    def __init__(self, host: AnyHost, options: argparse.Namespace) -> None:
        self.host = host
        self.gateway = host.gateway
        self._command = str(options.command)
        self._json = bool(options.json)
        self._answered = False
        self.works = False

    def answer(self, document: Mapping[str, Any]) -> bool:
        """Print the one document of --json; whether that was asked for."""
        if self._json:
            self._answered = True
            print_json(document)
        return self._json

    def interrupted(self, sentence: str) -> None:
        """Say that the command was stopped: on stderr, or as the document of --json if there is none yet."""
        if self._answered or not self.answer({"status": "error", "code": "interrupted", "error": sentence}):
            print_error(sentence)

    async def call(self, tool: str, arguments: Mapping[str, Any], sender: str | None = None) -> dict[str, Any]:
        """Call a session tool as the operator; arguments that are None are left out."""
        given = {name: value for name, value in arguments.items() if value is not None}
        return await dispatch(self.gateway, Operator(sender), tool, given)

    @property
    def left_behind(self) -> str:
        """What becomes of what is at work when the command is stopped now, as the end of a sentence."""
        if self.host.active_runs:
            return "; what was at work ends as interrupted, what was said is kept"
        return f"; what is at work goes on at {self.host.runner}" if self.works and not self.host.owns else ""

    def shown(self, key: str) -> str:
        """Return a key as the list shows it, harmless."""
        return clean_line(shown(key, self.gateway.rules.whose_main(OPERATOR)))

    async def find(self, key: str) -> Session:
        """Return the session that a KEY means."""
        return await self.gateway.get_session(canonical(self.gateway, OPERATOR, key), ALL)

    async def work(self, *, run_own: bool = True) -> None:
        """Be ready to change something, and to run what this command starts where nobody else does."""
        self.works = True
        await self.host.start(self._command, run_all=False, run_own=run_own)


class Stop:
    """The wish that the process may end, by the signal `number`: told a second time, it ends at once.

    The first wish calls `act`; None cancels the task that makes this.
    """

    def __init__(self, act: Callable[[], object] | None = None) -> None:
        task = asyncio.current_task()
        assert task is not None, "a command runs in a task"
        self.number = 0
        self._act = act or task.cancel
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._told, number)

    def _told(self, number: int) -> None:
        self.number = number
        for handled in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(handled)
            signal.signal(handled, signal.SIG_DFL)
        self._act()
