"""Importing, and looking at what came of it."""

from typing import Any, Final

from core.imports.importer import Progress, import_directory
from core.imports.report import ImportReport
from core.model.messages import Message
from core.model.sessions import Session
from core.store import messages, sessions
from core.store.database import Store
from tests.imports.folders import Newer, Older

MAIN: Final = "agent:main:main"


async def bring(store: Store, theirs: Older | Newer, **more: Any) -> ImportReport:
    """Import a state directory."""
    return await import_directory(store, theirs.path, Progress(), **more)


def found(store: Store, key: str = MAIN) -> Session:
    """Return a session that must be there."""
    session = sessions.by_key(store.db, key)
    assert session is not None
    return session


def said(store: Store, key: str = MAIN, transcript: str | None = None) -> list[Message]:
    """Return the messages of a transcript, of the current one if none is named."""
    session = found(store, key)
    return list(messages.page(store.db, session, transcript or session.session_id, limit=1000).messages)


def reasons(report: ImportReport) -> dict[str, int]:
    """Return why things were left out, and how many."""
    return {words: reason.count for words, reason in report.skipped.reasons.items()}
