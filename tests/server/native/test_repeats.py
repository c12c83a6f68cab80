"""Changes that are asked for twice and done once."""

import asyncio

import pytest

from core.model.errors import Conflict, Invalid, Unavailable
from core.server.native.repeats import KEPT, AnsweredRequests


class Change:
    """Counts how often it was made."""

    def __init__(self) -> None:
        self.made = 0
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self) -> int:
        await self.go.wait()
        self.made += 1
        return self.made


async def test_the_same_key_is_the_same_change_also_while_it_is_made() -> None:
    repeats, change = AnsweredRequests(), Change()
    change.go.clear()
    asking = [asyncio.create_task(repeats.once("k", "what", change)) for _ in range(3)]
    await asyncio.sleep(0)
    change.go.set()
    assert await asyncio.gather(*asking) == [1, 1, 1]
    assert await repeats.once("k", "what", change) == 1
    with pytest.raises(Conflict):
        await repeats.once("k", "something else", change)
    assert await repeats.once("other", "what", change) == 2


async def test_a_change_goes_on_when_whoever_asked_is_gone() -> None:
    repeats, change = AnsweredRequests(), Change()
    change.go.clear()
    asking = asyncio.create_task(repeats.once("k", "what", change))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    change.go.set()
    assert await repeats.once("k", "what", change) == 1


async def test_a_refusal_is_the_answer_to_both() -> None:
    repeats = AnsweredRequests()

    async def refuse() -> None:
        raise Invalid("no")

    for _ in range(2):
        with pytest.raises(Invalid, match="no"):
            await repeats.once("k", "what", refuse)


async def test_what_cannot_be_done_now_is_tried_again() -> None:
    repeats, change = AnsweredRequests(), Change()

    async def full() -> None:
        raise Unavailable("the disk is full")

    with pytest.raises(Unavailable):
        await repeats.once("k", "what", full)
    assert await repeats.once("k", "what", change) == 1
    with pytest.raises(Conflict):
        await repeats.once("k", "something else", change)


async def test_an_error_is_not_reported_as_lost_when_whoever_asked_is_gone() -> None:
    repeats, reported, go = AnsweredRequests(), list[str](), asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what["message"]))

    async def refuse() -> None:
        await go.wait()
        raise Invalid("no")

    asking = asyncio.create_task(repeats.once("k", "what", refuse))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    go.set()
    with pytest.raises(Invalid, match="no"):
        await repeats.once("k", "what", refuse)
    await asyncio.sleep(0)
    assert reported == []


async def test_only_the_newest_are_remembered_and_none_that_is_at_work() -> None:
    repeats, change, slow = AnsweredRequests(), Change(), Change()
    slow.go.clear()
    at_work = asyncio.create_task(repeats.once("slow", "what", slow))
    for number in range(KEPT + 5):
        await repeats.once(str(number), "what", change)
    assert len(repeats) == KEPT
    slow.go.set()
    assert await at_work == 1
    assert await repeats.once("slow", "what", slow) == 1, "it was kept"
    assert await repeats.once("0", "what", change) == KEPT + 6, "that one was forgotten"
