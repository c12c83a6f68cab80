"""Bringing a state directory of OpenClaw in: what is new there is added here, everything else stays as it is.

A session is written as a whole or not at all. What was brought in before is known by the ids of its transcripts and
messages, so an import can be repeated; its label, policy and the like are taken over the first time only, and are the
operator's from then on.
"""

import asyncio
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from core.imports.find import AgentFolder, find_agents
from core.imports.report import ImportReport, Notes
from core.imports.source import Source, SourceSession
from core.imports.writing import Left, Stopped, Written, write_session
from core.model.errors import Invalid, SwitchboardError
from core.model.keys import GLOBAL, resolve
from core.store.database import Store, Tx

RESERVED: Final = "sessions under a key that is reserved here"
BAD_KEY: Final = "sessions under a key that cannot be one here"


@dataclass(slots=True)
class Progress:
    """How far an import is; written by the writer's thread, read by whoever shows it.

    Attributes:
        sessions: Of `total` that are done with.
        messages: Read so far, whether they were new or not.
    """

    total: int = 0
    sessions: int = 0
    messages: int = 0
    stop: threading.Event = field(default_factory=threading.Event)


async def import_directory(
    store: Store, directory: Path, progress: Progress, *, global_agent: str | None = None
) -> ImportReport:
    """Import every session of a state directory.

    Args:
        store: Open for writing.
        progress: Kept true while it runs; its `stop`, once set, ends the import before the next batch of messages.
        global_agent: `session.scope` is "global" here, and this is the default agent: there can be a session `global`.

    Raises:
        Invalid, NotFound, Unavailable: There is nothing to import from there; the sentence says why.
        CancelledError: It was stopped; whole sessions stay.
    """
    report = ImportReport(str(directory))
    agents = await asyncio.to_thread(find_agents, directory)
    for agent in agents:
        try:
            await _import_agent(store, agent, report, progress, global_agent=global_agent)
        except SwitchboardError as error:
            if len(agents) == 1:
                raise
            report.failed.append(error.message)
    return report


async def _import_agent(
    store: Store, agent: AgentFolder, report: ImportReport, progress: Progress, *, global_agent: str | None
) -> None:
    opened = agent.open()
    source = await asyncio.to_thread(opened.__enter__)
    try:
        report.agents.append(source.agent_id)
        report.skipped.take(source.notes)
        report.notices.extend(source.notices)
        progress.total += len(source.sessions)
        for session in source.sessions:
            key = _key(session, source, report.skipped, global_agent)
            if key is not None:
                await _import_session(store, key, session, report, progress)
            progress.sessions += 1
    finally:
        await asyncio.to_thread(opened.__exit__, None, None, None)


def _key(session: SourceSession, source: Source, notes: Notes, global_agent: str | None) -> str | None:
    """Return the key of a session as it is written here, None when it cannot have one."""
    key = session.facts.key
    if key == "unknown" or (key == GLOBAL and global_agent is None):
        notes.add(RESERVED, key)
        return None
    try:
        return resolve(key, source.agent_id, global_agent=global_agent)
    except Invalid as error:
        notes.add(BAD_KEY, error.message)
        return None


async def _import_session(
    store: Store, key: str, session: SourceSession, report: ImportReport, progress: Progress
) -> None:
    before = progress.messages

    def count(messages: int) -> None:
        if progress.stop.is_set():
            raise Stopped
        progress.messages = before + messages

    def write(tx: Tx) -> tuple[Written, Notes]:
        notes = Notes()
        return write_session(tx, key, session, notes, count), notes

    writing = asyncio.ensure_future(store.write(write))
    try:
        await asyncio.wait([writing])  # which goes on when this is cancelled
    except asyncio.CancelledError:
        progress.stop.set()
        await asyncio.wait([writing])  # it reads the source, which is closed after this
        if not writing.cancelled():
            writing.exception()
        raise
    try:
        written, notes = writing.result()
    except Stopped:
        raise asyncio.CancelledError from None
    except Left as left:
        report.skipped.add(left.message, key)
        return
    except SwitchboardError as error:
        report.failed.append(f"{key}: {error.message}")
        return
    report.skipped.take(notes)
    report.messages += written.messages
    report.transcripts += written.transcripts
    if written.new:
        report.imported += 1
    elif written.messages or written.transcripts:
        report.extended += 1
    else:
        report.unchanged += 1
