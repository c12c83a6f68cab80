"""Reads the configuration file and explains what is wrong with it: file, line, path, value, what was expected."""

import contextlib
import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import pyjson5
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from core.config.build import Misfit, build
from core.config.gateways import shown_url
from core.config.names import PathInFile, dotted
from core.config.paths import Places
from core.config.schema import CLOSED, OTHERS_NAMES, ConfigFile, fields
from core.config.settings import Settings
from core.files import folder_problem
from core.model.errors import Invalid
from core.model.keys import quoted

_Extra = tuple[type[BaseModel], PathInFile, str]
"""A section, where it stands, and a name in it that is not ours."""
_NEAR: Final = 0.8
_SECRET_FIELDS: Final = frozenset({"apiKey", "token", "readOnlyToken", "literal"})


def load(places: Places, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the configuration and the environment into settings.

    `Invalid` when others may write the file, or it is missing though it was named, cannot be read or parsed, or holds a
    wrong value or a name that nearly is one of ours.
    """
    with contextlib.suppress(OSError):  # there is no such folder
        # root may own it, and the folder for everybody's temporary files hold it
        if problem := folder_problem(places.config.parent, trusted=frozenset({0})):
            raise Invalid(f"the configuration is not safe: {problem}")
    text = _read(places)
    if text is None:
        return build(ConfigFile(), environment, notices=[], config=None)
    data = _parse(text, places.config)
    try:
        parsed = ConfigFile.model_validate(data)
    except ValidationError as error:
        raise _explain(error, text, places.config) from None
    notices = _unknown_names(parsed, text, places.config)
    try:
        return build(parsed, environment, notices=notices, config=places.config)
    except Misfit as error:
        raise Invalid(f"{_place(text, places.config, error.path)} {error.problem}") from None


def _read(places: Places) -> str | None:
    try:
        return places.config.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        if places.config_required:
            raise Invalid(f"the configuration {places.config} does not exist: check --config") from None
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Invalid(f"the configuration {places.config} cannot be read: {reason}") from error


def _parse(text: str, file: Path) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        data: object = pyjson5.loads(text)
    except pyjson5.Json5NestingTooDeep:
        raise Invalid(f"{file} is nested too deeply to be a configuration") from None
    except pyjson5.Json5Exception as error:
        raise Invalid(f"{file} {_syntax_problem(str(error.args[0]), text)}") from None
    if not isinstance(data, dict):
        raise Invalid(f"{file} must hold one object: start it with {{ and end it with }}")
    return cast("dict[str, Any]", data)


def _syntax_problem(said: str, text: str) -> str:
    """Turn the parser's words, which give an offset, into a line and what stands there."""
    offset = re.search(r"near (\d+)", said)
    at = min(int(offset.group(1)), len(text)) - 1 if offset else 0
    line = text.count("\n", 0, max(at, 0)) + 1
    if said.startswith("Unclosed"):
        what = said.split("'")[1] if "'" in said else "value"
        return f"line {line}: the {what} that starts here is never closed"
    found = text[at] if 0 <= at < len(text) else ""
    where = f"at {quoted(found)}" if found.strip() else "here"
    return f"line {line}: this is not valid JSON5 {where}: check the commas, quotes and brackets before it"


def _explain(error: ValidationError, text: str, file: Path) -> Invalid:
    """Say the first problem in one sentence, and how many more there are."""
    problems = error.errors(include_url=False)
    first = problems[0]
    path = tuple(part for part in first["loc"] if part != "[key]")
    place = _place(text, file, path)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    if first["type"] == "missing":
        return Invalid(f"{place} is missing{more}")
    value = "…" if _may_be_secret(path) else _shown(first["input"])
    return Invalid(f"{place} is {value}: {_expected(first)}{more}")


def _may_be_secret(path: PathInFile) -> bool:
    """Whether a value must not be repeated: a key, or what stands where an object should and may be one."""
    instead = (path[:2] == ("models", "providers") and len(path) == 3) or (path[:1] == ("gateways",) and len(path) == 2)
    return instead or not _SECRET_FIELDS.isdisjoint(path)


def _expected(problem: ErrorDetails) -> str:
    context = problem.get("ctx", {})
    if problem["type"] == "literal_error":
        expected = str(context.get("expected", "")).replace("'", '"')
        nearest = difflib.get_close_matches(str(problem["input"]), re.findall(r'"([^"]+)"', expected), 1, 0.6)
        return f"expected {expected}" + (f"; did you mean {quoted(nearest[0])}?" if nearest else "")
    if problem["loc"] and problem["loc"][-1] in {"workspace", "ca"} and problem["type"] == "string_pattern_mismatch":
        return f"expected a {'file' if problem['loc'][-1] == 'ca' else 'folder'} that begins with / or ~/"
    if problem["type"] == "string_pattern_mismatch":
        return "expected letters, digits, - and _, at most 64 of them"
    if problem["loc"] and problem["loc"][-1] == "baseUrl":
        return "expected an address that starts with http:// or https://"
    words = {
        "int_type": "expected a whole number",
        "bool_type": "expected true or false",
        "string_type": "expected text in quotes",
        "list_type": "expected a list: [ … ]",
        "dict_type": "expected an object: { … }",
        "model_type": "expected an object: { … }",
        "greater_than_equal": f"expected {context.get('ge')} or more",
        "less_than_equal": f"expected {context.get('le')} or less",
    }
    return words.get(problem["type"], problem["msg"].replace("Input should", "it should"))


def _unknown_names(parsed: ConfigFile, text: str, file: Path) -> list[str]:
    """Refuse names that nearly are ours, and name those that mean nothing here once."""
    ignored: list[str] = []
    for section, path, name in _extras(parsed, ()):
        known = list(fields(section))
        near = [] if name in OTHERS_NAMES else difflib.get_close_matches(name, known, 1, _NEAR)
        near = near or [k for k in known if k.lower() == name.lower()]
        if near or section in CLOSED:
            hint = f"did you mean {quoted(near[0])}?" if near else f"use any of {', '.join(known)}"
            raise Invalid(f"{_place(text, file, (*path, name))} is not known; {hint}")
        ignored.append(dotted((*path, name)))
    if not ignored:
        return []
    shown = ", ".join(ignored[:8]) + (f" and {len(ignored) - 8} more" if len(ignored) > 8 else "")
    return [f"{file.name}: ignored, as it means nothing here: {shown}"]


def _extras(value: object, path: PathInFile) -> Iterator[_Extra]:
    """Find the names that a section and those in it do not know."""
    if isinstance(value, BaseModel):
        yield from ((type(value), path, name) for name in value.model_extra or {})
        inner = [(str(info.alias or name), getattr(value, name)) for name, info in type(value).model_fields.items()]
    elif isinstance(value, list):
        inner = list(enumerate(cast("list[object]", value)))
    else:
        inner = list(cast("dict[str, object]", value).items()) if isinstance(value, dict) else []
    for part, item in inner:
        yield from _extras(item, (*path, part))


def _place(text: str, file: Path, path: PathInFile) -> str:
    line = _line_of(text, path)
    return f"{file}{f' line {line}' if line else ''}: {dotted(path)}"


def _line_of(text: str, path: PathInFile) -> int | None:
    """Return the line of a value; parsed again with positions, which only an error is worth (70 ms)."""
    from json5.loader import ModelLoader, loads
    from json5.utils import JSON5DecodeError

    try:
        node: Any = loads(text, loader=ModelLoader()).value
    except JSON5DecodeError:  # this parser knows a few forms less than the one that read the file
        return None
    line = int(node.lineno or 1)
    for part in path:
        names = [getattr(key, "name", getattr(key, "characters", None)) for key in getattr(node, "keys", [])]
        values = cast("list[Any]", getattr(node, "values", []))
        if isinstance(part, str) and part in names:
            at = len(names) - 1 - names[::-1].index(part)
            line = int(node.keys[at].lineno or line)
            node = values[at]
        elif isinstance(part, int) and part < len(values):
            node = values[part]
            line = int(node.lineno or line)
        else:
            break
    return line


def _shown(value: object) -> str:
    if isinstance(value, str):
        return quoted(shown_url(value) if "://" in value else value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | float):
        return str(value)
    return "a list" if isinstance(value, list) else "an object"
