"""What sessions say is never markup, wherever the console shows it (architecture#threats)."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from core.agents.port import AgentEvent, AgentFailure, Reply, TextDelta, ToolEnded, ToolResult, ToolStarted, Turn
from core.model.messages import Usage, text_block, tool_call_block
from tests.console.driver import MAIN, OPS, Agent, console
from tests.support.runtimes import call, send

HOSTILE = "[/x] [@click=app.exit]go[/] [bold red]no[/bold red]"
BROKEN = "[/some/path"


async def hostile(turn: Turn) -> AsyncGenerator[AgentEvent, None]:
    """Say markup with every voice an agent has."""
    asked = turn.transcript[-1].text
    if asked == "fail":
        raise AgentFailure(f"{HOSTILE} {BROKEN}")
    yield TextDelta(f"`{HOSTILE}`")
    yield Reply((text_block("so"), tool_call_block("c1", HOSTILE, {"path": BROKEN})), Usage(1, 1), "[bold]m", "toolUse")
    yield ToolStarted("c1", HOSTILE)
    yield ToolEnded("c1", HOSTILE, ToolResult(f"{BROKEN} {HOSTILE}", is_error=False))
    yield Reply((text_block(f"`{HOSTILE}` `{BROKEN}`"),), Usage(1, 1), "[bold]m")


async def test_markup_in_messages_tools_and_errors_is_shown_as_it_is(fleet: Path) -> None:
    async with console(fleet, agent=Agent(hostile), size=(200, 50)) as desk:
        await send(desk.runtime, OPS, f"{BROKEN} {HOSTILE}")
        await desk.open(OPS)
        await desk.shows(f"{BROKEN} {HOSTILE}")
        await desk.press("t")
        await desk.until(lambda: desk.picture.count("[@click=app.exit]go[/]") >= 3)
        await send(desk.runtime, MAIN, "fail")
        await desk.until(lambda: desk.app.view_model.book.rows[MAIN].look == "failed")
        await desk.select(MAIN)
        await desk.until(lambda: f"{HOSTILE} {BROKEN}" in desk.picture)


@pytest.mark.parametrize("label", [HOSTILE, BROKEN, "[bold]b[/bold]", "\\[", "$foreground [$x]"])
async def test_markup_in_a_label_is_shown_as_it_is_everywhere(fleet: Path, label: str) -> None:
    async with console(fleet, size=(200, 50)) as desk:
        await send(desk.runtime, OPS, f"/label {label}")
        await desk.until(lambda: desk.app.view_model.book.rows[OPS].name == label)
        await desk.shows(f"to {label}")
        await desk.press("p")
        assert label in await desk.said("allow")
        await desk.press("R")
        await desk.shows(f"{label} starts anew")
        await desk.press("escape", "s")
        await desk.shows("send a message")
        await desk.press("shift+tab", "ctrl+u", "o", "p", "s")
        await desk.shows(label[:20])
        await desk.press("escape", "S")
        await desk.write("standby")
        await desk.until(lambda: desk.picture.count(label) >= 2)
        await desk.press("escape")
        await desk.press("o")
        await desk.shows(f"{label}, message")
        await desk.press("escape")
        await desk.press("ctrl+p")
        await desk.write("go to")
        await desk.shows(f"go to {label}")
        await desk.press("escape")
        await call(desk.runtime, "sessions_spawn", task="say done", label=label)
        await desk.at_rest()
        await desk.select(MAIN)
        await desk.shows("SPAWNS  of main")
        assert desk.app.return_code is None


async def test_markup_in_a_key_and_in_what_is_refused(fleet: Path) -> None:
    key = "agent:main:discord:group:[@click=app.exit]x[/"
    async with console(fleet, size=(200, 50)) as desk:
        await send(desk.runtime, key, "say hello")
        await desk.until(lambda: key in desk.order)
        await desk.select(key)
        await desk.shows(key)
        await desk.press("i")
        await desk.write("/model [/nope")
        await desk.press("enter")
        await desk.said("[/nope")
        assert desk.composer.text == "/model [/nope"
        await desk.press("escape", "escape", "slash")
        await desk.write("[/")
        await desk.shows("/[/")
        assert desk.order == [key]
