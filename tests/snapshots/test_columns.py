"""The columns of the session list are straight, whatever the names are made of (console#columns)."""

import re
from dataclasses import replace

import pytest
from rich.cells import cell_len

from core.model.access import OPERATOR
from core.model.sessions import SessionPatch
from tests.scenes.pictures import MEDIUM, NARROW, SCENES, WIDE, Stage, draw

NAMES = {
    "plain": "plain",
    "wide": "東京サポート",
    "emoji": "🚀 launch 🚀",
    "family": "👩‍👩‍👧 family",
    "rtl": "مرحبا بالعالم",
    "marks": "Zo\u0308e\u0301 Z\u0323",
    "long": "a very long name of a session that fits nowhere at all, not even here",
    "long wide": "非常に長い名前のセッションはどこにも収まりませんので切ります",
    "long marks": "e\u0301" * 60,
}


async def rename(stage: Stage) -> None:
    """Give sessions of one channel names of every kind."""
    runtime = stage.host.runtime
    for number, name in enumerate(NAMES.values()):
        key = f"agent:main:matrix:group:g{number}"
        await stage.day.ask(key, "Disk?")
        await runtime.patch(key, SessionPatch({"label": name}), OPERATOR)
    await stage.settle()
    await stage.go_to("agent:main:matrix:group:g0")


@pytest.mark.parametrize("size", [NARROW, MEDIUM, WIDE])
async def test_columns_stand_one_below_the_other(size: tuple[int, int]) -> None:
    picture = await draw(replace(SCENES["watch-80x24"], size=size, play=rename))
    rows = [line for line in picture.lines if " matrix " in line and line.lstrip(" ▌").startswith("·")]
    assert len(rows) == len(NAMES)
    starts = {cell_len(line[: line.index("matrix")]) for line in rows}
    ends = {cell_len(line[: re.search(r"\$\d+\.\d\d", line).end()]) for line in rows}  # type: ignore[union-attr] - all cost something
    assert len(starts) == 1
    assert len(ends) == 1
    assert sum("…" in line[: line.index("matrix")] for line in rows) >= 2
