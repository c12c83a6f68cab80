"""`switchboard doctor`: what was found, where each value came from, and what to do about what is wrong."""

import os
import platform
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import metadata, version
from typing import Final

from console.cli.doctor_state import Finding, Verdict, examine_access, examine_state
from console.cli.output import LONGEST_SENTENCE, draws_unicode, print_json, write_line
from console.live.text.clean import clean_line
from console.preferences import check
from core.config.gateways import LOCAL, shown_url
from core.config.load import load
from core.config.paths import Places
from core.config.settings import NO_MODEL_HINT, Settings
from core.model.errors import SwitchboardError
from core.store.schema import MIGRATIONS

SIGNS: Final[Mapping[Verdict, str]] = {"ok": "✓", "note": "!", "wrong": "×"}
ASCII_SIGNS: Final[Mapping[Verdict, str]] = {"ok": "+", "note": "!", "wrong": "x"}


def examine(places: Places, gateways: str | None, *, as_json: bool) -> int:
    """Look here and at the gateways that `--gateway` names; print what was found, return 1 when something is wrong."""
    reached = _gateways(places, gateways) if gateways is not None else ()
    findings = [*_program(), *_configuration(places), *examine_state(places), *reached, *_terminal()]
    wrong = any(finding.verdict == "wrong" for finding in findings)
    if as_json:
        rows = [{"topic": f.topic, "verdict": f.verdict, "found": f.words, "advice": f.advice} for f in findings]
        print_json({"ok": not wrong, "findings": rows})
        return int(wrong)
    signs, arrow = (SIGNS, "→") if draws_unicode() else (ASCII_SIGNS, "->")
    width = max(len(finding.topic) for finding in findings)
    before = ""
    for finding in findings:
        topic, before = "" if finding.topic == before else finding.topic, finding.topic
        lines = [f"{signs[finding.verdict]} {topic:<{width}}  ", f"  {'':<{width}}  {arrow} "]
        for line, words in zip(lines, (finding.words, finding.advice), strict=True):
            if words:
                write_line(line + clean_line(words, LONGEST_SENTENCE))
    return int(wrong)


def _program() -> Iterator[Finding]:
    yield Finding("switchboard", "ok", f"{version('switchboard-console')}, schema {len(MIGRATIONS)}")
    libraries = f"Python {platform.python_version()}, Textual {version('textual')}, SQLite {sqlite3.sqlite_version}"
    old = sqlite3.sqlite_version_info < (3, 40)
    yield Finding("libraries", "wrong" if old else "ok", libraries, "SQLite 3.40 or newer is needed" if old else "")
    tested = [line.rpartition(" ")[2] for line in metadata("switchboard-console").get_all("Classifier") or ()]
    if tested and "{}.{}".format(*sys.version_info) not in tested:
        words = f"Python {platform.python_version()} was never tested with it"
        yield Finding("libraries", "note", words, f"use one of {', '.join(each for each in tested if '.' in each)}")


def _configuration(places: Places) -> Iterator[Finding]:
    found = "found" if os.access(places.config, os.F_OK) else "not there, defaults are used"
    yield Finding("configuration", "ok", f"{places.config} ({places.config_origin}): {found}")
    try:
        settings = load(places)
    except SwitchboardError as error:
        yield Finding("configuration", "wrong", error.message, "mend the file; nothing runs before that")
        return
    for notice in settings.notices:
        yield Finding("configuration", "note", notice)
    for problem in check(settings.console).problems:
        yield Finding("configuration", "wrong", problem, "mend the file; the console goes without it")
    for setting, value, origin in settings.origins:
        yield Finding(setting, "ok", f"{value} ({origin})")
    agents = ", ".join(f"{agent.agent_id} ({agent.model})" for agent in settings.agents.values())
    yield Finding("agents", "ok", agents)
    yield from _models(settings)
    policy = settings.rules.send_policy
    yield Finding("send policy", "ok", f"{len(policy.rules)} rules, default {policy.default}")
    yield Finding("visibility", "ok", settings.rules.visibility.visibility)
    yield from examine_access(places, settings)


def _models(settings: Settings) -> Iterator[Finding]:
    if not settings.has_model:
        yield Finding("model", "note", "none", NO_MODEL_HINT)
    for model in settings.models.values():
        where = f"{model.ref} at {shown_url(model.base_url)} ({model.api})"
        if model.api_key is None:
            yield Finding("model", "ok", f"{where}, without a key")
            continue
        try:
            model.api_key.reveal()
        except SwitchboardError as error:
            yield Finding("model", "wrong", where, error.message)
        else:
            yield Finding("model", "ok", f"{where}, key from {model.api_key.words}")


def _gateways(places: Places, gateways: str) -> Iterator[Finding]:
    """Connect to gateways, and tell what they say of themselves."""
    import asyncio

    from console.cli.connect import look
    from console.profiles import Profiles, split_names

    try:
        profiles = Profiles(load(places).gateways, places.state)
        chosen = [profiles.find(name) for name in split_names(gateways) if name != LOCAL]
    except SwitchboardError as error:
        yield Finding("gateway", "wrong", error.message)
        return
    for gateway in chosen:
        where = f"{gateway.name} at {shown_url(gateway.url)}"
        try:
            found = asyncio.run(look(gateway, profiles))
        except SwitchboardError as error:
            yield Finding("gateway", "wrong", where, error.message)
        else:
            allowed = ", ".join(found.scopes)
            yield Finding("gateway", "ok", f"{where}: {found.version}, {found.latency_ms:.0f} ms, allows {allowed}")


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
