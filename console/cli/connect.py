"""`switchboard connect` and `switchboard gateways`: pairing with gateways elsewhere, and which are known by name."""

import argparse
import asyncio
import getpass
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from console.cli.output import print_error, print_json, print_progress, print_table, write_line
from console.live.text.clean import clean_line
from console.live.text.words import counted
from console.profiles import TOKEN_VARIABLE, Profiles
from core.clock import SystemClock
from core.config.gateways import fingerprint_of, is_name, shown_url
from core.config.load import load
from core.config.paths import Places
from core.config.settings import GatewaySettings, Secret
from core.model.access import ALL
from core.model.errors import Invalid, Unauthorized
from core.model.keys import quoted
from core.model.sessions import SessionQuery

COUNTED: Final = 200
"""Sessions are counted up to that many."""


@dataclass(frozen=True, slots=True)
class FoundGateway:
    """What a gateway said of itself; `latency_ms` is that of one small request, `sessions` at most `COUNTED`."""

    version: str
    latency_ms: float
    scopes: tuple[str, ...]
    sessions: int


def run_gateways(options: argparse.Namespace, places: Places) -> int:
    """Print the gateways that are known by name."""
    profiles = Profiles(load(places).gateways, places.state)
    rows: list[dict[str, str | None]] = []
    for each in profiles.known:
        token = each.gateway.token
        words = None if token is None else "stored" if each.origin == "stored" else token.words
        url = shown_url(each.gateway.url)
        rows.append({"name": each.gateway.name, "url": url, "origin": each.origin, "token": words})
    if options.json:
        print_json({"count": len(rows), "gateways": rows})
    elif not rows:
        write_line("no gateway is known by name yet: `switchboard connect URL` stores one")
    else:
        heads = ("NAME", "ADDRESS", "FROM", "TOKEN")
        print_table(heads, [[str(value or "none") for value in row.values()] for row in rows])
    return 0


def run_connect(options: argparse.Namespace, places: Places) -> int:
    """Connect to a gateway and store it, or forget one; `SwitchboardError` says why that failed and what to do."""
    profiles = Profiles(load(places).gateways, places.state)
    if options.forget is not None:
        from core.remote.credentials import DeviceTokens
        from core.remote.profile import parse_url

        gateway = profiles.find(options.forget) if is_name(options.forget) else None
        profiles.forget(options.forget)
        if gateway is not None and gateway.url not in [each.gateway.url for each in profiles.known]:
            DeviceTokens(places.state).put(parse_url(gateway.url)[0], None)  # what it gave this device
        if options.json:
            print_json({"name": options.forget, "stored": False})
        else:
            write_line(f"{options.forget} is forgotten, with its token")
        return 0
    if options.target is None:
        raise Invalid("there is nothing to connect to: give an address such as wss://host:18789, or a known name")
    return asyncio.run(_connect(_asked_for(options, profiles), options, profiles))


def _asked_for(options: argparse.Namespace, profiles: Profiles) -> GatewaySettings:
    """Return the gateway that the command line means, with the token that it gives."""
    gateway = profiles.find(options.target)
    name = options.name or gateway.name
    if not is_name(name):
        raise Invalid(f"{quoted(name)} cannot be a gateway's name: use letters, digits, ., _ and -, at most 40")
    given = _given_token(options.token_file)
    fingerprint = fingerprint_of(options.fingerprint) if options.fingerprint else gateway.fingerprint
    if options.fingerprint and fingerprint is None:
        raise Invalid("--fingerprint takes the SHA-256 of the certificate: 64 hexadecimal digits")
    return replace(
        gateway,
        name=name,
        token=gateway.token if given is None else _secret(given),
        ca=Path(options.ca).expanduser().absolute() if options.ca else gateway.ca,
        fingerprint=fingerprint,
        insecure=options.insecure or gateway.insecure,
    )


def _given_token(file: str | None) -> str | None:
    """Return the token of the file or of the environment; None when neither gives one."""
    if file is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip() or None
    try:
        token = Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Invalid(f"the token file {file} cannot be read: {reason}") from None
    if not token:
        raise Invalid(f"the token file {file} is empty: put the gateway's token into it")
    return token


def _secret(token: str) -> Secret:
    return Secret("literal", token, "the gateway's token")


async def _connect(gateway: GatewaySettings, options: argparse.Namespace, profiles: Profiles) -> int:
    try:
        found = await look(gateway, profiles)
    except _NotPaired:
        _store(gateway, profiles)
        again = f"switchboard connect {gateway.name}"
        print_progress(f"{gateway.name} is stored; after the approval, `{again}` goes on")
        raise
    except Unauthorized:
        token = _ask_token(gateway)
        if token is None:
            raise
        gateway = replace(gateway, token=_secret(token))
        found = await look(gateway, profiles)
    stored = _store(gateway, profiles)
    if options.json:
        facts: dict[str, Any] = {"name": gateway.name, "url": shown_url(gateway.url), "version": found.version}
        facts |= {"latencyMs": round(found.latency_ms, 1), "scopes": list(found.scopes)}
        print_json(facts | {"sessions": found.sessions, "stored": stored})
        return 0
    write_line(f"connected to {shown_url(gateway.url)}, which answers in {found.latency_ms:.0f} ms")
    write_line(f"it is {clean_line(found.version) or 'a gateway that does not say its version'}")
    write_line(f"it allows {clean_line(', '.join(found.scopes)) or 'what it does not say'}")
    more = " or more" if found.sessions >= COUNTED else ""
    write_line(f"it has {counted(found.sessions, 'session')}{more}")
    where = "stored" if stored else "in the configuration"
    write_line(f"{where} as {gateway.name}: `switchboard --gateway {gateway.name}` opens it")
    return 0


class _NotPaired(Unauthorized):
    """Somebody at the gateway has to approve this device."""


async def look(gateway: GatewaySettings, profiles: Profiles) -> FoundGateway:
    """Connect, and return what the gateway says of itself; `SwitchboardError` says why that failed."""
    remote = profiles.connect(gateway, SystemClock())
    try:
        try:
            await remote.opened()
        except Unauthorized as error:
            if remote.connection.retry_at is None:
                raise
            raise _NotPaired(error.message) from None  # it will let us in once somebody there has approved
        began = time.perf_counter()
        page = await remote.list_sessions(SessionQuery(limit=COUNTED), ALL)
        latency = (time.perf_counter() - began) * 1000
        connection = remote.connection
        return FoundGateway(connection.version, connection.latency_ms or latency, connection.scopes, len(page.sessions))
    finally:
        await remote.close()


def _store(gateway: GatewaySettings, profiles: Profiles) -> bool:
    """Write the gateway down unless the configuration has it; whether that was done."""
    if profiles.is_configured(gateway):
        return False
    profiles.store(gateway, gateway.token.reveal() if gateway.token is not None else None)
    return True


def _ask_token(gateway: GatewaySettings) -> str | None:
    """Ask for the token on the terminal, unseen; None where there is none to ask on, or nothing is said."""
    if sys.stdin is None or not sys.stdin.isatty():
        return None
    print_error(f"{shown_url(gateway.url)} wants a token; what you type is not shown")
    try:
        return getpass.getpass("token: ").strip() or None
    except EOFError:
        return None
