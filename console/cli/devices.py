"""`switchboard devices`: which devices are paired with the gateway of a state directory, and how they lose that.

Whoever owns the directory is asked, so that the connections of a device that is revoked end at once; without an owner
the file is changed here.
"""

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any, Final, cast

from console.cli.output import print_json, print_table, write_line
from console.live.text.words import age, counted
from core.clock import SystemClock
from core.config.paths import Places
from core.model.errors import Invalid, NotFound, Unavailable
from core.model.keys import quoted
from core.remote.native.local import asking
from core.store.lock import current_owner

SHORT: Final = 12
"""Letters of an id that are shown, and that are enough to name one."""
Row = dict[str, Any]


def run_devices(options: argparse.Namespace, places: Places) -> int:
    """List the paired devices or revoke some, and return the exit code.

    Raises:
        SwitchboardError: There is no such device, the owner does not answer, or the file cannot be written.
    """
    if options.action == "revoke":
        if options.all == (options.device is not None):
            raise Invalid("revoke takes the id of one device, or --all: `switchboard devices` lists them")
    elif options.all or options.device is not None:
        raise Invalid("list takes no device: say `switchboard devices revoke ID`")
    return asyncio.run(_run(options, places))


async def _run(options: argparse.Namespace, places: Places) -> int:
    owner = current_owner(places.state)
    if owner is None:
        return await _carry_out(options, _File(places))
    try:
        async with asking(places.state) as link:
            return await _carry_out(options, link)
    except Unavailable as error:
        raise Unavailable(f"{owner.words} owns {places.state} and does not answer: stop it first") from error


async def _carry_out(options: argparse.Namespace, gateway: Any) -> int:  # noqa: ANN401 - either end has `request`
    found = cast("list[Row]", (await gateway.request("device.pair.list", {}))["paired"])
    if options.action == "list":
        _print(found, as_json=options.json)
        return 0
    chosen = found if options.all else [_named(found, options.device)]
    for row in chosen:
        await gateway.request("device.pair.remove", {"deviceId": row["deviceId"]})
    if options.json:
        print_json({"revoked": [row["deviceId"] for row in chosen]})
    else:
        names = ", ".join(_short(row) for row in chosen)
        write_line(f"revoked {counted(len(chosen), 'device')}{': ' if names else ''}{names}")
    return 0


class _File:
    """Answers as an owner would, where there is none."""

    def __init__(self, places: Places) -> None:
        from core.server.devices import Devices

        self._devices = Devices(places.state)

    async def request(self, method: str, params: Row) -> Row:
        """Do what the method of that name does."""
        from core.server.openclaw.devices import shown

        if method == "device.pair.list":
            paired = self._devices.paired()
            if self._devices.problem:
                raise Unavailable(f"nobody is paired: {self._devices.problem}")
            return {"paired": [shown(device) for device in paired]}
        await self._devices.revoke(str(params["deviceId"]))
        return {}


def _named(rows: Sequence[Row], word: str) -> Row:
    """Return the device that an id or its first letters mean; `NotFound` when none has it, `Invalid` when several."""
    found = [row for row in rows if word and str(row["deviceId"]).startswith(word.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        raise Invalid(f"{counted(len(found), 'device')} begin with {quoted(word)}: give more of the id")
    raise NotFound(f"no paired device has the id {quoted(word)}: `switchboard devices` lists them")


def _print(rows: Sequence[Row], *, as_json: bool) -> None:
    if as_json:
        print_json({"count": len(rows), "devices": rows})
    elif not rows:
        write_line("no device is paired: `switchboard connect URL` elsewhere pairs one with a gateway that serves here")
    else:
        now = SystemClock().now_ms()
        cells = [
            [
                _short(row),
                str(row["displayName"] or "-"),
                str(row["remoteIp"]),
                age(now - int(row["createdAtMs"])),
                age(now - max(int(token["lastUsedAtMs"]) for token in row["tokens"])),
                ", ".join(str(scope).removeprefix("operator.") for scope in row["scopes"]),
            ]
            for row in rows
        ]
        print_table(("ID", "NAME", "FROM", "PAIRED", "USED", "MAY"), cells)


def _short(row: Row) -> str:
    return str(row["deviceId"])[:SHORT]
