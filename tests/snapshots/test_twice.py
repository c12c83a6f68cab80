"""The same scene local and remote: line for line the same, but for the connection line (architecture#port)."""

from collections.abc import Awaitable, Callable

import pytest

from tests.scenes.pictures import MEDIUM, NARROW, WIDE, Stage, text_of
from tests.scenes.script import DESIGN, MAIN, OPS, SUPPORT, TOKYO
from tests.scenes.twice import NAME, Both, both
from tests.support.runtimes import until

Play = Callable[[Stage], Awaitable[None]]
Situation = tuple[Play, str, tuple[str, ...]]
"""What is done, words that then stand there, and the keys that lead back."""


async def _list(stage: Stage) -> None:
    await stage.go_to(OPS)  # where the cursor began, and what was read then, depends on when the console began
    await stage.go_to(SUPPORT)


async def _tools(stage: Stage) -> None:
    await stage.go_to(OPS)
    await stage.press("enter", "k", "k", "k", "enter")


async def _exchange(stage: Stage) -> None:
    await stage.go_to(MAIN)
    await stage.press("enter")


async def _announced(stage: Stage) -> None:
    await stage.go_to(TOKYO)
    await stage.press("enter", "k", "k", "enter", "G")


async def _spawns(stage: Stage) -> None:
    await stage.go_to(OPS)
    await stage.press("t")


async def _send(stage: Stage) -> None:
    await stage.go_to(OPS)
    await stage.press("s")
    await stage.paste("Which of the three branches can go?")


async def _spawn(stage: Stage) -> None:
    await stage.go_to(OPS)
    await stage.press("n")
    await stage.paste("Find a cheaper region in Asia.")


async def _policy(stage: Stage) -> None:
    await stage.go_to(DESIGN)
    await stage.press("P")


async def _deliveries(stage: Stage) -> None:
    await stage.press("D", "j")


async def _help(stage: Stage) -> None:
    await stage.press("question_mark")


async def _search(stage: Stage) -> None:
    await stage.press("S")
    await stage.paste("prices")


async def _abort(stage: Stage) -> None:
    await stage.go_to(OPS)
    await stage.press("a")


async def _tiled(stage: Stage) -> None:
    await stage.go_to(OPS)
    await stage.press("v")
    await stage.go_to(SUPPORT)


async def _denied(stage: Stage) -> None:
    await stage.go_to(DESIGN)
    await stage.press("i")
    await stage.paste("Please send me the icons.")
    await stage.press("enter")


LOOKS: dict[str, Situation] = {
    "list": (_list, "× hook:deploy", ()),
    "tools": (_tools, "▾ ", ("escape",)),
    "exchange": (_exchange, "exchange with ops: turn 2 of 5", ("escape",)),
    "spawns": (_spawns, "write summ", ("t",)),
    "send": (_send, "agent:main:discord:group:ops  ", ("escape",)),
    "policy": (_policy, "deny, by rule 1: discord · channel", ("escape",)),
    "deliveries": (_deliveries, "1 try, again in 1h", ("escape",)),
    "help": (_help, "Go into the transcript of the session", ("escape",)),
}
MORE: dict[str, Situation] = {
    "announced": (_announced, "✓ announce to slack group:tokyo: sent", ("escape",)),
    "spawn": (_spawn, "agent: main, research", ("escape",)),
    "search": (_search, "look at prices yourself", ("escape",)),
    "abort": (_abort, "Aborting stops its run", ("escape",)),
    "tiled": (_tiled, "support-42  agent:main:telegram:direct:42", ("v",)),
    "denied": (_denied, "send policy denies messages to this", ("escape",)),
}
"""Shown at one size, to be quick."""


async def _look(consoles: Both, situations: dict[str, Situation]) -> None:
    for name, (play, words, back) in situations.items():
        await consoles.do(play)
        here, there = await consoles.same()
        assert there == here, name
        assert words in "\n".join(here), (name, here)
        if back:
            await consoles.do(lambda stage, keys=back: stage.press(*keys))


@pytest.mark.parametrize("size", [NARROW, MEDIUM, WIDE], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_a_console_elsewhere_shows_what_the_one_here_shows(size: tuple[int, int]) -> None:
    async with both(size) as consoles:
        await consoles.day.errands()
        await consoles.day.afternoon()
        await _look(consoles, LOOKS)
        if size == MEDIUM:
            await _look(consoles, MORE)
        top = text_of(consoles.here.app)[0], text_of(consoles.there.app)[0]
        assert "local" in top[0]
        assert f"{NAME} live" in top[1]


async def test_what_is_done_elsewhere_shows_here() -> None:
    async with both(MEDIUM) as consoles:
        await consoles.day.afternoon()
        rows = consoles.here.app.view_model.book.rows
        await consoles.there.go_to(SUPPORT)
        await consoles.there.press("p", "a", "y")
        await until(lambda: rows[SUPPORT].look != "running" and rows[SUPPORT].session.send_policy == "allow")
        await consoles.do(lambda stage: stage.go_to(SUPPORT))
        here, there = ("\n".join(text_of(stage.app)) for stage in (consoles.here, consoles.there))
        for words in ("aborted", "allow by override", "I am asking the carrier for the number"):
            assert words in here
            assert words in there
