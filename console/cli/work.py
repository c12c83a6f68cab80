"""The commands that start work: `send` and `spawn`. They tell what becomes of it, and leave when it is done; where
another process runs it, they leave it with that one once they have their answer (architecture#command-line)."""

import argparse
import asyncio
import base64
import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from console.cli.one_shot import OneShot
from console.cli.output import print_error, print_progress, print_text, write_line
from console.live.text.exchanges import announce_sentence, end_sentence, progress_sentence
from console.live.text.words import seconds_span
from core.model.access import OPERATOR
from core.model.attachments import MAX_BYTES
from core.model.commands import parse_command
from core.model.errors import Invalid, SwitchboardError
from core.model.events import Activity, DeliveryChanged, ExchangeChanged, RunChanged, ToolProgress
from core.model.runs import Run
from core.tools.target import canonical

EXIT_CODES: Final[Mapping[str, int]] = {"ok": 0, "accepted": 0, "error": 1, "forbidden": 4, "timeout": 5}

SKEW_MS: Final = 1000
"""How far the clocks of this machine and a gateway's may be apart when its latency is known."""


async def send(shot: OneShot, options: argparse.Namespace) -> int:
    """Send a message and print the reply."""
    timeout = 0.0 if options.detach else options.timeout
    arguments = {"sessionKey": options.key, "message": options.message, "timeoutSeconds": timeout}
    do = _leave if options.detach and parse_command(options.message) is None else _stay
    return await do(shot, "sessions_send", arguments, options)


async def spawn(shot: OneShot, options: argparse.Namespace) -> int:
    """Start a sub-agent and print its result."""
    arguments = {
        "task": options.task,
        "agentId": options.agent,
        "label": options.label,
        "model": options.model,
        "thinking": options.thinking,
        "runTimeoutSeconds": options.run_timeout,
        "attachments": [await asyncio.to_thread(_attachment, Path(name)) for name in options.attach],
    }
    return await (_leave if options.detach else _stay)(shot, "sessions_spawn", arguments, options)


def _attachment(path: Path) -> dict[str, str]:
    """Return a file as `sessions_spawn` takes it; of one that is too large only enough to be refused."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Invalid(f"the attachment {path} cannot be read: {error.strerror}") from None
    return {"name": path.name, "content": base64.b64encode(data).decode(), "encoding": "base64"}


async def _stay(shot: OneShot, tool: str, arguments: Mapping[str, Any], options: argparse.Namespace) -> int:
    """Start work, show its progress, print the result, and leave when the work is done or somebody else goes on."""
    await shot.work()
    progress = _Progress(shot, await _target(shot, arguments))
    watching = asyncio.create_task(progress.show())
    try:
        result = await shot.call(tool, arguments, options.sender)
        code = EXIT_CODES[result["status"]]
        if shot.answer(result):
            pass
        elif result["status"] == "ok":
            print_text(result["reply"])
            if "note" in result:
                print_progress(result["note"])
        elif result["status"] == "timeout":
            then = "staying until the run has ended" if shot.host.owns else f"{shot.host.runner} goes on with the run"
            print_progress(f"no reply within {options.timeout:g} s; {then}")
        elif result["status"] != "accepted":
            print_error(result["error"])
        await shot.host.drained()
        if result["status"] == "accepted" and tool == "sessions_spawn":  # its result is what was asked for
            await shot.gateway.wait_run(result["runId"], None)
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    if result["status"] in {"accepted", "timeout"} and (shot.host.owns or tool == "sessions_spawn"):
        ended = await _tell_end(shot, result["runId"], options)
        code = ended if result["status"] == "accepted" else code
    if "runId" in result:
        await _tell_announce(shot, result["runId"])
    return code


async def _target(shot: OneShot, arguments: Mapping[str, Any]) -> str | None:
    """Return the key of the session that a message goes to, None for a spawn, which makes its own."""
    if "sessionKey" not in arguments:
        return None
    key = canonical(shot.gateway, OPERATOR, arguments["sessionKey"])
    with contextlib.suppress(SwitchboardError):  # what is wrong with it is told by the tool
        return (await shot.find(key)).key
    return key


async def _tell_end(shot: OneShot, run_id: str, options: argparse.Namespace) -> int:
    """Tell what a run came to that had not ended when its tool answered; return its exit code."""
    outcome = await shot.gateway.wait_run(run_id, 0)
    if not options.json and outcome.reply:
        print_text(outcome.reply)
    if outcome.note is not None:
        print_progress(outcome.note)
    if outcome.error:
        print_error(outcome.error)
    return EXIT_CODES[outcome.status]


async def _tell_announce(shot: OneShot, run_id: str) -> None:
    """Tell on stderr what came of the exchange that a run began, if it began one: stdout is the reply alone."""
    found = await shot.gateway.exchange(run_id)
    if found is None:
        return
    exchange, announce = found
    if announce is not None:
        print_progress(announce_sentence(announce))
    elif exchange.outcome is not None:
        print_progress(end_sentence(exchange, shot.shown(exchange.requester)))


async def _leave(shot: OneShot, tool: str, arguments: Mapping[str, Any], options: argparse.Namespace) -> int:
    """Have work accepted and leave it to whoever runs it."""
    await shot.work(run_own=False)
    result = await shot.call(tool, arguments, options.sender)
    if shot.answer(result):
        pass
    elif result["status"] == "accepted":
        when = f"it runs when a console is opened on {shot.host.state}"
        then = when if shot.host.owns else f"{shot.host.runner} runs it"
        write_line(f"accepted as run {result['runId']}; {then}")
    else:
        print_error(result["error"])
    return EXIT_CODES[result["status"]]


class _Progress:
    """Tells on stderr what this command's work is doing; `target`: where its message goes, None for a spawn."""

    def __init__(self, shot: OneShot, target: str | None) -> None:
        self._shot = shot
        self._feed = shot.gateway.subscribe()
        self._began = shot.gateway.now_ms()
        self._target = target
        self._runs: dict[str, Run] = {}
        self._exchanges: set[str] = set()

    async def show(self) -> None:
        """Tell until it is cancelled."""
        async for event in self._feed:
            match event:
                case RunChanged(_, run) if run.kind != "command" and self._is_ours(run):
                    self._tell_run(run)
                case ExchangeChanged(_, exchange) if exchange.exchange_id in self._runs:
                    self._exchanges.add(exchange.exchange_id)
                    if exchange.kind == "send" and exchange.state != "first":
                        print_progress(progress_sentence(exchange, self._shot.shown))
                case DeliveryChanged(_, delivery) if delivery.exchange_id in self._exchanges and delivery.is_open:
                    print_progress(announce_sentence(delivery))
                case ToolProgress(key, run_id, _, name, note) if run_id in self._runs:
                    print_progress(f"{self._shot.shown(key)}: {name} {note}")
                case Activity(key, run_id, words) if run_id in self._runs and sys.stderr.isatty():
                    print_progress(f"{self._shot.shown(key)}: {words}")
                case _:
                    pass

    def _is_ours(self, run: Run) -> bool:
        """Whether a run is of this command's making; others may be at work at the same gateway."""
        if run.run_id in self._runs or run.root in self._runs or run.exchange in self._runs:
            return True
        made_now = run.accepted_at >= self._began - SKEW_MS and run.root is None
        return made_now and (run.key == self._target if self._target is not None else run.kind == "subagent")

    def _tell_run(self, run: Run) -> None:
        self._runs[run.run_id] = run
        if run.state == "running":
            print_progress(f"{self._shot.shown(run.key)}: at work")
        elif not run.live:
            took = seconds_span((run.ended_at or 0) - (run.started_at or run.ended_at or 0))
            print_progress(f"{self._shot.shown(run.key)}: {run.state} after {took}")
