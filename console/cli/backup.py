"""`switchboard backup FILE` and `switchboard restore FILE`."""

import argparse
import time
from importlib.metadata import version
from pathlib import Path

from console.cli.output import print_json, print_line
from console.live.text.words import counted
from core.clock import SystemClock
from core.config.paths import Places, absolute
from core.store.maintenance.backup import LEFT_OUT, Backup, create


def run_backup(options: argparse.Namespace, places: Places) -> int:
    """Back the state directory up and return 0; `SwitchboardError`: it is empty, or the file cannot be written."""
    target = absolute(Path(options.file))
    made = create(places.state, target, version=version("switchboard-console"), now_ms=SystemClock().now_ms())
    if options.json:
        print_json(made.as_json())
        return 0
    print_line(f"{made.path}: {_held(made)}, {made.bytes:,} bytes, verified")
    print_line(f"sha256 {made.sha256}")
    print_line(f"not in it: {LEFT_OUT}")
    return 0


def run_restore(options: argparse.Namespace, places: Places) -> int:
    """Make the state directory what a backup holds and return 0; after a `SwitchboardError` nothing was changed."""
    from core.store.maintenance.restore import restore

    done = restore(absolute(Path(options.file)), places.state, SystemClock(), force=options.force)
    if options.json:
        old = str(done.old) if done.old is not None else None
        print_json(done.backup.as_json() | {"stateDir": str(places.state), "oldStateDir": old})
        return 0
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(done.backup.created_at / 1000))
    print_line(f"{places.state}: {_held(done.backup)}, as of {when}")
    if done.old is not None:
        print_line(f"what was there before is {done.old}: remove it when you do not need it")
    return 0


def _held(backup: Backup) -> str:
    return f"{counted(backup.sessions, 'session')}, {counted(backup.messages, 'message')}"
