"""The schema of the database, and the way there from every older one."""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from core.model.errors import Unavailable
from core.store.explain import DAMAGED
from core.store.maintenance.repair import NUMBERED, renumber

MIGRATIONS: Final = ("schema.sql", "exchanges.sql", "gone.sql", "global.sql", "unique.sql", "overrides.sql")
"""Scripts beside this file; the n-th leads from schema version n to n + 1."""
_TABLES: Final = NUMBERED.keys() | {"session_names", "transcripts", "message_words", "meta", "spent_runs", "overrides"}
_WAL_PRAGMAS: Final = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"


def migrate(db: sqlite3.Connection, directory: Path, scripts: Sequence[str] = MIGRATIONS) -> None:
    """Bring a database to the newest schema, each step in its own transaction; `Unavailable` for a newer one."""
    while (version := schema_version(db)) != len(scripts):
        if version > len(scripts):
            raise Unavailable(
                f"the state directory {directory} was written by a newer version (schema {version}, this one knows"
                f" {len(scripts)}): upgrade switchboard, or choose another with --state DIR"
            )
        if version == 0:
            db.executescript(_WAL_PRAGMAS)
        with db:
            db.execute("BEGIN IMMEDIATE")
            if schema_version(db) == version:  # another process may have done it while this one waited
                if scripts[version] == "unique.sql":
                    renumber(db)
                for statement in statements(scripts[version]):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {version + 1}")


def check_tables(db: sqlite3.Connection, directory: Path) -> None:
    """Refuse a database in which a table is missing: it is damaged (`Unavailable`)."""
    found = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not found >= _TABLES:
        raise Unavailable(f"the state directory {directory} {DAMAGED}")


def schema_version(db: sqlite3.Connection) -> int:
    """Return the schema version of a database, 0 for an empty one."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def statements(script: str) -> Iterator[str]:
    """Yield the statements of a script beside this file; `executescript` would commit the transaction around it."""
    statement = ""
    for line in (Path(__file__).parent / script).read_text(encoding="utf-8").splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
