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
    async with console(fleet, agent=Agent(hostile), size=(200, 50)) as driver:
        await send(driver.runtime, OPS, f"{BROKEN} {HOSTILE}")
        await driver.open(OPS)
        await driver.shows(f"{BROKEN} {HOSTILE}")
        await driver.press("t")
        await driver.until(lambda: driver.text.count("[@click=app.exit]go[/]") >= 3)
        await send(driver.runtime, MAIN, "fail")
        await driver.until(lambda: driver.app.view_model.book.rows[MAIN].look == "failed")
        await driver.select(MAIN)
        await driver.until(lambda: f"{HOSTILE} {BROKEN}" in driver.text)


@pytest.mark.parametrize("label", [HOSTILE, BROKEN, "[bold]b[/bold]", "\\[", "$foreground [$x]"])
async def test_markup_in_a_label_is_shown_as_it_is_everywhere(fleet: Path, label: str) -> None:
    async with console(fleet, size=(200, 50)) as driver:
        await send(driver.runtime, OPS, f"/label {label}")
        await driver.until(lambda: driver.app.view_model.book.rows[OPS].name == label)
        await driver.shows(f"to {label}")
        await driver.press("p")
        assert label in await driver.said("allow")
        await driver.press("R")
        await driver.shows(f"{label} starts anew")
        await driver.press("escape", "s")
        await driver.shows("send a message")
        await driver.press("shift+tab", "ctrl+u", "o", "p", "s")
        await driver.shows(label[:20])
        await driver.press("escape", "S")
        await driver.write("standby")
        await driver.until(lambda: driver.text.count(label) >= 2)
        await driver.press("escape")
        await driver.press("o")
        await driver.shows(f"{label}, message")
        await driver.press("escape")
        await driver.press("ctrl+p")
        await driver.write("go to")
        await driver.shows(f"go to {label}")
        await driver.press("escape")
        await call(driver.runtime, "sessions_spawn", task="say done", label=label)
        await driver.at_rest()
        await driver.select(MAIN)
        await driver.shows("SPAWNS  of main")
        assert driver.app.return_code is None


async def test_markup_in_a_key_and_in_what_is_refused(fleet: Path) -> None:
    key = "agent:main:discord:group:[@click=app.exit]x[/"
    async with console(fleet, size=(200, 50)) as driver:
        await send(driver.runtime, key, "say hello")
        await driver.until(lambda: key in driver.order)
        await driver.select(key)
        await driver.shows(key)
        await driver.press("i")
        await driver.write("/model [/nope")
        await driver.press("enter")
        await driver.said("[/nope")
        assert driver.composer.text == "/model [/nope"
        await driver.press("escape", "escape", "slash")
        await driver.write("[/")
        await driver.shows("/[/")
        assert driver.order == [key]
