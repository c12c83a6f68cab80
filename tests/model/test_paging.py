"""Reading forwards through pages that are bounded in bytes."""

import pytest

from core.model.messages import Message, text_block
from core.model.paging import forwards
from core.model.sessions import HistoryPage

LENGTHS = [1, 1, 50, 1, 1, 1, 200, 1, 30, 30, 1, 1]
"""Of the messages 1 to 12."""


async def paged(limit: int, before: int) -> HistoryPage:
    """Return a page that holds 60 at most, or one message."""
    found, room = list[Message](), 60
    for seq in range(min(before - 1, len(LENGTHS)), max(0, before - 1 - limit), -1):
        found.insert(0, Message(str(seq), seq, 0, "user", (text_block("x"),)))
        room -= LENGTHS[seq - 1]
        if room <= 0:
            break
    return HistoryPage("k", "s", tuple(found), found[0].seq if found and found[0].seq > 1 else None)


@pytest.mark.parametrize("step", [1, 2, 5, 100])
@pytest.mark.parametrize("after", [0, 3, 12])
async def test_nothing_is_missed_and_nothing_comes_twice(step: int, after: int) -> None:
    told, reached = list[int](), [after]
    async for messages, upto in forwards(paged, after, 12, step):
        told += [message.seq for message in messages]
        reached.append(upto)
    assert told == list(range(after + 1, 13))
    assert reached[-1] == 12
