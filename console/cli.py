"""The command line as it is spelled (DESIGN 9): what may be said, and who does it.

Nothing heavy is imported before it is known what is asked for: `--help` needs neither Textual nor HTTP.
"""

import argparse
import gc
from collections.abc import Sequence
from typing import Final, NoReturn

from core.model.errors import Invalid, SwitchboardError

EPILOG: Final = """\
KEY is a session key (main, agent:main:discord:group:ops, cron:nightly, …) or a session id.
Exit codes: 0 done or accepted, 1 failed, 2 usage, 3 not found, 4 forbidden by policy or visibility, 5 timeout.
"""
_EVERYWHERE: Final = ("--state", "--config")


class _Parser(argparse.ArgumentParser):
    """A parser that ends wrong words with one sentence, as everything else here does."""

    def error(self, message: str) -> NoReturn:
        raise Invalid(f"{message}: see `{self.prog} --help`")


def run(arguments: Sequence[str]) -> int:
    """Do what the command line says and return the exit code."""
    try:
        options = parser().parse_args(_flags_first(arguments))
    except Invalid as error:
        return _refuse(error, as_json="--json" in arguments)
    try:
        if options.version:
            from importlib.metadata import version

            from console.output import write_line

            write_line(f"switchboard {version('switchboard-console')}")
            return 0
        if options.command in {None, "demo"}:
            gc.disable()  # until the first picture, which makes many objects and no garbage: an eighth of the start
            from console.start import run_console

            return run_console(options.state, options.config, demo=options.command == "demo")
        from console.oneshot import run_command

        return run_command(options)
    except SwitchboardError as error:
        return _refuse(error, as_json=options.json)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    common = _Parser(add_help=False)
    common.add_argument("--state", metavar="DIR", help="the state directory to work on")
    common.add_argument("--config", metavar="FILE", help="the configuration file")
    common.add_argument("--json", action="store_true", help="print exactly the tool's result, as one JSON document")
    main = _Parser(
        prog="switchboard",
        description="Watch a fleet of AI-agent sessions, send messages between them, spawn sub-agents."
        " Without a command it opens the console.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common],
    )
    main.add_argument("--version", action="store_true", help="print the version")
    main.set_defaults(version=False)
    commands = main.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    def add(name: str, words: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.", parents=[common])

    add("demo", "open the console on a temporary state where everything moves")
    _add_list(add("list", "list sessions, newest first"))
    _add_history(add("history", "print the newest messages of a session"))
    _add_send(add("send", "send a message to a session and wait for the reply"))
    _add_spawn(add("spawn", "start a sub-agent on a task and wait for its result"))
    policy = add("policy", "show the send policy of a session and what decides, or change it")
    policy.add_argument("key", metavar="KEY")
    policy.add_argument("word", metavar="on|off|inherit", nargs="?", choices=("on", "off", "inherit"))
    abort = add("abort", "stop what a session is at work on")
    abort.add_argument("key", metavar="KEY")
    search = add("search", "search all transcripts")
    search.add_argument("text", metavar="TEXT", nargs="+")
    search.add_argument("--limit", type=_positive, default=20, metavar="N")
    export = add("export", "print a whole transcript as markdown, or with --json as it is stored")
    export.add_argument("key", metavar="KEY")
    add("doctor", "say what was found, where each value came from, and what to do")
    return main


def _add_list(command: argparse.ArgumentParser) -> None:
    command.add_argument("--kinds", metavar="KIND", nargs="+", help="only these kinds of session")
    command.add_argument("--limit", type=_positive, default=50, metavar="N", help="rows at most, up to 200")
    command.add_argument("--active", type=float, metavar="MIN", help="only sessions updated within that many minutes")
    command.add_argument("--search", metavar="TEXT", help="part of key, label, name or newest message")
    command.add_argument("--archived", action="store_true", help="the archived sessions instead")


def _add_history(command: argparse.ArgumentParser) -> None:
    command.add_argument("key", metavar="KEY")
    command.add_argument("--limit", type=_positive, default=50, metavar="N", help="messages at most, up to 200")
    command.add_argument("--tools", action="store_true", help="with the results of tools")


def _add_send(command: argparse.ArgumentParser) -> None:
    command.add_argument("key", metavar="KEY", help="a full key that does not exist yet makes a new session")
    command.add_argument(
        "message", metavar="MESSAGE", help="what to say; a /command is the command; - reads it from stdin"
    )
    command.add_argument("--from", dest="sender", metavar="KEY", help="the session that sends")
    command.add_argument(
        "--timeout", type=_not_negative, default=30.0, metavar="S", help="seconds to wait for the reply"
    )
    command.add_argument("--detach", action="store_true", help="do not stay until the work is done")


def _add_spawn(command: argparse.ArgumentParser) -> None:
    command.add_argument("task", metavar="TASK")
    command.add_argument("--from", dest="sender", metavar="KEY", help="the session that gets the result; default main")
    command.add_argument("--agent", metavar="ID", help="whose sub-agent")
    command.add_argument("--label", metavar="TEXT", help="a short name")
    command.add_argument("--model", metavar="NAME", help="another model than the agent's own")
    command.add_argument("--thinking", choices=("off", "minimal", "low", "medium", "high"), help="thinking level")
    command.add_argument("--run-timeout", type=_not_negative, metavar="S", help="stop the sub-agent after that long")
    command.add_argument("--detach", action="store_true", help="do not stay until the work is done")


def _flags_first(arguments: Sequence[str]) -> list[str]:
    """Move the flags that choose state, configuration and output behind the command; they may stand before it."""
    front: list[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        flag = rest[0].partition("=")[0]
        if flag not in {*_EVERYWHERE, "--json"}:
            break
        takes_value = flag in _EVERYWHERE and "=" not in rest[0]
        front += [rest.pop(0) for _ in range(min(len(rest), 2 if takes_value else 1))]
    return [rest[0], *front, *rest[1:]] if rest and not rest[0].startswith("-") else [*front, *rest]


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, not {text!r}")
    return int(text)


def _not_negative(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"expected seconds from 0 to 86400, not {text!r}")
    return value


def _refuse(error: SwitchboardError, *, as_json: bool) -> int:
    """Say in one sentence what is wrong: on stderr, or as the one document of --json."""
    from console.output import print_error, print_json

    if as_json:
        print_json({"status": "error", "code": error.code, "error": error.message})
    else:
        print_error(error.message)
    return error.exit_code
