"""`switchboard import DIR`: bring the sessions of an OpenClaw state directory in."""

import argparse
import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Final

from console.cli.one_shot import Stop
from console.cli.output import LONGEST_SENTENCE, print_error, print_json, print_line, print_progress, write_line
from console.live.text.clean import clean_line
from core.clock import SystemClock
from core.config.load import load
from core.config.paths import Places, absolute
from core.imports.importer import Progress, import_directory
from core.imports.report import ImportReport
from core.store import sessions
from core.store.database import Store
from core.store.lock import OwnerLock

FIRST_SECONDS: Final = 0.2
TELL_SECONDS: Final = 1.0
"""Between two lines that tell how far it is; the first one comes sooner, and not at all for a small import."""


def run_import(options: argparse.Namespace, places: Places) -> int:
    """Import what DIR holds, print what came of it, return the exit code; `SwitchboardError`: nothing was imported."""
    return asyncio.run(_run(options, places))


async def _run(options: argparse.Namespace, places: Places) -> int:
    settings = load(places)
    progress, stop = Progress(), Stop()
    clock = SystemClock()
    with contextlib.ExitStack() as stack:  # owns the state directory without running any work that waits in it
        store = stack.enter_context(contextlib.closing(Store.open(places.state, clock)))
        lock = OwnerLock.acquire(places.state, "import", clock.now_ms())
        stack.callback(lock.release)
        stack.callback(store.close)  # before the lock is given up
        store.start_writer(sessions.finish)
        telling = asyncio.create_task(_tell(progress))
        try:
            directory = absolute(Path(options.directory))
            report = await import_directory(store, directory, progress, global_agent=settings.rules.global_agent)
        except asyncio.CancelledError:
            sentence = (
                f"stopped by {signal.Signals(stop.number).name} after {progress.sessions} of {progress.total} sessions;"
                " the same command goes on from there"
            )
            if options.json:
                print_json({"status": "error", "code": "interrupted", "error": sentence})
            else:
                print_error(sentence)
            return 128 + stop.number
        finally:
            telling.cancel()
    strangers = sorted({agent for agent in report.agents if agent not in settings.agents})
    if strangers:
        names = ", ".join(strangers)
        report.notices.append(f"not configured here, so nothing runs in their sessions until they are: agents {names}")
    if options.json:
        print_json(report.as_json())
    else:
        _print(report)
    return 1 if report.failed else 0


async def _tell(progress: Progress) -> None:
    """Tell on stderr how far it is, as long as it takes."""
    pause = FIRST_SECONDS
    while True:
        await asyncio.sleep(pause)
        if progress.total:
            pause = TELL_SECONDS
            print_progress(f"{progress.sessions:,} of {progress.total:,} sessions, {progress.messages:,} messages")


def _print(report: ImportReport) -> None:
    print_line(f"from {report.directory}")
    counts = {"new": report.imported, "with new messages": report.extended, "unchanged": report.unchanged}
    for words, count in counts.items():
        write_line(f"{count:>9,}  sessions {words}")
    write_line(f"{report.messages:>9,}  messages written, of {report.transcripts:,} new transcripts")
    for words, reason in report.skipped.reasons.items():
        examples = ", ".join(reason.examples) + (", …" if reason.count > len(reason.examples) else "")
        write_line(f"{reason.count:>9,}  " + clean_line(f"left out: {words} ({examples})", LONGEST_SENTENCE))
    for notice in report.notices:
        print_line(f"note: {notice}")
    for sentence in report.failed:
        print_error(sentence)
