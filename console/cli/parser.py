"""The command line as it is spelled (architecture#command-line): what may be said, and who does it.

Nothing heavy is imported before it is known what is asked for: `--help` needs neither Textual nor HTTP.
"""

import argparse
import errno
import gc
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NoReturn

from core.model.errors import Invalid, SwitchboardError, Unavailable
from core.model.keys import KINDS, quoted

EPILOG: Final = """\
KEY is a session key (main, agent:main:discord:group:ops, cron:nightly, …) or a session id.
Exit codes: 0 done or accepted, 1 failed, 2 usage, 3 not found, 4 forbidden by policy or visibility, 5 timeout.
"""
MAX_MINUTES: Final = 52_704_000
"""A hundred years, as many as the tool takes."""
_AddArgument = Callable[..., argparse.Action]
"""Adds an argument to one command, as argparse takes it."""
_EVERYWHERE: Final = ("--state", "--config", "--gateway")


class _Parser(argparse.ArgumentParser):
    """A parser that ends wrong words with one sentence; `commands`, of the main one only, has that of each command."""

    commands: Mapping[str, "_Parser"] = MappingProxyType({})

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        words = message.removeprefix("argument ").replace("the following arguments are required:", "missing:")
        raise self.wrong(words)

    def wrong(self, words: str) -> Invalid:
        """Return the sentence that says what is wrong and where to look."""
        return Invalid(words if words.endswith("?") else f"{words}: see `{self.prog} --help`")

    def unknown(self, words: Sequence[str]) -> Invalid:
        """Return the sentence for words that mean nothing here."""
        name = words[0].partition("=")[0]
        if not name.startswith("-"):
            return self.wrong(f"{quoted(name)} is one word too many, a text of several words needs quotes")
        flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
        return self.wrong(f"there is no flag {quoted(name)}{nearest(name, flags)}")

    def print_help(self, file: object = None) -> None:  # noqa: ARG002 - the signature of argparse
        """Print the help as everything else is printed."""
        from console.cli.output import write_line

        write_line(self.format_help().rstrip())


def run(arguments: Sequence[str]) -> int:
    """Do what the command line says and return the exit code."""
    try:
        options = parse(arguments)
    except Invalid as error:
        return _refuse(error, as_json="--json" in arguments)
    try:
        if options.version:
            from importlib.metadata import version

            from console.cli.output import write_line

            write_line(f"switchboard {version('switchboard-console')}")
            return 0
        if options.command in {None, "demo"}:
            gc.disable()  # until the first picture, which makes many objects and no garbage: an eighth of the start
            from console.start import run_console

            return run_console(options.state, options.config, options.gateway, demo=options.command == "demo")
        if options.command == "serve":
            from console.cli.serve import run_serve

            return run_serve(options)
        from console.cli.commands import run_command

        return run_command(options)
    except SwitchboardError as error:
        return _refuse(error, as_json=options.json)
    except (OSError, ImportError) as error:
        if not _is_of_too_many_files(error):
            raise
        sentence = "too many files are open to go on: allow more of them (`ulimit -n 1024`)"
        return _refuse(Unavailable(sentence), as_json=options.json)


def _is_of_too_many_files(error: OSError | ImportError) -> bool:
    """Whether this process may open no more files: of a library, only the words of the system tell it."""
    if isinstance(error, OSError):
        return error.errno in {errno.EMFILE, errno.ENFILE}
    return os.strerror(errno.EMFILE) in str(error)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read a command line; where it is none of ours, `Invalid` gives the nearest name."""
    main = _parser()
    words = _flags_first(arguments)
    if words and not words[0].startswith("-") and words[0] not in main.commands:
        known = f": use one of {', '.join(main.commands)}"
        raise Invalid(f"there is no command {quoted(words[0])}{nearest(words[0], main.commands) or known}")
    options, unknown = main.parse_known_args(words)
    if unknown:
        raise main.commands.get(options.command, main).unknown(unknown)
    return options


def _parser() -> _Parser:
    common = _Parser(add_help=False)
    common.add_argument("--state", type=_place, metavar="DIR", help="the state directory to work on")
    common.add_argument("--config", type=_place, metavar="FILE", help="the configuration file")
    common.add_argument(
        "--gateway",
        type=_gateways,
        metavar="NAME|URL",
        help="the gateway to work on; the console takes several: a,b,local",
    )
    common.add_argument("--json", action="store_true", help="print exactly the tool's result, as one JSON document")
    main = _Parser(
        prog="switchboard",
        description="Watch a fleet of AI-agent sessions, send messages between them, spawn sub-agents."
        " Without a command it opens the console.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common],
        allow_abbrev=False,
    )
    main.add_argument("--version", action="store_true", help="print the version")
    main.set_defaults(version=False)
    commands = main.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    main.commands = commands.choices

    def add(name: str, words: str) -> _AddArgument:
        description = f"{words[0].upper()}{words[1:]}."
        parser = commands.add_parser(name, help=words, description=description, parents=[common], allow_abbrev=False)
        return parser.add_argument

    add("demo", "open the console on a temporary state where everything moves")
    _add_list(add("list", "list sessions, newest first"))
    _add_history(add("history", "print the newest messages of a session"))
    follow = add("follow", "print the messages of a session as they come, until Ctrl+C")
    follow("key", metavar="KEY")
    _add_send(add("send", "send a message to a session and wait for the reply"))
    _add_spawn(add("spawn", "start a sub-agent on a task and wait for its result"))
    policy = add("policy", "show the send policy of a session and what decides, or change it")
    policy("key", metavar="KEY")
    policy("word", metavar="on|off|inherit", nargs="?", type=_one_of("on", "off", "inherit"))
    abort = add("abort", "stop what a session is at work on")
    abort("key", metavar="KEY")
    search = add("search", "search all transcripts, or one")
    search("text", metavar="TEXT", nargs="+")
    search("--in", dest="inside", metavar="KEY", help="only this session, on any gateway")
    search("--limit", type=_positive, default=20, metavar="N")
    export = add("export", "print a whole transcript as markdown, or with --json as it is stored")
    export("key", metavar="KEY")
    brought = add("import", "bring the sessions of an OpenClaw state directory in, or what is new of them")
    brought("directory", type=_place, metavar="DIR", help="such as ~/.openclaw; nothing in it is changed")
    _add_operators(add)
    _add_serve(add("serve", "serve the sessions to consoles and clients elsewhere, over HTTP and WebSocket"))
    served = add("mcp", "serve the session tools to a client of the Model Context Protocol, over stdin and stdout")
    served("--as", dest="caller", metavar="KEY", help="act as this session, with its rights and no others")
    _add_connect(add("connect", "connect to a gateway, pair with it, and store it under a name"))
    add("gateways", "list the gateways that are known by name")
    add("doctor", "say what was found, where each value came from, and what to do")
    return main


def _add_list(arg: _AddArgument) -> None:
    arg("--kinds", type=_one_of(*KINDS), metavar="KIND", nargs="+", help="only these kinds of session")
    arg("--limit", type=_positive, default=50, metavar="N", help="rows at most, up to 200")
    arg("--active", type=_minutes, metavar="MIN", help="only sessions updated within that many minutes")
    arg("--search", metavar="TEXT", help="part of key, label, name or newest message")
    arg("--archived", action="store_true", help="the archived sessions instead")


def _add_history(arg: _AddArgument) -> None:
    arg("key", metavar="KEY")
    arg("--limit", type=_positive, default=50, metavar="N", help="messages at most, up to 200")
    arg("--tools", action="store_true", help="with the results of tools")


def _add_send(arg: _AddArgument) -> None:
    arg("key", metavar="KEY", help="a full key that does not exist yet makes a new session")
    arg("message", metavar="MESSAGE", help="what to say; a /command is the command; - reads it from stdin")
    arg("--from", dest="sender", metavar="KEY", help="the session that sends")
    arg("--timeout", type=_not_negative, default=30.0, metavar="S", help="seconds to wait for the reply")
    arg("--detach", action="store_true", help="do not stay until the work is done")


def _add_spawn(arg: _AddArgument) -> None:
    arg("task", metavar="TASK")
    arg("--from", dest="sender", metavar="KEY", help="the session that gets the result; default main")
    arg("--agent", metavar="ID", help="whose sub-agent")
    arg("--label", metavar="TEXT", help="a short name")
    arg("--model", metavar="NAME", help="another model than the agent's own")
    levels = _one_of("off", "minimal", "low", "medium", "high")
    arg("--thinking", type=levels, metavar="LEVEL", help="off, minimal, low, medium or high")
    arg("--run-timeout", type=_not_negative, metavar="S", help="stop the sub-agent after that long")
    arg("--attach", metavar="FILE", action="append", default=[], help="a file for the sub-agent; may be repeated")
    arg("--detach", action="store_true", help="do not stay until the work is done")


def _add_operators(add: Callable[[str, str], _AddArgument]) -> None:
    """Add what looks after a state directory."""
    saved = add("backup", "write the state directory into one file, while others work on it")
    saved("file", type=_place, metavar="FILE", help="a file that does not exist yet, such as monday.tar")
    restored = add("restore", "make the state directory what a backup holds")
    restored("file", type=_place, metavar="FILE", help="what `switchboard backup` wrote")
    restored("--force", action="store_true", help="replace one that is not empty; it is kept beside it")
    checked = add("check", "look whether everything that is stored fits together, and say what can be mended")
    checked("--mend", action="store_true", help="mend what can be mended")
    devices = add("devices", "list the devices that are paired with this gateway, or revoke them")
    devices("action", metavar="list|revoke", nargs="?", default="list", type=_one_of("list", "revoke"))
    devices("device", metavar="ID", nargs="?", help="the device to revoke, or the first letters of its id")
    devices("--all", action="store_true", help="revoke them all")


def _add_connect(arg: _AddArgument) -> None:
    arg("target", metavar="URL|NAME", nargs="?", help="its address, or the name of a known one")
    arg("--name", metavar="NAME", help="the name to store it under; default its host")
    arg(
        "--token-file",
        metavar="FILE",
        help="a file that holds the token; else SWITCHBOARD_GATEWAY_TOKEN, or you are asked",
    )
    arg("--ca", metavar="FILE", help="PEM file of the authority that signed its certificate")
    arg("--fingerprint", metavar="SHA256", help="accept this certificate and no other")
    arg("--insecure", action="store_true", help="go to another machine without TLS")
    arg("--forget", metavar="NAME", help="remove a stored gateway with its token instead")


def _add_serve(arg: _AddArgument) -> None:
    arg("--port", type=_port, metavar="N", help="the port; 0 for any that is free")
    arg("--bind", metavar="ADDR", help="loopback, lan, or an IP address of this machine")
    arg("--insecure", action="store_true", help="listen beyond loopback without TLS, where the network is encrypted")


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


def nearest(word: str, known: Iterable[str]) -> str:
    """Return what was probably meant, as the end of a sentence; empty when nothing is near."""
    import difflib

    found = difflib.get_close_matches(word.lower(), list(known), 1, 0.6)
    return f"; did you mean {quoted(found[0])}?" if found else ""


def _one_of(*known: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in known:
            expected = f"{', '.join(known[:-1])} or {known[-1]}"
            raise argparse.ArgumentTypeError(f"expected {expected}, not {quoted(text)}{nearest(text, known)}")
        return text

    return check


def _place(text: str) -> str:
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"expected a path, not {quoted(text)}")
    return text


def _gateways(text: str) -> str:
    if not all(word.strip() for word in text.split(",")):
        raise argparse.ArgumentTypeError(f"expected a gateway's name or address, not {quoted(text)}")
    return text


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 5 or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, not {quoted(text)}")
    return int(text)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 999999999, not {quoted(text)}")
    return int(text)


def _minutes(text: str) -> float:
    value = _number(text)
    if not 0 < value <= MAX_MINUTES:
        raise argparse.ArgumentTypeError(f"expected minutes, more than 0 and up to {MAX_MINUTES}, not {quoted(text)}")
    return value


def _not_negative(text: str) -> float:
    value = _number(text)
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"expected seconds from 0 to 86400, not {quoted(text)}")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0


def _refuse(error: SwitchboardError, *, as_json: bool) -> int:
    """Say in one sentence what is wrong: on stderr, or as the one document of --json."""
    from console.cli.output import print_error, print_json

    if as_json:
        print_json({"status": "error", "code": error.code, "error": error.message})
    else:
        print_error(error.message)
    return error.exit_code
