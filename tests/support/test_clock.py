"""The clock that tests move by hand."""

import asyncio

import pytest

from tests.support.clock import FakeClock


async def test_time_stands_still_until_it_is_moved():
    clock = FakeClock(now_ms=1000)
    assert (clock.now_ms(), clock.monotonic()) == (1000, 0.0)
    await clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (2500, 1.5)


async def test_sleepers_wake_in_order_each_at_its_own_moment():
    clock = FakeClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, *seconds: float) -> None:
        for each in seconds:
            await clock.sleep(each)
            woken.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("late", 3))
        group.create_task(sleeper("often", 1, 1, 5))
        group.create_task(sleeper("twin", 1))
        await clock.until_sleeping(3)
        await clock.advance(4)
        assert woken == [("often", 1.0), ("twin", 1.0), ("often", 2.0), ("late", 3.0)]
        assert (clock.sleeping, clock.monotonic()) == (1, 4.0)
        await clock.advance(10)
    assert woken[-1] == ("often", 7.0)


async def test_who_is_cancelled_sleeps_no_longer():
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.until_sleeping()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.sleeping == 0


async def test_an_instant_clock_moves_itself():
    clock = FakeClock(instant=True)
    await clock.sleep(2)
    await clock.sleep(0.5)
    assert (clock.slept, clock.monotonic()) == ([2, 0.5], 2.5)
