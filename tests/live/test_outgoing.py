"""What is on its way from the composer, and what stays in it."""

import asyncio
from pathlib import Path

from console.live.memory import Memory
from console.live.outgoing import Outgoing


def test_what_is_on_its_way_is_not_sent_again() -> None:
    outgoing = Outgoing()
    assert outgoing.rest("ops", "one") == "one"
    outgoing.add("ops", "one")
    assert outgoing.rest("ops", "one") == ""
    assert outgoing.rest("ops", "onetwo") == "two"
    assert outgoing.rest("main", "one") == "one", "another session's"
    outgoing.add("ops", "two")
    assert outgoing.rest("ops", "onetwothree") == "three"
    assert outgoing.rest("ops", "something else") == "something else"


async def test_messages_of_one_session_go_in_order_and_others_do_not_wait() -> None:
    outgoing, done, first_goes_on = Outgoing(), list[str](), asyncio.Event()

    async def send(key: str, text: str) -> None:
        async with outgoing.turn(key, text):
            if text == "one":
                await first_goes_on.wait()
            done.append(text)

    for key, text in (("ops", "one"), ("ops", "two"), ("main", "other")):
        outgoing.add(key, text)
    sending = asyncio.gather(send("ops", "one"), send("ops", "two"), send("main", "other"))
    while not done:
        await asyncio.sleep(0)
    assert done == ["other"]
    first_goes_on.set()
    await sending
    assert done == ["other", "one", "two"]
    assert outgoing.rest("ops", "onetwo") == "onetwo"


async def test_what_was_written_behind_a_refused_message_stays_with_it() -> None:
    outgoing, went = Outgoing(), list[bool]()
    for text in ("one", "two"):
        outgoing.add("ops", text)
    async with outgoing.turn("ops", "one") as goes:
        went.append(goes)
        outgoing.refuse("ops")
    async with outgoing.turn("ops", "two") as goes:
        went.append(goes)
    assert went == [True, False]
    assert outgoing.rest("ops", "onetwo") == "onetwo"


def test_what_was_written_behind_a_message_stays(tmp_path: Path) -> None:
    memory = Memory.load(tmp_path)
    memory.keep_draft("ops", "onetwo")
    memory.move_to_history("ops", "one")
    assert (memory.drafts, memory.history) == ({"ops": "two"}, ["one"])
    memory.move_to_history("ops", "two")
    assert memory.drafts == {}
