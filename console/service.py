"""What this process answers others with, while it owns a state directory: over the network, or on the socket in it."""

import os
from collections import deque
from importlib.metadata import version
from pathlib import Path
from typing import Final

from console.log import LOG_NAME
from core.config.paths import Places
from core.config.redacted import redacted_config
from core.model.ids import new_id
from core.runtime.gateway import Runtime
from core.server.auth import Auth, Sites
from core.server.context import Facts, ServerContext

_TAIL_BYTES: Final = 262_144
"""Of the log, where its last lines are looked for."""


def server_context(
    runtime: Runtime, places: Places, auth: Auth, sites: Sites, *, insecure: bool = False
) -> ServerContext:
    """Return what a server over the runtime of this process works with; see `ServerContext`."""
    facts = Facts(
        version=version("switchboard-console"),
        boot_id=new_id(),
        started_at=runtime.now_ms(),
        state_dir=str(places.state),
        config_path=str(places.config),
        store_id=runtime.store_id,
        config=lambda: redacted_config(places),
        log_tail=lambda lines: _tail(places.state, lines),
    )
    return ServerContext(runtime, auth, facts, insecure=insecure, sites=sites)


def _tail(state: Path, lines: int) -> list[str]:
    try:
        with (state / LOG_NAME).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:  # there is no log yet
        return []
    return list(deque(text.splitlines(), maxlen=lines))
