"""The commands that do one thing and leave (DESIGN 9). Each works on the same tools as agents and the console."""

import argparse
import asyncio
import base64
import contextlib
import json
import signal
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from console.host import Host
from console.live.clean import clean, clean_line
from console.live.exchange_words import announce_sentence, end_sentence, progress_sentence
from console.live.words import age, money, seconds_span, tokens
from console.output import print_error, print_json, print_progress, print_table, print_text, write_line
from core.config.paths import Places, find_places
from core.model.access import ALL, OPERATOR, Operator, SessionCaller
from core.model.attachments import MAX_BYTES
from core.model.commands import parse_command
from core.model.errors import Conflict, Invalid, Unavailable
from core.model.events import Activity, DeliveryChanged, Event, ExchangeChanged, RunChanged, ToolProgress
from core.model.keys import shown
from core.model.runs import Run
from core.model.sessions import Session, SessionPatch
from core.runtime.commands import POLICY_WORDS
from core.tools.dispatch import dispatch
from core.tools.target import canonical

if TYPE_CHECKING:
    from core.gateway import Gateway
    from core.model.access import Caller

EXIT_CODES: Final[Mapping[str, int]] = {"ok": 0, "accepted": 0, "error": 1, "forbidden": 4, "timeout": 5}
HISTORY_PAGE: Final = 200
LONGEST_CALL: Final = 2000
Command = Callable[["OneShot", argparse.Namespace], Awaitable[int]]


def run_command(options: argparse.Namespace) -> int:
    """Run one command and return its exit code.

    Raises:
        SwitchboardError: What kept it from being done.
    """
    places = find_places(options.state, options.config)
    if options.command == "doctor":
        from console.doctor import examine

        return examine(places, as_json=options.json)
    if options.command == "send" and options.message == "-":
        options.message = _read_stdin()
    return asyncio.run(_run(options, places))


async def _run(options: argparse.Namespace, places: Places) -> int:
    shot = OneShot(Host(places, pace=0.0), options)
    stop = _Stop()
    try:
        shot.gateway.settings = await shot.host.settings()
        return await _COMMANDS[options.command](shot, options)
    except asyncio.CancelledError:
        at_work = "; what was at work ends as interrupted, what was said is kept" if shot.gateway.active_runs else ""
        shot.interrupted(f"stopped by {signal.Signals(stop.number).name}{at_work}")
        return 128 + stop.number
    finally:
        await shot.host.close()


class _Stop:
    """Cancels the command when the process is told to end; told a second time, the process ends at once.

    Attributes:
        number: The signal.
    """

    def __init__(self) -> None:
        self.number = 0
        self._task = asyncio.current_task()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._stop, number)

    def _stop(self, number: int) -> None:
        assert self._task is not None, "a command runs in a task"
        self.number = number
        self._task.cancel()
        for handled in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(handled)
            signal.signal(handled, signal.SIG_DFL)


def _read_stdin() -> str:
    if sys.stdin is None:
        raise Invalid("there is no message: stdin is closed")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise Invalid("the message on stdin is not UTF-8 text") from None


class OneShot:
    """What the commands share."""

    def __init__(self, host: Host, options: argparse.Namespace) -> None:
        self.host = host
        self.gateway = host.runtime
        self._command = str(options.command)
        self._json = bool(options.json)
        self._answered = False

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

    def shown(self, key: str) -> str:
        """Return a key as the list shows it, harmless."""
        return clean_line(shown(key, self.gateway.rules.agent_of(OPERATOR)))

    async def find(self, key: str) -> Session:
        """Return the session that a KEY means."""
        return await self.gateway.get_session(canonical(self.gateway, OPERATOR, key), ALL)

    async def work(self) -> None:
        """Take the state directory over, to write and to run what this command starts."""
        await self.host.start(self._command, run_all=False)


async def _list(shot: OneShot, options: argparse.Namespace) -> int:
    arguments = {
        "kinds": options.kinds,
        "limit": options.limit,
        "activeMinutes": options.active,
        "search": options.search,
        "archived": options.archived,
    }
    result = await shot.call("sessions_list", arguments)
    if shot.answer(result):
        return 0
    if not result["sessions"]:
        narrowed = options.search or options.kinds or options.active or options.archived
        write_line("no session matches" if narrowed else "no sessions yet: `switchboard send main hello` makes one")
        return 0
    now = shot.gateway.now_ms()
    rows = [
        [
            row["key"],
            row.get("label") or row.get("displayName", ""),
            row["kind"],
            row["channel"],
            row.get("status", "idle"),
            age(now - row["updatedAt"]),
            tokens(row["totalTokens"]) if "totalTokens" in row else "",
            money(row["estimatedCostUsd"]) if "estimatedCostUsd" in row else "",
            row.get("sendPolicy", ""),
        ]
        for row in result["sessions"]
    ]
    heads = ("KEY", "LABEL", "KIND", "CHANNEL", "STATE", "AGE", "TOKENS", "COST", "POLICY")
    print_table(heads, rows, right=frozenset({5, 6, 7}))
    if "nextOffset" in result:
        write_line(f"… more: --limit {min(200, 2 * options.limit)}")
    return 0


async def _history(shot: OneShot, options: argparse.Namespace) -> int:
    arguments = {"sessionKey": options.key, "limit": options.limit, "includeTools": options.tools}
    result = await shot.call("sessions_history", arguments)
    if shot.answer(result):
        return 0
    for message in result["messages"]:
        _print_message(message)
    if not result["messages"]:
        write_line("no messages yet")
    return 0


async def _send(shot: OneShot, options: argparse.Namespace) -> int:
    message = options.message
    arguments = {
        "sessionKey": options.key,
        "message": message,
        "timeoutSeconds": 0.0 if options.detach else options.timeout,
    }
    if options.detach and parse_command(message) is None:
        return await _leave_queued(shot, "sessions_send", arguments, options)
    return await _stay(shot, "sessions_send", arguments, options)


async def _spawn(shot: OneShot, options: argparse.Namespace) -> int:
    arguments = {
        "task": options.task,
        "agentId": options.agent,
        "label": options.label,
        "model": options.model,
        "thinking": options.thinking,
        "runTimeoutSeconds": options.run_timeout,
        "attachments": [await asyncio.to_thread(_attachment, Path(name)) for name in options.attach],
    }
    if options.detach:
        return await _leave_queued(shot, "sessions_spawn", arguments, options)
    return await _stay(shot, "sessions_spawn", arguments, options)


def _attachment(path: Path) -> dict[str, str]:
    """Return a file as `sessions_spawn` takes it; of one that is too large only enough to be refused."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Invalid(f"the attachment {path} cannot be read: {error.strerror}") from None
    return {"name": path.name, "content": base64.b64encode(data).decode(), "encoding": "base64"}


async def _stay(shot: OneShot, tool: str, arguments: Mapping[str, Any], options: argparse.Namespace) -> int:
    """Start work, show its progress, print the result, and leave when the work is done."""
    await shot.work()
    progress = _Progress(shot)
    watching = asyncio.create_task(progress.show())
    try:
        result = await shot.call(tool, arguments, options.sender)
        code = EXIT_CODES[result["status"]]
        if shot.answer(result):
            pass
        elif result["status"] == "ok":
            print_text(result["reply"])
        elif result["status"] == "timeout":
            print_progress(f"no reply within {options.timeout:g} s; staying until the run has ended")
        elif result["status"] != "accepted":
            print_error(result["error"])
        await shot.gateway.drained()
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    if result["status"] in {"accepted", "timeout"}:
        ended = await _tell_end(shot, result["runId"], options)
        code = ended if result["status"] == "accepted" else code
    if "runId" in result:
        await _tell_announce(shot, result["runId"])
    return code


async def _tell_end(shot: OneShot, run_id: str, options: argparse.Namespace) -> int:
    """Tell what a run came to that had not ended when its tool answered; return its exit code."""
    outcome = await shot.gateway.wait_run(run_id, 0)
    if not options.json and outcome.reply:
        print_text(outcome.reply)
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


async def _leave_queued(shot: OneShot, tool: str, arguments: Mapping[str, Any], options: argparse.Namespace) -> int:
    """Accept work and leave it to the next process that owns the state directory."""
    await shot.host.start(options.command, run_all=False, run_own=False)
    result = await shot.call(tool, arguments, options.sender)
    if shot.answer(result):
        pass
    elif result["status"] == "accepted":
        write_line(f"accepted as run {result['runId']}; it runs when a console is opened on {shot.host.state}")
    else:
        print_error(result["error"])
    return EXIT_CODES[result["status"]]


async def _policy(shot: OneShot, options: argparse.Namespace) -> int:
    session = await shot.find(options.key)
    if options.word is not None:
        await shot.work()
        patch = SessionPatch({"sendPolicy": POLICY_WORDS[options.word]})
        session = await shot.gateway.patch(session.session_id, patch, OPERATOR)
    decision = shot.gateway.rules.send_decision(session)
    result = {
        "key": session.key,
        "effective": decision.effective,
        "override": decision.override or "inherit",
        "decidedBy": list(decision.decided_by),
    }
    if not shot.answer(result):
        write_line(f"{shot.shown(session.key)}: {decision.effective} by {decision.reason}")
    return 0


async def _abort(shot: OneShot, options: argparse.Namespace) -> int:
    session = await shot.find(options.key)
    await shot.work()
    stopped = await shot.gateway.abort(session.session_id, OPERATOR)
    if not shot.answer({"key": session.key, "aborted": bool(stopped), "runIds": stopped}):
        runs = f"stopped {len(stopped)} run{'' if len(stopped) == 1 else 's'}"
        write_line(f"{shot.shown(session.key)}: {runs if stopped else 'nothing to stop'}")
    return 0


async def _search(shot: OneShot, options: argparse.Namespace) -> int:
    text = " ".join(options.text).strip()
    if not text:
        raise Invalid("there is nothing to search for: give a word")
    result = await shot.call("sessions_search", {"query": text, "limit": options.limit})
    if shot.answer(result):
        return 0
    now = shot.gateway.now_ms()
    rows = [
        [hit["sessionKey"], str(hit["seq"]), age(now - hit["timestamp"]), hit["snippet"]] for hit in result["results"]
    ]
    if rows:
        print_table(("KEY", "SEQ", "AGE", "WORDS"), rows, right=frozenset({1, 2}))
    else:
        write_line("no match")
    return 0


async def _export(shot: OneShot, options: argparse.Namespace) -> int:
    from console.operations import export_text

    session = await shot.find(options.key)
    pages: list[list[dict[str, Any]]] = []
    texts: list[str] = []
    before: int | None = None
    ref = canonical(shot.gateway, OPERATOR, options.key)
    while True:
        page = await shot.gateway.history(ref, ALL, limit=HISTORY_PAGE, before=before)
        pages.append([message.as_json() for message in page.messages])
        texts.append("".join(export_text(message) for message in page.messages))
        before = page.before
        if before is None:
            break
    messages = [message for part in reversed(pages) for message in part]
    if not shot.answer({"sessionKey": session.key, "sessionId": page.session_id, "messages": messages}):
        print_text("".join(reversed(texts)).rstrip())
    return 0


async def _mcp(shot: OneShot, options: argparse.Namespace) -> int:
    serve = await asyncio.to_thread(_load_mcp)
    caller = SessionCaller((await shot.find(options.caller)).key) if options.caller else OPERATOR
    try:
        await shot.host.start("mcp")
    except Conflict as error:
        print_error(error.message)
    await serve(shot.gateway, caller)
    if shot.gateway.connection.state == "live":
        await shot.gateway.drained()
    return 0


def _load_mcp() -> "Callable[[Gateway, Caller], Awaitable[None]]":
    try:
        from core.mcp import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types"}:
            raise
        raise Unavailable(
            "the library mcp is missing: install it with `pip install 'switchboard-console[mcp]'`"
        ) from None
    return serve


def _print_message(message: Mapping[str, Any]) -> None:
    provenance = message.get("provenance")
    who = message["role"] if provenance is None else f"{provenance['sourceSessionKey']} → {message['role']}"
    if message["role"] == "toolResult":
        who = f"{message.get('toolName', 'tool')} {'failed' if message.get('isError') else 'answered'}"
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(message["timestamp"] / 1000))
    write_line(f"{message['seq']}  {when}  {clean_line(who)}")
    for block in message["content"]:
        if block.get("type") == "text":
            write_line(textwrap.indent(clean(str(block["text"])).rstrip(), "    "))
        elif block.get("type") == "toolCall":
            call = f"{block.get('name')} {json.dumps(block.get('arguments'), ensure_ascii=False)}"
            write_line(f"    ▸ {clean_line(call, LONGEST_CALL)}")


class _Progress:
    """Tells on stderr what the work that this command started is doing."""

    def __init__(self, shot: OneShot) -> None:
        self._shot = shot
        self._feed = shot.gateway.subscribe()
        self._runs: dict[str, Run] = {}
        self._exchanges: set[str] = set()

    async def show(self) -> None:
        """Tell until it is cancelled."""
        async for event in self._feed:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        match event:
            case RunChanged(_, run) if run.kind != "command":
                self._tell_run(run)
            case ExchangeChanged(_, exchange):
                self._exchanges.add(exchange.exchange_id)
                if exchange.kind == "send" and exchange.state != "first":
                    print_progress(progress_sentence(exchange, self._shot.shown))
            case DeliveryChanged(_, delivery) if delivery.exchange_id in self._exchanges and delivery.is_open:
                print_progress(announce_sentence(delivery))
            case ToolProgress(key, _, _, name, note):
                print_progress(f"{self._shot.shown(key)}: {name} {note}")
            case Activity(key, run_id, words) if run_id in self._runs and sys.stderr.isatty():
                print_progress(f"{self._shot.shown(key)}: {words}")
            case _:
                return

    def _tell_run(self, run: Run) -> None:
        self._runs[run.run_id] = run
        if run.state == "running":
            print_progress(f"{self._shot.shown(run.key)}: at work")
        elif not run.live:
            took = seconds_span((run.ended_at or 0) - (run.started_at or run.ended_at or 0))
            print_progress(f"{self._shot.shown(run.key)}: {run.state} after {took}")


_COMMANDS: Final[Mapping[str, Command]] = {
    "list": _list,
    "history": _history,
    "send": _send,
    "spawn": _spawn,
    "policy": _policy,
    "abort": _abort,
    "search": _search,
    "export": _export,
    "mcp": _mcp,
}
