"""`switchboard demo`: a lively scene on a temporary state, played by the builtin agent through the same calls that
anybody can make. It ends with the console and leaves nothing behind."""

import asyncio
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from console.hosts.host import Host
from core.config.paths import Places
from core.gateway import Gateway
from core.model import json_codec
from core.model.access import Operator
from core.model.errors import SwitchboardError

OPS: Final = "agent:main:discord:group:ops"
DESIGN: Final = "agent:main:discord:channel:design"
SUPPORT: Final = "agent:main:telegram:direct:42"
FAMILY: Final = "agent:main:whatsapp:group:family"

CONFIG: Final[dict[str, Any]] = {
    "session": {
        "sendPolicy": {"rules": [{"action": "deny", "match": {"channel": "discord", "chatType": "channel"}}]},
    },
    "tools": {"sessions": {"visibility": "all"}},
    "agents": {
        "list": [
            {"id": "main", "default": True, "subagents": {"allowAgents": ["helper"]}},
            {"id": "helper", "name": "helper"},
        ],
    },
}

OPENING: Final[tuple[tuple[str, str], ...]] = (
    ("main", "show markdown"),
    (OPS, "/label ops"),
    (SUPPORT, "/label support-42"),
    (DESIGN, "/label design"),
    (FAMILY, "say See you on Sunday at six."),
    (FAMILY, "/label family"),
    (FAMILY, "/send off"),
    ("node-laptop", "say Battery at 81 %, two updates are waiting."),
    ("hook:deploy", "fail: the deployment refused the build, its checks are red"),
    ("cron:nightly", "list sessions"),
    (SUPPORT, "be slow 40"),
    ("main", "spawn: be slow 25"),
    ("main", "spawn: think about the prices in two regions"),
    ("main", "spawn: fail: the source is offline"),
    (OPS, "think about which region comes first, eu or us"),
    ("node-laptop", f"send to {OPS}: say eu is nearer to your users, us is cheaper"),
)
"""What is said first, to whom; all of it is there within five seconds."""

GOING_ON: Final[tuple[tuple[str, str], ...]] = (
    ("node-laptop", "send to main: say the updates can wait until tonight"),
    (SUPPORT, "be slow 20"),
    ("cron:nightly", "read main"),
    ("main", "spawn: be slow 12"),
    (OPS, "show markdown"),
    ("node-laptop", "think about what changed since yesterday"),
)
"""What is said after that, over and over, one every few seconds."""
PAUSE_SECONDS: Final = 6.0


@contextmanager
def open_demo() -> Generator[Host]:
    """Open a host on a temporary state, which is gone afterwards; `play` plays the demo on it."""
    with tempfile.TemporaryDirectory(prefix="switchboard-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        config = folder / "config.json5"
        config.write_text(json_codec.encode(CONFIG), encoding="utf-8")
        places = Places(folder / "state", config, "demo", "demo", config_required=True)
        yield Host(places)


async def play(host: Host) -> None:
    """Play the scene until the console is closed."""
    for key, message in OPENING:
        await say(host.runtime, key, message)
    for key, message in cycle(GOING_ON):
        await asyncio.sleep(PAUSE_SECONDS)
        await say(host.runtime, key, message)


async def say(gateway: Gateway, key: str, message: str) -> None:
    """Send a message without waiting; what the scene is refused is part of the scene."""
    from core.tools.dispatch import dispatch

    arguments = {"sessionKey": key, "message": message, "timeoutSeconds": 0}
    try:
        await dispatch(gateway, Operator(), "sessions_send", arguments)
    except SwitchboardError:
        return
