"""The commands that do one thing and leave (architecture#command-line). Each works on the same tools as agents and the
console."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from console.cli.follow import follow
from console.cli.one_shot import OneShot, Stop
from console.cli.output import print_error, print_line, print_message, print_table, print_text, write_line
from console.cli.work import send, spawn
from console.export import markdown, read_whole
from console.hosts.remote_host import open_host
from console.live.text.words import age, counted, tokens
from core.config.paths import Places, find_places
from core.model.access import OPERATOR, SessionCaller
from core.model.errors import Conflict, Invalid, Unavailable
from core.model.money import dollars
from core.model.sessions import SessionPatch
from core.runtime.commands import POLICY_WORDS
from core.tools.target import canonical, policy_subject

if TYPE_CHECKING:
    from core.gateway import Gateway
    from core.model.access import Caller

Command = Callable[[OneShot, argparse.Namespace], Awaitable[int]]


def run_command(options: argparse.Namespace) -> int:
    """Run one command and return its exit code; `SwitchboardError` says what kept it from being done."""
    places = find_places(options.state, options.config)
    if options.command == "doctor":
        from console.cli.doctor import examine

        return examine(places, options.gateway, as_json=options.json)
    if options.gateway is not None and "," in options.gateway:
        raise Invalid("only the console works on several gateways at once: name one")
    if options.command in {"connect", "gateways"}:
        from console.cli.connect import run_connect, run_gateways

        return (run_connect if options.command == "connect" else run_gateways)(options, places)
    if options.command in {"backup", "restore", "check", "devices"} and options.gateway is not None:
        raise Invalid(f"{options.command} works on a state directory of this machine: leave --gateway out")
    if options.command in {"backup", "restore"}:
        from console.cli.backup import run_backup, run_restore

        return (run_backup if options.command == "backup" else run_restore)(options, places)
    if options.command == "check":
        from console.cli.check import run_check

        return run_check(options, places)
    if options.command == "devices":
        from console.cli.devices import run_devices

        return run_devices(options, places)
    if options.command == "import":
        from console.cli.importing import run_import

        return run_import(options, places)
    if options.command == "send" and options.message == "-":
        options.message = _read_stdin()
    return asyncio.run(_run(options, places))


async def _run(options: argparse.Namespace, places: Places) -> int:
    shot = OneShot(open_host(places, options.gateway, pace=0.0), options)
    stop = Stop()
    try:
        await shot.host.ready()
        return await COMMANDS[options.command](shot, options)
    except asyncio.CancelledError:
        shot.interrupted(f"stopped by {signal.Signals(stop.number).name}{shot.left_behind}")
        return 128 + stop.number
    finally:
        await shot.host.close()


def _read_stdin() -> str:
    if sys.stdin is None:
        raise Invalid("there is no message: stdin is closed")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise Invalid("the message on stdin is not UTF-8 text") from None


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
            dollars(row["estimatedCostUsd"]) if "estimatedCostUsd" in row else "",
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
        print_message(message)
    if not result["messages"]:
        write_line("no messages yet")
    return 0


async def _policy(shot: OneShot, options: argparse.Namespace) -> int:
    session = await policy_subject(shot.gateway, options.key)
    if options.word is not None:
        await shot.work()
        patch = SessionPatch({"sendPolicy": POLICY_WORDS[options.word]})
        session = await shot.gateway.patch(session.session_id or session.key, patch, OPERATOR)
    decision, override = shot.gateway.policy_of(session), session.send_policy or "inherit"
    result: dict[str, Any] = {"key": session.key, "override": override}
    if not session.session_id:
        result["waiting"] = session.send_policy is not None
    if decision is not None:
        result |= {"effective": decision.effective, "decidedBy": list(decision.decided_by)}
    if not shot.answer(result):
        told = f"{decision.effective} by {decision.reason}" if decision is not None else f"override {override}"
        if not session.session_id:
            waits = ", which waits for it" if session.send_policy is not None else ""
            told += f"{waits} (there is no such session yet)"
        write_line(f"{shot.shown(session.key)}: {told}")
    return 0


async def _abort(shot: OneShot, options: argparse.Namespace) -> int:
    session = await shot.find(options.key)
    await shot.work()
    stopped = await shot.gateway.abort(session.session_id, OPERATOR)
    if not shot.answer({"key": session.key, "aborted": bool(stopped), "runIds": stopped}):
        runs = f"stopped {counted(len(stopped), 'run')}"
        write_line(f"{shot.shown(session.key)}: {runs if stopped else 'nothing to stop'}")
    return 0


async def _search(shot: OneShot, options: argparse.Namespace) -> int:
    text = " ".join(options.text).strip()
    if not text:
        raise Invalid("there is nothing to search for: give a word")
    result = await shot.call("sessions_search", {"query": text, "limit": options.limit, "sessionKey": options.inside})
    if shot.answer(result):
        return 0
    now = shot.gateway.now_ms()
    rows = [
        [hit["sessionKey"], str(hit["seq"]), age(now - hit["timestamp"]), hit["snippet"]] for hit in result["results"]
    ]
    if rows:
        print_table(("KEY", "SEQ", "AGE", "WORDS"), rows, right=frozenset({1, 2}))
    else:
        write_line("no match" + (" where it was looked" if result.get("unsearched") else ""))
    for each in result.get("unsearched", ()):
        print_line(f"not searched: {each['place']}: {each['reason']}")
    return 0


async def _export(shot: OneShot, options: argparse.Namespace) -> int:
    session = await shot.find(options.key)
    whole = await read_whole(shot.gateway, canonical(shot.gateway, OPERATOR, options.key))
    messages = [message.as_json() for message in whole.messages]
    if not shot.answer({"sessionKey": session.key, "sessionId": whole.session_id, "messages": messages}):
        print_text("".join(markdown(message) for message in whole.messages).rstrip())
    return 0


async def _mcp(shot: OneShot, options: argparse.Namespace) -> int:
    serve = await asyncio.to_thread(_load_mcp)
    caller: Caller = OPERATOR
    if options.caller:
        session = await shot.find(options.caller)
        caller = SessionCaller(session.key, agent_id=session.agent_id)
    try:
        await shot.host.start("mcp")
    except Conflict as error:
        print_error(error.message)
    await serve(shot.gateway, caller)
    await shot.host.drained()
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


COMMANDS: Final[Mapping[str, Command]] = {
    "list": _list,
    "history": _history,
    "follow": follow,
    "send": send,
    "spawn": spawn,
    "policy": _policy,
    "abort": _abort,
    "search": _search,
    "export": _export,
    "mcp": _mcp,
}
"""What carries each command out."""
