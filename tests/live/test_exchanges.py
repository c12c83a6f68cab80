"""The exchanges of the sessions that are open: any order of events ends in what is newest, and its words are clean."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.live.exchanges import KEPT, Exchanges
from console.live.memory import Memory
from console.live.synchronizer import Synchronizer
from console.live.text.clean import HARMLESS
from console.live.text.exchanges import (
    announce_sentence,
    end_sentence,
    next_words,
    place_words,
    progress_sentence,
    short_id,
    tree_words,
)
from console.live.transcript import Step, Transcript
from console.live.view_model import ViewModel
from core import event_stream
from core.model.access import Operator
from core.model.exchanges import Delivery, Exchange
from core.runtime.gateway import Runtime
from tests.live.samples import any_text, make_run
from tests.support.runtimes import MAIN, call, running, send, until

if TYPE_CHECKING:
    from core.gateway import Gateway

OPS = "agent:main:discord:group:ops"
SUPPORT = "agent:main:telegram:direct:42"
CHILD = "agent:main:subagent:1"


def make_exchange(exchange_id: str = "0a1b2c", **fields: Any) -> Exchange:
    """Return an exchange of main with ops that is at its second turn."""
    plain = Exchange(exchange_id, 1, "send", "replying", None, MAIN, OPS, 2, 5, 1, "root", False, None, 1000, None)
    return plain._replace(**fields)


def make_delivery(exchange_id: str = "0a1b2c", **fields: Any) -> Delivery:
    """Return an announce of ops that waits."""
    plain = Delivery(
        f"{exchange_id}:announce:discord:group:ops", 2, exchange_id, OPS, "discord", "group:ops", None, "text",
        "pending", None, 0, 0, 0, 0,
    )  # fmt: skip
    return plain._replace(**fields)


def name_of(key: str) -> str:
    return key.rpartition(":")[2]


@pytest.mark.spec("S9")
@given(st.permutations([(rev, kind) for rev in range(1, 5) for kind in ("exchange", "delivery")]))
def test_any_order_of_changes_ends_in_the_newest(order: list[tuple[int, str]]) -> None:
    known = Exchanges()
    known.take(make_exchange(rev=0, turn=0))
    states = {1: "pending", 2: "sending", 3: "unknown", 4: "sent"}
    for rev, kind in [*order, *order[:4]]:
        if kind == "exchange":
            known.take(make_exchange(rev=rev, turn=rev))
        else:
            known.take_announce(make_delivery(rev=rev, state=states[rev]))
    exchange, announce = known.get("0a1b2c"), known.announce("0a1b2c")
    assert exchange is not None
    assert announce is not None
    assert (exchange.turn, announce.state) == (4, "sent")


class Counting:
    """A gateway that remembers what it was asked for."""

    def __init__(self, inner: Runtime) -> None:
        self.asked: list[str] = []
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self._inner, name)


@pytest.mark.spec("W6")
async def test_opening_a_session_reads_all_of_its_exchanges_at_once(state: Path) -> None:
    async with running(state) as runtime:
        await send(runtime, MAIN, "hello")
        tasks = ("say yes", "fail", "say no")
        keys = [(await call(runtime, "sessions_spawn", task=task))["childSessionKey"] for task in tasks]
        await runtime.drained()
        gateway, known = Counting(runtime), Exchanges()
        await known.read(cast("Gateway", gateway), MAIN)
        assert gateway.asked == ["exchanges"]
        found = [known.task_of(key) for key in keys]
        assert [task and task.state for task in found] == ["done", "error", "done"]
        assert all(task is not None and task.runtime_ms is not None for task in found)


def test_an_announce_of_an_exchange_that_nobody_looks_at_is_not_kept() -> None:
    known = Exchanges()
    assert not known.take_announce(make_delivery())
    assert known.announce("0a1b2c") is None


def test_only_so_many_are_kept_and_those_under_way_stay() -> None:
    known = Exchanges()
    known.take(make_exchange("live"))
    for number in range(KEPT + 50):
        child = f"{CHILD}{number}"
        known.take(make_exchange(f"e{number}", kind="spawn", target=child, state="ended", outcome="done"))
        known.take_announce(make_delivery(f"e{number}"))
    assert known.get("live") is not None
    assert known.get("e0") is None
    assert known.announce("e0") is None
    assert known.spawn_of(f"{CHILD}0") is None
    assert known.spawn_of(f"{CHILD}{KEPT + 49}") is not None


@given(any_text(), any_text(), any_text(), any_text())
def test_hostile_text_is_harmless_where_it_enters(reason: str, channel: str, to: str, exchange_id: str) -> None:
    known = Exchanges()
    known.take(make_exchange(exchange_id, state="ended", outcome="error", reason=reason))
    known.take_announce(make_delivery(exchange_id, channel=channel, to=to, reason=reason, state="failed", text=reason))
    exchange, announce = known.get(exchange_id), known.announce(exchange_id)
    assert exchange is not None
    assert announce is not None
    said = [
        announce_sentence(announce),
        end_sentence(exchange, "main"),
        progress_sentence(exchange, name_of),
        short_id(exchange_id),
        place_words(Step(exchange_id, "reply", 2), exchange),
    ]
    assert not any(ord(character) in HARMLESS for words in said for character in words)
    assert announce.text == ""


# Words


def test_who_is_next_and_at_which_turn() -> None:
    first = make_exchange(state="first", turn=0)
    assert next_words([first], OPS, name_of) == "exchange with main: no turn of 5 yet, ops is next"
    assert next_words([make_exchange(turn=1)], MAIN, name_of) == "exchange with ops: turn 1 of 5, main is next"
    assert next_words([make_exchange()], OPS, name_of) == "exchange with main: turn 2 of 5, ops is next"
    announcing = make_exchange(state="announcing")
    assert next_words([announcing], MAIN, name_of) == "exchange with ops: turn 2 of 5, ops writes the announce"
    without = make_exchange(state="first", turn=0, max_turns=0)
    assert next_words([without], MAIN, name_of) == "exchange with ops: no turns, ops is next"
    both = next_words([make_exchange("a"), make_exchange("b")], MAIN, name_of)
    assert both.endswith("ops is next; 1 more under way")
    ended = make_exchange(state="ended", outcome="done")
    assert next_words([ended, make_exchange(kind="spawn")], MAIN, name_of) == ""


@pytest.mark.spec("S11", "W6")
def test_the_word_of_an_announce_is_never_one_of_a_run() -> None:
    exchange = make_exchange(kind="spawn", state="ended", outcome="done")
    states = ("pending", "sending", "sent", "skipped", "failed", "unknown")
    words = [tree_words(exchange, make_delivery(state=state)) for state in states]
    assert words == ["pending", "sending", "announced", "skipped", "undelivered", "unknown"]
    words += [tree_words(make_exchange(), None), tree_words(exchange._replace(outcome="interrupted"), None)]
    assert words[-2:] == ["not yet", "none"]
    assert not {"queued", "running", "done", "failed", "error", "aborted", "timed out", "interrupted"} & set(words)
    assert max(len(word) for word in words) <= 11


def test_an_announce_says_where_how_and_why() -> None:
    sent, denied = make_delivery(state="sent"), make_delivery(state="skipped", reason="denied by rule 1", to="")
    assert announce_sentence(sent) == "announce to discord group:ops: sent"
    assert announce_sentence(denied) == "announce to discord: skipped: denied by rule 1"


# Which message is which step


def test_runs_tell_which_message_is_which_step() -> None:
    transcript = Transcript(OPS, "id", 1, 9)
    for run in (
        make_run(OPS, session_id="id", run_id="x", exchange="x", kind="turn", input_seq=1, reply_seq=3, turn=0),
        make_run(OPS, session_id="id", run_id="other", exchange=None, input_seq=4, reply_seq=5),
        make_run(OPS, session_id="old", run_id="y", exchange="y", kind="turn", input_seq=6),
        make_run(OPS, session_id="id", run_id="x:2", exchange="x", kind="reply", input_seq=7, reply_seq=None, turn=2),
    ):
        transcript.take_run(run)
    assert set(transcript.steps) == {1, 3, 7}
    assert transcript.steps[7] == Step("x", "reply", 2)
    assert [seq for seq in range(1, 10) if transcript.ends(seq) == "x"] == [7]
    transcript.take_changed()
    transcript.take_run(
        make_run(OPS, session_id="id", run_id="x:2", exchange="x", kind="reply", input_seq=7, reply_seq=9, turn=2)
    )
    assert transcript.take_changed() == [7, 9]  # the place below which its announce is told has moved
    assert transcript.ends(9) == "x"
    transcript.touch(make_exchange("x"))
    assert 9 in transcript.take_changed()


# The view_model


@pytest.mark.spec("S9", "S11")
async def test_the_desk_knows_the_exchanges_of_what_is_open(state: Path) -> None:
    async with running(state) as runtime:
        await send(runtime, MAIN, "say hi")
        await send(runtime, OPS, "say hi")
        await send(runtime, OPS, "say before", Operator(MAIN))
        await runtime.drained()
        view_model = ViewModel(runtime, Memory())
        await Synchronizer(view_model).load()
        await view_model.transcripts.open(MAIN)
        assert [exchange.target for exchange in view_model.exchanges.of(MAIN)] == [OPS]
        told = view_model.exchanges.announce(view_model.exchanges.of(MAIN)[0].exchange_id)
        assert told is not None  # it is a delivery of the other side
        assert told.state == "failed"


@pytest.mark.spec("S9", "S11")
@pytest.mark.parametrize("queue", [2_000, 3], ids=["event by event", "after a gap"])
async def test_what_the_desk_knows_stays_true(state: Path, queue: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "QUEUE_EVENTS", queue)
    async with running(state) as runtime:
        for key in (MAIN, OPS, SUPPORT):
            await send(runtime, key, "say hi")
        view_model = ViewModel(runtime, Memory())
        synchronizer = Synchronizer(view_model)
        await synchronizer.load()
        await view_model.transcripts.open(MAIN)
        await send(runtime, OPS, "say after", Operator(MAIN))
        await send(runtime, OPS, "say nothing to do with it", Operator(SUPPORT))
        await runtime.drained()
        following = asyncio.create_task(synchronizer.follow())
        await until(lambda: [exchange.outcome for exchange in view_model.exchanges.of(MAIN)] == ["done"])
        exchange = view_model.exchanges.of(MAIN)[0]
        await until(lambda: view_model.exchanges.announce(exchange.exchange_id) is not None)
        stored = await runtime.exchange(exchange.exchange_id)
        assert stored is not None
        announce = stored[1]
        assert announce is not None
        await until(lambda: view_model.exchanges.announce(exchange.exchange_id) == announce._replace(text=""))
        assert exchange == stored[0]
        steps = view_model.transcripts.opened[MAIN].steps
        assert {step.kind for step in steps.values()} == {"reply"}
        assert view_model.exchanges.of(SUPPORT) == []
        following.cancel()
