"""What files refer to in the documents is there, and so is every file that the documents name."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spec import ROWS

ROOT = Path(__file__).parents[2]
DOCS = {name: ROOT / "docs" / f"{name}.md" for name in ("architecture", "protocol", "console")}
TEXTS = sorted([*ROOT.glob("docs/*.md"), *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING"))])
FILES = sorted(
    [
        *TEXTS,
        *(
            path
            for top in ("core", "console", "tests")
            for end in ("py", "sql")
            for path in ROOT.glob(f"{top}/**/*.{end}")
        ),
    ]
)
REFERENCE = re.compile(r"\b(architecture|protocol|console|requirements)#([\w-]+)")
ROW = re.compile(r"\b([A-Z])(\d{1,2})(?:[-–]([A-Z]?)(\d{1,2}))?\b")
BUDGETS = frozenset(re.findall(r'<a id="(B\d+)"></a>', DOCS["architecture"].read_text(encoding="utf-8")))
KNOWN = frozenset(ROWS) | BUDGETS
LETTERS = frozenset(row[0] for row in KNOWN)
ELSEWHERE = re.compile(r"\b(?:DESIGN \d|PROTOCOL [IVX]+\b|LOOK(?: \d|\)|\b(?=:))|SESSION-TOOLS)")
"""How documents were named that are not here."""


def headings(text: str) -> set[str]:
    """Return the anchors of a document's headings."""
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in found}


def rows(text: str) -> Iterator[str]:
    """Return every id of a requirement or a budget that a text names, and both ends of every range."""
    for letter, first, other, last in ROW.findall(text):
        if letter in LETTERS:
            yield f"{letter}{first}"
            if last:
                yield f"{other or letter}{last}"


def test_there_is_something_to_check() -> None:
    assert len(FILES) > 300
    assert len(BUDGETS) == 13
    assert sum(len(REFERENCE.findall(path.read_text(encoding="utf-8"))) for path in FILES) > 90


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_reference_resolves(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    known = {name: headings(document.read_text(encoding="utf-8")) for name, document in DOCS.items()}
    lost = [f"{name}#{heading}" for name, heading in REFERENCE.findall(text) if heading not in known.get(name, ())]
    assert lost == []
    assert [row for row in rows(text) if row not in KNOWN] == []
    if path != Path(__file__):
        assert ELSEWHERE.findall(text) == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_every_path_in_a_document_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:core|console|tests|docs|screenshots|\.ci)/[^\s`<>*]*)`", text))
    named |= {f"{path.parent.relative_to(ROOT)}/{link}" for link in re.findall(r"\]\(([^)#:]+)\)", text)}
    named |= {module.replace(".", "/") for module in re.findall(r"-m (tests[\w.]*)", text)}
    assert [name for name in sorted(named) if not any((ROOT / f"{name}{end}").exists() for end in ("", ".py"))] == []


def test_the_architecture_names_the_files_of_every_part() -> None:
    text = DOCS["architecture"].read_text(encoding="utf-8")
    parts = [path.parent for path in ROOT.glob("core/*/__init__.py")] + [
        path.parent for path in ROOT.glob("console/*/__init__.py")
    ]
    assert [str(part.relative_to(ROOT)) for part in parts if f"{part.relative_to(ROOT)}" not in text] == []
