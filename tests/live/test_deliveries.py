"""The deliveries that the console knows: all that are not over, and the newest."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from console.live.deliveries import MOST, NEWEST, Deliveries
from core.model.exchanges import STUCK_DELIVERIES, Delivery, DeliveryState
from core.store import deliveries
from core.store.database import Tx
from core.store.deliveries import NewDelivery
from tests.live.samples import any_text
from tests.support.runtimes import MAIN, running

STATES: list[DeliveryState] = ["pending", "sending", "sent", "skipped", "failed", "unknown"]


def delivery(number: int, state: DeliveryState = "sent", rev: int = 1, text: str = "hello") -> Delivery:
    """Return a delivery."""
    return Delivery(f"d{number}", rev, "e", MAIN, text, text, text, text, state, text, 0, 0, number, number)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9), st.sampled_from(STATES)), max_size=40))
def test_any_order_ends_in_the_newest_state_and_the_right_count(heard: list[tuple[int, int, DeliveryState]]) -> None:
    book = Deliveries()
    newest: dict[int, tuple[int, DeliveryState]] = {}
    for number, rev, state in heard:
        book.take([delivery(number, state, rev)])
        if rev > newest.get(number, (0, "sent"))[0]:
            newest[number] = (rev, state)
    assert {(each.delivery_id, each.state) for each in book.newest_first()} == {
        (f"d{number}", state) for number, (_, state) in newest.items()
    }
    assert book.stuck == sum(state in STUCK_DELIVERIES for _, state in newest.values())
    assert [each.created_at for each in book.newest_first()] == sorted(newest, reverse=True)


@given(any_text())
def test_every_text_that_is_drawn_is_cleaned(text: str) -> None:
    book = Deliveries()
    book.take([delivery(1, text=text)])
    (found,) = book.newest_first()
    for drawn in (found.channel, found.to, found.reason or "", found.text, found.account_id or ""):
        assert not {"\x1b", "\x9b", "\x07", "\0", "\u202e", "\u200b"} & set(drawn)


def test_what_is_over_is_forgotten_and_what_is_not_stays() -> None:
    book = Deliveries()
    book.take([delivery(0, "failed")])
    book.take([delivery(number) for number in range(1, 3 * (NEWEST + MOST))])
    kept = book.newest_first()
    assert len(kept) < 2 * (NEWEST + MOST)
    assert (kept[-1].delivery_id, kept[-1].state) == ("d0", "failed")
    assert kept[0].created_at == 3 * (NEWEST + MOST) - 1


async def test_what_waits_for_the_operator_is_read_however_old_it_is(state: Path) -> None:
    def write(tx: Tx) -> None:
        for number in range(NEWEST + 20):
            stuck: DeliveryState = "unknown" if number == 3 else "failed" if number < 5 else "sent"
            deliveries.add(tx, NewDelivery(f"e{number}", MAIN, "discord", "x", None, "hello", stuck))

    async with running(state) as runtime:
        await runtime.store.write(write)
        book = Deliveries()
        await book.load(runtime)
        assert book.stuck == 5
        assert len(book.newest_first()) == NEWEST + 5
        assert len(await runtime.deliveries(MAIN, states={"unknown"}, limit=10)) == 1
        assert await runtime.deliveries("agent:main:other", states={"unknown"}, limit=10) == []
