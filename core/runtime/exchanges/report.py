"""What a sub-agent reports in its own words, read as the parts that a requester is told (W6).

    Status: done
    Result: three flags, all of them off
    Notes: one host did not answer

Such a reply is read forgivingly: in any case and order, as a list or in bold, with words before it. Nothing that it
says is lost: what is no part of such a form is the result.
"""

import re
from dataclasses import dataclass
from typing import Final, cast

_LABEL: Final = re.compile(
    r"[ \t]*(?:[-*+>][ \t]+|\#{1,6}[ \t]+)?(?P<bold>[*_]{0,3})(?P<name>status|result|notes?)"
    r"(?:(?P=bold)[ \t]*[:\uff1a]|[ \t]*[:\uff1a](?P=bold))[ \t]*(?P<words>.*)",
    re.IGNORECASE | re.DOTALL,
)
_FENCE: Final = re.compile(r"[ \t]{0,3}(```|~~~)")


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The parts of a reply; each without space around it, and empty where the reply has none.

    `status` is what the model says of its success; how the run ended is another thing.
    """

    result: str
    status: str = ""
    notes: str = ""


def read_report(text: str) -> TaskReport:
    """Return the parts of a reply; one without such a form is all result."""
    lines = text.splitlines(keepends=True)
    labels = _labels(lines)
    is_form = {"status", "result"} <= set(labels.values()) or _first_line(lines) in labels
    if not is_form:
        labels = {place: label for place, label in labels.items() if label == "notes"}
    parts: dict[str, str] = {"status": "", "result": "", "notes": ""}
    part = "result"
    for place, line in enumerate(lines):
        label = labels.get(place)
        if label is None:
            parts[part] += line
            continue
        parts[label] += line[cast("re.Match[str]", _LABEL.match(line)).start("words") :]
        part = "result" if label == "status" else label  # a status is one line
    return TaskReport(parts["result"].strip(), parts["status"].strip(), parts["notes"].strip())


def _labels(lines: list[str]) -> dict[int, str]:
    """Return which lines begin which part: the first of each, and none in a block of code."""
    found: dict[str, int] = {}
    fence = ""
    for place, line in enumerate(lines):
        mark = _FENCE.match(line)
        if mark is not None:
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence and (label := _LABEL.match(line)) is not None:
            name = label["name"].lower()
            found.setdefault("notes" if name.startswith("note") else name, place)
    return {place: label for label, place in found.items()}


def _first_line(lines: list[str]) -> int | None:
    return next((place for place, line in enumerate(lines) if line.strip()), None)
