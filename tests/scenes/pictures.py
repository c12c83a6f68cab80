"""The pictures of the console: what was done in each scene, at which size, and how it is drawn."""

import contextlib
import io
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.app import App
from textual.pilot import Pilot

from console.app import SwitchboardApp
from console.themes import UNICODE_SIGNS
from core.model.keys import joined, split
from tests.scenes.day import Day, SceneHost, fixed_world
from tests.scenes.elsewhere import CHECKOUT, DENIED, elsewhere
from tests.scenes.script import CONFIG, DESIGN, MAIN, OPS, SUPPORT, TOKYO
from tests.support.console_driver import ConsoleDriver
from tests.support.runtimes import until
from tests.support.screens import segments_of, update_of

SVG: Final = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace;
font-size: {char_height}px; line-height: {line_height}px;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Rich's own frame for a terminal, without the fonts that it loads from the network."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What a terminal shows.

    Attributes:
        lines: The same in words, one for each row of the terminal.
        palette: Words, their colour and the one behind them, as `#rrggbb`; rules and borders are no words.
    """

    svg: str
    lines: tuple[str, ...]
    palette: frozenset[tuple[str, str, str]]

    @property
    def text(self) -> str:
        """All of the words."""
        return "\n".join(self.lines)


class Stage(ConsoleDriver):
    """A console in which something is done for a picture; it is up to date after each step.

    Args:
        host: Whose day it is; the console may work on it from elsewhere.
    """

    def __init__(self, app: SwitchboardApp, host: SceneHost, pilot: Pilot[None]) -> None:
        super().__init__(app, pilot)
        self.host = host
        self.day = Day(host)
        self._cast = host.cast
        self._seconds = 0.0
        app.monotonic = lambda: self._seconds

    async def begin(self) -> None:
        """Wait until the console is complete."""
        app = self.app
        await until(lambda: app.watch_screen.parts.main.view.coloured)
        await until(lambda: not any(worker.group == "start" and worker.is_running for worker in app.workers))
        await self.settle()

    async def press(self, *keys: str) -> None:
        """Press keys."""
        await self.pilot.press(*keys)
        await self.settle()

    async def paste(self, text: str) -> None:
        """Put a text where the cursor is, as a terminal pastes it."""
        self.app.post_message(events.Paste(text))
        await self.settle()

    async def go_to(self, key: str) -> None:
        """Put the cursor on a session."""
        self.app.watch_screen.open_sessions.go_to(self.named(key))
        await self.settle()

    def named(self, key: str) -> str:
        """Return a key of home as this console has it."""
        return key if key.startswith("@") else joined(self.app.gateways.shown.home, key)

    async def resize(self, size: tuple[int, int]) -> None:
        """Give the terminal another size."""
        await self.pilot.resize_terminal(*size)
        await self.settle()

    async def settle(self) -> None:
        """Wait until the console shows all that has happened."""
        screen = self.screen
        for _ in range(2):
            await until(self._is_up_to_date)
            self._seconds += 10.0  # the order of the rows is not held any more
            screen.picture.tick()  # what a second does by itself
            await self.pilot.pause()

    def _is_up_to_date(self) -> bool:
        screen, model = self.screen, self.app.view_model
        self._seconds += 1.0  # rows move at most a few times a second
        if (
            model.changes.is_told
            or screen.picture.place_timer is not None
            or screen.parts.sessions.selected not in {None, screen.parts.main.key}
        ):
            return False
        rows = [row for row in model.book.rows.values() if row.look == "running"]
        if not all(
            " ".join(self._cast.words[split(row.session.key)[1]].split()).endswith(row.words[-20:]) for row in rows
        ):
            return False
        opened = [model.transcripts.opened.get(row.session.key) for row in rows]
        return all(transcript is None or transcript.live is not None for transcript in opened)


def text_of(app: App[None]) -> tuple[str, ...]:
    """Return what a console shows now in words, one for each row of the terminal."""
    return tuple(_drawn(app).export_text().split("\n")[: app.size.height])


def picture_of(app: App[None], mask: Callable[[str], str] | None = None) -> Picture:
    """Draw what a console shows now.

    Args:
        mask: Replaces what is different each time, with something of the same width.
    """
    console = _drawn(app)
    if mask is not None:
        recorded = segments_of(console)
        recorded[:] = [segment._replace(text=mask(segment.text)) for segment in recorded]
    return _recorded(console, app.size.height)


def picture_of_rows(rows: Sequence[Text], width: int) -> Picture:
    """Draw the rows of any terminal."""
    console = _recorder(width, len(rows))
    for row in rows:
        console.print(row, no_wrap=True, overflow="ignore", crop=True)
    return _recorded(console, len(rows))


def _recorded(console: Console, height: int) -> Picture:
    palette = frozenset(_colours(segments_of(console)))
    svg = console.export_svg(title="switchboard", code_format=SVG, unique_id="t", clear=False)
    return Picture(svg, tuple(console.export_text().split("\n")[:height]), palette)


def _drawn(app: App[None]) -> Console:
    console = _recorder(*app.size)
    console.print(update_of(app))
    return console


def _recorder(width: int, height: int) -> Console:
    return Console(
        width=width,
        height=height,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        record=True,
        legacy_windows=False,
        safe_box=False,
    )


def _colours(segments: Iterable[Segment]) -> Iterator[tuple[str, str, str]]:
    for text, style, control in segments:
        if control is None and style is not None and any(letter.isalnum() for letter in text):
            colors = (style.color or Color.default(), style.bgcolor or Color.default())
            front, back = colors[::-1] if style.reverse else colors
            yield text.strip(), front.get_truecolor().hex, back.get_truecolor(foreground=False).hex


@dataclass(frozen=True, slots=True)
class Scene:
    """One picture to draw.

    Attributes:
        play: What is done before it is drawn.
        config: What the fleet is configured to be; None for a first start.
        no_color: The terminal's owner wants no colours.
        several: There are gateways elsewhere.
    """

    size: tuple[int, int]
    play: Callable[[Stage], Awaitable[None]]
    config: dict[str, Any] | None = field(default_factory=lambda: CONFIG)
    no_color: bool = False
    several: bool = False


class ScenePlayer(App[str]):
    """What `snap_compare` runs: it lives the day of a scene, then runs the console on it.

    Attributes:
        lines: What the terminal shows at the end of the scene, in words.
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.lines: tuple[str, ...] = ()
        self._scene = scene

    async def run_async(self, **options: Any) -> str | None:
        """Run the console; `play` is what its pilot is to do."""
        async with prepared(self._scene) as (app, _):
            return await cast("App[str]", app).run_async(**options)

    async def play(self, pilot: Pilot[None]) -> None:
        """Play the scene in the console."""
        app = cast("SwitchboardApp", pilot.app)
        stage = Stage(app, cast("SceneHost", app.host), pilot)
        await stage.begin()
        await self._scene.play(stage)
        self.lines = text_of(stage.app)


async def draw(scene: Scene) -> Picture:
    """Play a scene and draw it."""
    async with prepared(scene) as (app, host), staged(app, host, scene.size) as stage:
        await scene.play(stage)
        return picture_of(app)


@contextlib.asynccontextmanager
async def prepared(scene: Scene) -> AsyncGenerator[tuple[SwitchboardApp, SceneHost]]:
    """Live the morning of a scene's day, and make the console that is to be opened on it."""
    with fixed_world() as folder:
        if scene.no_color:
            os.environ["NO_COLOR"] = "1"
        host = SceneHost(folder, scene.config)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(host.close)
            if scene.config is not None:
                await Day(host).morning()
            if scene.several:
                host.elsewhere = await stack.enter_async_context(elsewhere(host, folder))
                host.kept = cast("Any", host.elsewhere.lines)
            yield _console(SwitchboardApp(host), host), host


@contextlib.asynccontextmanager
async def staged(app: SwitchboardApp, host: SceneHost, size: tuple[int, int]) -> AsyncGenerator[Stage]:
    """Open a console on the day of a host, and close it at the end."""
    async with _console(app, host).run_test(size=size) as pilot:
        stage = Stage(app, host, pilot)
        await stage.begin()
        yield stage
        app.exit()


def _console(app: SwitchboardApp, host: SceneHost) -> SwitchboardApp:
    app.view_model.wall_ms = host.clock.now_ms
    app.signs = UNICODE_SIGNS
    return app


async def _first_start(stage: Stage) -> None:
    await stage.settle()


async def _watch(stage: Stage) -> None:
    await stage.day.afternoon()
    await stage.settle()
    await stage.go_to(OPS)


async def _read(stage: Stage) -> None:
    await _watch(stage)
    await stage.press("enter")


async def _exchange(stage: Stage) -> None:
    await _watch(stage)
    await stage.go_to(MAIN)
    await stage.press("enter")


async def _announced(stage: Stage) -> None:
    await _watch(stage)
    await stage.go_to(TOKYO)
    await stage.press("enter", "k", "k", "enter", "G")


async def _tiled(stage: Stage) -> None:
    await _watch(stage)
    await stage.press("v")
    await stage.go_to(SUPPORT)


async def _send(stage: Stage) -> None:
    await _watch(stage)
    await stage.press("s")
    await stage.paste("Which of the three branches can go?")


async def _spawn(stage: Stage) -> None:
    await _watch(stage)
    await stage.press("n")
    await stage.paste("Find a cheaper region in Asia.")


async def _help(stage: Stage) -> None:
    await _watch(stage)
    await stage.press("question_mark")


async def _palette(stage: Stage) -> None:
    await _watch(stage)
    await stage.press("ctrl+p")
    await stage.paste("go")


async def _filter(stage: Stage) -> None:
    await _watch(stage)
    await stage.press("slash")
    await stage.paste("discord")


async def _no_match(stage: Stage) -> None:
    await _watch(stage)
    await stage.press("slash")
    await stage.paste("discrod")


async def _denied(stage: Stage) -> None:
    await _watch(stage)
    await stage.go_to(DESIGN)
    await stage.press("i")
    await stage.paste("Please send me the icons.")
    await stage.press("enter")


async def _search(stage: Stage) -> None:
    await _watch(stage)
    await stage.press("S")
    await stage.paste("prices")


async def _abort(stage: Stage) -> None:
    await _watch(stage)
    await stage.press("a")


async def _deliveries(stage: Stage) -> None:
    await stage.day.errands()
    await _watch(stage)
    await stage.press("D")
    await stage.press("j")


async def _policy(stage: Stage) -> None:
    await stage.day.errands()
    await _watch(stage)
    await stage.go_to(DESIGN)
    await stage.press("P")


async def _what_if(stage: Stage) -> None:
    await _policy(stage)
    await stage.press("slash")
    await stage.paste("agent:research:discord:channel:new")


async def _gateways(stage: Stage) -> None:
    await _watch(stage)
    assert stage.host.elsewhere is not None
    await stage.go_to("@lab:agent:main:main")
    stage.host.elsewhere.lose_the_lab(stage.host.clock.now_ms())
    await stage.settle()


async def _connect(stage: Stage) -> None:
    await _gateways(stage)
    await stage.press("at")
    await stage.press("j", "j", "j")


async def _refused(stage: Stage) -> None:
    await _watch(stage)
    assert stage.host.elsewhere is not None
    stage.host.elsewhere.lines["prod"].denied = {
        "spawn": DENIED,
        "policy": "only operator.admin changes the send policy",
    }
    await stage.go_to(f"@prod:{CHECKOUT}")
    await stage.press("n")


def _themed(name: str) -> dict[str, Any]:
    return CONFIG | {"console": {"theme": f"switchboard-{name}"}}


NARROW, MEDIUM, WIDE = (80, 24), (120, 36), (200, 60)
_EVERYWHERE: Final = {
    "send": _send,
    "spawn": _spawn,
    "help": _help,
    "palette": _palette,
    "filter": _filter,
    "no-match": _no_match,
    "denied": _denied,
    "search": _search,
    "abort": _abort,
    "deliveries": _deliveries,
    "policy": _policy,
}
_SEVERAL: Final = {"gateways": _gateways, "connect": _connect, "refused": _refused}
SCENES: Final = {
    "watch-80x24": Scene(NARROW, _watch),
    "watch-120x36": Scene(MEDIUM, _watch),
    "watch-200x60": Scene(WIDE, _watch),
    "reading-80x24": Scene(NARROW, _read),
    "exchange-80x24": Scene(NARROW, _exchange),
    "exchange-120x36": Scene(MEDIUM, _exchange),
    "exchange-200x60": Scene(WIDE, _exchange),
    "announced-120x36": Scene(MEDIUM, _announced),
    "tiled-200x60": Scene(WIDE, _tiled),
    **{f"{name}-80x24": Scene(NARROW, play) for name, play in _EVERYWHERE.items()},
    **{f"{name}-120x36": Scene(MEDIUM, play) for name, play in _EVERYWHERE.items()},
    **{f"{name}-80x24": Scene(NARROW, play, several=True) for name, play in _SEVERAL.items()},
    **{f"{name}-120x36": Scene(MEDIUM, play, several=True) for name, play in _SEVERAL.items()},
    **{f"{name}-200x60": Scene(WIDE, play, several=True) for name, play in _SEVERAL.items()},
    "first-start-80x24": Scene(NARROW, _first_start, config=None),
    "first-start-120x36": Scene(MEDIUM, _first_start, config=None),
    "first-start-200x60": Scene(WIDE, _first_start, config=None),
    "deliveries-200x60": Scene(WIDE, _deliveries),
    "policy-200x60": Scene(WIDE, _policy),
    "what-if-120x36": Scene(MEDIUM, _what_if),
    "too-small-36x8": Scene((36, 8), _watch),
    "light-120x36": Scene(MEDIUM, _watch, _themed("light")),
    "contrast-120x36": Scene(MEDIUM, _watch, _themed("contrast")),
    "ansi-120x36": Scene(MEDIUM, _watch, _themed("ansi")),
    "no-color-120x36": Scene(MEDIUM, _watch, no_color=True),
}
"""By the name of the file."""
