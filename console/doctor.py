"""`switchboard doctor`: what was found, where each value came from, and what to do about what is wrong."""

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal

from console.output import print_json, print_text
from core.config.load import load
from core.config.paths import Places
from core.config.settings import NO_MODEL_HINT, Settings
from core.model.access import ALL
from core.model.clock import SystemClock
from core.model.errors import SwitchboardError
from core.model.sessions import SessionQuery
from core.store import sessions
from core.store.database import MIGRATIONS, Store
from core.store.lock import current_owner

Verdict = Literal["ok", "note", "wrong"]
SIGNS = {"ok": "✓", "note": "!", "wrong": "×"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        advice: What to do; empty when nothing needs doing.
    """

    topic: str
    verdict: Verdict
    words: str
    advice: str = ""


def examine(places: Places, *, as_json: bool) -> int:
    """Print what was found; return 1 when something is wrong."""
    findings = [*_program(), *_configuration(places), *_state(places), *_terminal()]
    wrong = any(finding.verdict == "wrong" for finding in findings)
    if as_json:
        rows = [{"topic": f.topic, "verdict": f.verdict, "found": f.words, "advice": f.advice} for f in findings]
        print_json({"ok": not wrong, "findings": rows})
        return int(wrong)
    for finding in findings:
        print_text(f"{SIGNS[finding.verdict]} {finding.topic:<14} {finding.words}")
        if finding.advice:
            print_text(f"  {'':<14} → {finding.advice}")
    return int(wrong)


def _program() -> Iterator[Finding]:
    yield Finding("switchboard", "ok", f"{version('switchboard-console')}, schema {len(MIGRATIONS)}")
    libraries = f"Python {platform.python_version()}, Textual {version('textual')}, SQLite {sqlite3.sqlite_version}"
    old = sqlite3.sqlite_version_info < (3, 40)
    yield Finding("libraries", "wrong" if old else "ok", libraries, "SQLite 3.40 or newer is needed" if old else "")


def _configuration(places: Places) -> Iterator[Finding]:
    found = "found" if places.config.exists() else "not there, defaults are used"
    yield Finding("configuration", "ok", f"{places.config} ({places.config_origin}): {found}")
    try:
        settings = load(places)
    except SwitchboardError as error:
        yield Finding("", "wrong", error.message, "mend the file; nothing runs before that")
        return
    for notice in settings.notices:
        yield Finding("", "note", notice)
    for setting, value, origin in settings.origins:
        yield Finding(setting, "ok", f"{value} ({origin})")
    agents = ", ".join(f"{agent.agent_id} ({agent.model})" for agent in settings.agents.values())
    yield Finding("agents", "ok", agents)
    yield from _models(settings)
    policy = settings.rules.send_policy
    yield Finding("send policy", "ok", f"{len(policy.rules)} rules, default {policy.default}")
    yield Finding("visibility", "ok", settings.rules.visibility.visibility)


def _models(settings: Settings) -> Iterator[Finding]:
    if not settings.has_model:
        yield Finding("model", "note", "none", NO_MODEL_HINT)
    for model in settings.models.values():
        where = f"{model.ref} at {model.base_url} ({model.api})"
        if model.api_key is None:
            yield Finding("model", "ok", f"{where}, without a key")
            continue
        try:
            model.api_key.reveal()
        except SwitchboardError as error:
            yield Finding("model", "wrong", where, error.message)
        else:
            yield Finding("model", "ok", f"{where}, key from {model.api_key.words}")


def _state(places: Places) -> Iterator[Finding]:
    try:
        store = Store.open(places.state, SystemClock())
    except SwitchboardError as error:
        yield Finding("state", "wrong", error.message)
        return
    try:
        count = len(sessions.select(store.db, SessionQuery(archived=None), ALL).sessions)
        check = str(store.db.execute("PRAGMA quick_check").fetchone()[0])
    finally:
        store.close()
    yield Finding("state", "ok", f"{places.state} ({places.state_origin}): {count} sessions")
    if check != "ok":
        yield Finding("", "wrong", f"the database is damaged: {check}", "restore a copy, or move it away to start anew")
    mode = places.state.stat().st_mode & 0o077
    if mode:
        yield Finding("", "note", "others can look into the state directory", f"chmod 700 {places.state}")
    free = shutil.disk_usage(places.state).free
    low = free < 100_000_000
    yield Finding("disk", "wrong" if low else "ok", f"{free // 1_000_000:,} MB free", "free some space" if low else "")
    owner = current_owner(places.state)
    yield Finding("owner", "ok", owner.words if owner is not None else "nobody; the next console runs what is queued")


def _terminal() -> Iterator[Finding]:
    encoding = (sys.stdout.encoding or "").lower()
    term = os.environ.get("TERM", "")
    if "utf" not in encoding:
        yield Finding("terminal", "note", f"{term}, {encoding}", "set a UTF-8 locale such as LANG=C.UTF-8")
    elif term in {"", "dumb"}:
        yield Finding("terminal", "note", f"TERM is {term or 'not set'}", "the console needs a terminal")
    else:
        colours = "no colours (NO_COLOR)" if os.environ.get("NO_COLOR") else os.environ.get("COLORTERM", "256 colours")
        yield Finding("terminal", "ok", f"{term}, {encoding}, {colours}")
