"""The same scene local and remote: line for line the same, but for the connection line."""

from tests.scenes.pictures import Stage
from tests.scenes.script import DESIGN, MAIN, OPS, SUPPORT, TOKYO


async def _list(stage: Stage) -> None:
    await stage.settle()


async def _tools(stage: Stage) -> None:
    await stage.open(OPS)
    await stage.press("enter", "o")


async def _exchange(stage: Stage) -> None:
    await stage.open(MAIN)
    await stage.press("enter")


async def _announced(stage: Stage) -> None:
    await stage.open(TOKYO)
    await stage.press("enter", "k", "k", "enter", "G")


async def _spawns(stage: Stage) -> None:
    await stage.open(OPS)
    await stage.press("t")


async def _send(stage: Stage) -> None:
    await stage.open(OPS)
    await stage.press("s")
    await stage.write("Which of the three branches can go?")


async def _spawn(stage: Stage) -> None:
    await stage.open(OPS)
    await stage.press("n")
    await stage.write("Find a cheaper region in Asia.")


async def _policy(stage: Stage) -> None:
    await stage.open(DESIGN)
    await stage.press("P")


async def _deliveries(stage: Stage) -> None:
    await stage.press("D", "j")


async def _help(stage: Stage) -> None:
    await stage.press("question_mark")


async def _palette(stage: Stage) -> None:
    await stage.press("ctrl+p")
    await stage.write("go")


async def _search(stage: Stage) -> None:
    await stage.press("S")
    await stage.write("prices")


async def _filter(stage: Stage) -> None:
    await stage.press("slash")
    await stage.write("discord")


async def _abort(stage: Stage) -> None:
    await stage.open(OPS)
    await stage.press("a")


async def _denied(stage: Stage) -> None:
    await stage.open(DESIGN)
    await stage.press("i")
    await stage.write("Please send me the icons.")
    await stage.press("enter")

async def _tiled(stage: Stage) -> None:
    await stage.open(OPS)
    await stage.press("v")
    await stage.open(SUPPORT)


SITUATIONS = {
    "list": (_list, ()),
    "tools": (_tools, ("escape", "escape")),
    "exchange": (_exchange, ("escape",)),
    "announced": (_announced, ("escape",)),
    "spawns": (_spawns, ("escape",)),
    "send": (_send, ("escape",)),
    "spawn": (_spawn, ("escape",)),
    "policy": (_policy, ("escape",)),
    "deliveries": (_deliveries, ("escape",)),
    "help": (_help, ("escape",)),
    "palette": (_palette, ("escape",)),
    "search": (_search, ("escape",)),
    "filter": (_filter, ("escape","escape")),
    "abort": (_abort, ("escape",)),
    "tiled": (_tiled, ("v",)),
    "denied": (_denied, ("escape",)),
}
