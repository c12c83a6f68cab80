"""`switchboard serve`: this machine's sessions for consoles and clients elsewhere (G1-G8)."""

import argparse
import asyncio
import importlib
import ipaddress
import os
import resource
import shlex
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from console.cli.one_shot import Stop
from console.cli.output import print_json, print_progress, write_line
from console.hosts.host import Host
from core.config.paths import Places, find_places
from core.config.token import TOKEN_NAME, kept_token, weakness
from core.model.errors import Conflict, Invalid
from core.model.keys import quoted

if TYPE_CHECKING:
    from core.config.settings import ServerSettings
    from core.server.http.listen import Door

ADDRESSES: Final = {"loopback": "127.0.0.1", "lan": "0.0.0.0"}  # noqa: S104 - when it is asked for
MOST_FILES: Final = 8192


def run_serve(options: argparse.Namespace) -> int:
    """Serve until told to end; return the exit code. `SwitchboardError`: another owner, the port, the configuration."""
    return asyncio.run(_serve(options, find_places(options.state, options.config)))


async def _serve(options: argparse.Namespace, places: Places) -> int:
    host = Host(places)
    try:
        settings = (await host.settings()).server
        settings = replace(settings, host=_address(options.bind) or settings.host)
        if options.port is not None:
            settings = replace(settings, port=options.port)
        door = await asyncio.to_thread(_door, host, settings, insecure=options.insecure)  # 150 ms of imports
        _allow_many_clients()
        try:
            await _open(host, settings, door, as_json=options.json)
        finally:
            door.close()
    finally:
        await host.close()
    return 0


async def _open(host: Host, settings: "ServerSettings", door: "Door", *, as_json: bool) -> None:
    """Take the state directory over and serve until told to end; `Conflict` when another process owns it."""
    from console.hosts.service import Company, server_context
    from core.server.auth import Auth, Sites
    from core.server.http.app import create_app
    from core.server.http.listen import NetworkListener

    token = _token(host, settings)
    auth = Auth(token.value, _read_only(settings, token.value), host.runtime.store.clock)
    host.company = Company.of(host.state)
    await host.start("serve")
    if not host.owns:
        owner = host.runtime.owner
        words = owner.words if owner is not None else "another process"
        raise Conflict(f"the state directory {host.state} is owned by {words}: close that first, then serve")
    sites = Sites.of(settings.public_origin, settings.origins)
    context = server_context(host.runtime, host.places, auth, sites, insecure=door.place.insecure, company=host.company)
    ended = asyncio.Event()
    Stop(ended.set)
    listener = await NetworkListener.open(create_app(context), context, door)
    try:
        await host.answered()
        _tell(host, settings, door, token, as_json=as_json)
        await ended.wait()
        host.runtime.hold()
        if host.active_runs:
            print_progress("closing: waiting for the runs at work; a second signal ends at once")
    finally:
        await listener.close(host.drained, "the gateway was told to stop")


def _allow_many_clients() -> None:
    """Ask the system for as many open files as it lets us have, up to some thousands: each client costs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _door(host: Host, settings: "ServerSettings", *, insecure: bool) -> "Door":
    """Hold the port, before anything is begun that a refusal would break off."""
    importlib.import_module("core.server.http.app")  # needed next, and loaded here beside the loop
    from core.server.http.listen import Door, Place

    place = Place(settings.host, settings.port, settings.certificate, settings.key, insecure, settings.proxies)
    place.check(has_token=settings.token is not None or (host.state / TOKEN_NAME).exists())
    return Door(place)


@dataclass(frozen=True, slots=True)
class _Token:
    """The gateway's token: where it is in words and as a shell names it, and whether it was made just now."""

    value: str = field(repr=False)
    place: str
    argument: str
    is_new: bool = False


def _token(host: Host, settings: "ServerSettings") -> _Token:
    if settings.token is None:
        kept = kept_token(host.state)
        path = host.state / TOKEN_NAME
        if kept.was_empty:
            print_progress(f"the token file {path} was empty: it holds a new token now")
        value = _strong(kept.value, f"the token in {path}")
        return _Token(value, f"in {path}", f'"$(cat {shlex.quote(str(path))})"', kept.is_new)
    value = _sendable(settings.token.reveal(), "gateway.auth.token")
    arguments = {"env": f'"${settings.token.value}"', "file": f'"$(cat {shlex.quote(settings.token.value)})"'}
    return _Token(value, settings.token.words, arguments.get(settings.token.where, "TOKEN"))


def _read_only(settings: "ServerSettings", token: str) -> str | None:
    if settings.read_only_token is None:
        return None
    value = _sendable(settings.read_only_token.reveal(), "gateway.auth.readOnlyToken")
    if value == token:
        raise Invalid("gateway.auth.readOnlyToken is the same as gateway.auth.token: give it another one")
    return value


def _sendable(token: str, name: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise Invalid(f"{name} holds characters that no HTTP header can carry: use letters, digits, - and _")
    return _strong(token, name)


def _strong(token: str, name: str) -> str:
    if problem := weakness(token):
        raise Invalid(f"{name} {problem}")
    return token


def _address(bind: str | None) -> str | None:
    address = ADDRESSES.get(bind, bind) if bind else None
    try:
        return str(ipaddress.ip_address(address)) if address else None
    except ValueError:
        raise Invalid(f"--bind takes loopback, lan or an IP address of this machine, not {quoted(str(bind))}") from None


def _tell(host: Host, settings: "ServerSettings", door: "Door", token: _Token, *, as_json: bool) -> None:
    """Say what is served and how to get there; a new token is shown once, and only to a person."""
    url = door.url("ws")
    if as_json:
        facts = {"status": "serving", "url": door.url(), "wsUrl": url, "port": door.port, "pid": os.getpid()}
        print_json(facts | {"stateDir": str(host.state), "token": token.place}, indent=None)
        return
    reached = f", reached as {settings.public_origin}" if settings.public_origin else ""
    is_shown = token.is_new and sys.stdout is not None and sys.stdout.isatty()
    write_line(f"serving the sessions of {host.state} at {door.url()}{reached} (process {os.getpid()})")
    write_line(f"the token is {token.place}{f', made just now: {token.value}' if is_shown else ''}")
    write_line(f"to connect:      switchboard connect {url}")
    write_line(f"with OpenClaw:   openclaw tui --url {url} --token {token.argument}")
    if host.hint:
        print_progress(host.hint)
