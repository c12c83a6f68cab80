"""What the operator sees: each scene looks as its committed picture does, and says what it must."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.scenes.pictures import SCENES, ScenePlayer, Stage, draw
from tests.screenshots import FOLDER, screenshot_of
from tests.tools.peers.gateways import OUTERMOST

READ = {
    "watch": ["× hook:deploy", "model refused: 401", "● ops", "└◌ write summ", "queued", "· cron:nightly", "⊘"],
    "reading": ["ops  agent:main:discord:group:ops", "● running", "eu-central  0.042    31 ms", "esc back", "i write"],
    "exchange": ["exchange with ops: turn 2 of 5, ops is next", "ops → main", "turn 1 of 5"],
    "announced": [
        "main → 東京サポート",
        "▾ announce step",
        "The request was:",
        "✓ announce to slack group:tokyo: sent",
    ],
    "tiled": ["support-42  agent:main:telegram:direct:42", "ops  agent:main:discord:group:ops"],
    "send": ["send a message", "Which of the three branches can go?", "^s send", "esc close"],
    "spawn": ["start a sub-agent", "agent: main, research", "stop after", "^s start", "esc close"],
    "help": ["Go into the transcript of the session", "esc  close"],
    "palette": ["go to ops", "agent:main:discord:group:ops, running"],
    "filter": ["SESSIONS  /discord", "2 of 13", "design"],
    "no-match": ["SESSIONS  /discrod", "0 of 13", "Esc shows all of them again."],
    "denied": [
        "⊘ deny by rule 1: discord · channel",
        "send policy denies messages to this",
        "Please send me the icons.",
    ],
    "search": ["search all transcripts", "look at prices yourself", "↵ go there"],
    "abort": ["ops is at work. Aborting stops its run", "y  abort", "esc  go back"],
    "deliveries": [
        "? unknown  on-call",
        "◌ pending  support-42",
        "1 try, again in 1h",
        "no route to discord:group:ops",
        "Your parcel has left.",
        "! 2 undelivered",
        "r retry",
    ],
    "policy": ["⊘ deny, by rule 1: discord · channel", "session.sendPolicy.rules[0]", "1 override", "◂ decides"],
    "what-if": ["there is no such session yet", "every session of agent research", "↵ take it"],
    "gateways": ["prod ●", "lab ◌", "home ×", "@prod", "@lab", "evals"],
    "connect": ["4 of 5 in the list", "live 12 ms", "openclaw devices approve 7f3a91", "not connected", "↵ this alone"],
    "refused": ["gateway.tools.allow there must name it", "checkout"],
    "first-start": ["No session yet.", "set SWITCHBOARD_MODEL_URL", "type a message to main", "↵ send"],
    "too-small": ["too small", "40x10"],
    "light": ["● ops"],
    "contrast": ["● ops"],
    "ansi": ["ops"],
    "no-color": ["× hook:deploy", "● ops"],
}
"""What each scene must say, by the name before its size."""


@pytest.mark.parametrize("name", SCENES)
def test_the_console_shows_what_it_showed(name: str, snap_compare: Callable[..., bool]) -> None:
    scene, player = SCENES[name], ScenePlayer(SCENES[name])
    is_the_same = snap_compare(player, terminal_size=scene.size, run_before=player.play)
    text = "\n".join(player.lines)
    said = f"{text}\n" + re.sub(r"\s+", " ", text)  # those that were wrapped are joined again
    assert [words for words in READ[name.rpartition("-")[0]] if words not in said] == [], text
    width, height = scene.size
    assert len(player.lines) == height
    assert {cell_len(line) for line in player.lines} == {width}
    assert is_the_same, f"look at the change, then take it with `python -m tests.screenshots {name}`.\n{text}"


@pytest.mark.parametrize("name", SCENES)
def test_a_screenshot_is_what_was_compared(name: str) -> None:
    if (FOLDER / f"{name}.svg").read_text(encoding="utf-8") != screenshot_of(name):
        pytest.fail(f"screenshots/{name}.svg is stale: make it anew with `python -m tests.screenshots {name}`")


async def test_a_scene_gives_the_same_picture_every_time() -> None:
    scene = SCENES["watch-80x24"]
    assert (await draw(scene)).svg == (await draw(scene)).svg


@pytest.mark.parametrize("name", ["send-80x24", "spawn-80x24", "search-80x24", "palette-80x24", "filter-80x24"])
async def test_no_cursor_blinks(name: str) -> None:
    blinking: list[object] = []

    async def look(stage: Stage) -> None:
        await SCENES[name].play(stage)
        focused = stage.app.screen.focused
        assert focused is not None
        blinking.append(getattr(focused, "cursor_blink", None))

    await draw(replace(SCENES[name], play=look))
    assert blinking == [False]


def test_every_picture_has_a_scene() -> None:
    peers = {f"openclaw-{version}-120x36" for version in OUTERMOST}  # drawn by `tests.tools.peers`, of real ones
    peers |= {f"openclaw-tui-{version}-120x40" for version in OUTERMOST}
    assert {path.stem for path in FOLDER.glob("*")} == {*SCENES, *peers}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_loads_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    addresses = re.findall(r"https?://[^\"' )<]+", text)
    assert set(addresses) == {"http://www.w3.org/2000/svg"}
    assert "@font-face" not in text
    assert "@import" not in text
