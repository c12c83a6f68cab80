"""Open stores and rows in them, for tests below the runtime."""

import contextlib
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from core.clock import Clock, SystemClock
from core.model.messages import Draft, text_block, user_draft
from core.store import messages, sessions
from core.store.database import Store, Tx
from core.store.explain import DATABASE_NAME

ROOT = Path(__file__).parents[2]
NOBODY = 65534


@contextlib.asynccontextmanager
async def opened(directory: Path, clock: Clock | None = None) -> AsyncGenerator[Store]:
    """Open a store for writing, and close it at the end."""
    store = Store.open(directory, clock or SystemClock())
    store.start_writer(sessions.finish)
    try:
        yield store
    finally:
        store.close()


def other_connection(directory: Path) -> sqlite3.Connection:
    """Return a connection of its own, as another process would have it."""
    return sqlite3.connect(directory / DATABASE_NAME, isolation_level=None)


def create(tx: Tx, key: str, **more: Any) -> None:
    """Create a session under any key."""
    agent_id = key.split(":")[1] if key.startswith("agent:") else "main"
    sessions.create(tx, sessions.SessionInsert(key, agent_id, **more))


def say(tx: Tx, key: str, text: str) -> None:
    """Append a user message."""
    messages.append(tx, key, user_draft(text))


def tool_draft(text: str) -> Draft:
    """Return what a tool answered."""
    return Draft("toolResult", (text_block(text),), tool_call_id="c", tool_name="t")


def as_nobody(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process that has no rights beyond its own files.

    The code calls `drop_rights()` once it has imported what it needs (the interpreter itself may lie where only root
    can read), and sees the arguments as `sys.argv[1:]`.
    """
    return subprocess.run(
        [sys.executable, "-c", _DROP + textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )


_DROP = f"""
import os, sys
def drop_rights():
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid({NOBODY})
        os.setuid({NOBODY})
"""
