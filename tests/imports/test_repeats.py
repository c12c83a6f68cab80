"""A reply that an abort cut off: kept twice by some gateways, and once here."""

from typing import Any

import pytest

from core.imports.repeats import WORDS
from core.store.database import Store
from tests.imports.folders import Newer, Older, Talk
from tests.imports.here import MAIN, bring, reasons, said

RUN, OTHER = "973c7ec3-b451-4bad-a941-66b3889be19b", "a20c3741-25ec-4a1a-a7e1-7ce01ce6fe62"


def note(talk: Talk, text: str, run_id: str = RUN) -> None:
    """Append what the gateway notes of a run that is aborted."""
    abort = {"aborted": True, "origin": "rpc", "runId": run_id}
    talk.reply(text, provider="openclaw", model="gateway-injected", openclawAbort=abort)


def ask(talk: Talk, text: str, run_id: str | None = RUN) -> None:
    """Append a question as the run writes it."""
    message: dict[str, Any] = {"role": "user", "content": text}
    talk.add("message", message=message if run_id is None else {**message, "idempotencyKey": f"{run_id}:user"})


def end(talk: Talk, text: str, run_id: str = RUN, **more: Any) -> None:
    """Append what the run itself writes when it is aborted."""
    talk.add(
        "custom", customType="openclaw:prompt-error", data={"runId": run_id, "error": "This operation was aborted"}
    )
    talk.reply(text, stopReason="aborted", **more)


@pytest.mark.parametrize(("asked_by", "reply"), [(RUN, "w0 w1 "), (None, "w0 w1"), (RUN, "w0 w1 w2")])
async def test_the_runs_own_entry_takes_the_place_of_the_note(
    store: Store, theirs: Older | Newer, asked_by: str | None, reply: str
) -> None:
    talk = Talk()
    note(talk, "w0 w1")
    ask(talk, "count", asked_by)
    end(talk, reply)
    talk.user("go on")
    theirs.put(MAIN, talk)
    report = await bring(store, theirs)
    assert [message.text for message in said(store)] == ["count", "the run was aborted", reply, "go on"]
    assert reasons(report)[WORDS] == 1
    assert (await bring(store, theirs)).unchanged == 1


@pytest.mark.parametrize("case", ["words", "run", "question", "between", "two questions", "tools", "unproven", "alone"])
async def test_what_may_be_something_else_stays(store: Store, theirs: Older | Newer, case: str) -> None:
    talk = Talk()
    note(talk, "w0 w1")
    if case == "between":
        talk.reply("w0")
    if case == "two questions":
        ask(talk, "and")
    if case != "alone":
        ask(talk, "count", OTHER if case == "question" else RUN)
    if case == "unproven":
        talk.reply("w0 w1", stopReason="aborted")
    elif case == "tools":
        call: dict[str, Any] = {"type": "toolCall", "id": "c", "name": "x", "arguments": {}}
        end(talk, "", content=[{"type": "text", "text": "w0 w1"}, call])
    elif case != "alone":
        end(talk, "w0" if case == "words" else "w0 w1", OTHER if case == "run" else RUN)
    theirs.put(MAIN, talk)
    report = await bring(store, theirs)
    assert said(store)[0].text == "w0 w1"
    assert WORDS not in reasons(report)


async def test_the_only_one_that_counts_stays(store: Store, theirs: Older | Newer) -> None:
    talk = Talk()
    note(talk, "w0 w1")
    kept = talk.last
    ask(talk, "count")
    end(talk, "w0 w1")
    talk.user("asked anew", parentId=kept)
    theirs.put(MAIN, talk)
    await bring(store, theirs)
    assert [message.text for message in said(store)] == ["w0 w1", "asked anew"]
