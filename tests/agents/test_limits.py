"""An endpoint that sends too much of anything is refused in a sentence, in little memory, and never holds the loop."""

import asyncio
import contextlib
import gc
import gzip
import json
import threading
import time
import tracemalloc
import zlib
from collections.abc import AsyncGenerator, Generator, Mapping
from typing import Any

import pytest

from core.agents import reading
from core.agents.model import ModelBackend
from core.agents.port import Reply, ToolEnded
from core.agents.wire import MAX_ARGUMENTS, MAX_WORDS, OFF_LOOP_CHARS
from tests.agents.endless import Endless, packed
from tests.agents.turns import MakeModel, Tools, failure, run, turn
from tests.support.model_formats import Data, Raw
from tests.support.model_server import ModelServer, Plain, RawAnswer, stream

MEGABYTE = 1024 * 1024


VALUES = 100_000
"""Values in one piece of JSON, which is as long as the loop may be held."""


def reference() -> float:
    """Return the seconds that reading so many values takes on this machine, as it is at this moment."""
    text = f"[{'[],' * VALUES}[]]"
    taken: list[float] = []
    for _ in range(3):
        before = time.thread_time()
        json.loads(text)
        taken.append(time.thread_time() - before)
    return max(taken)


@contextlib.asynccontextmanager
async def unheld() -> AsyncGenerator[None]:
    """Fail when the loop is held for long at a stretch, in its thread's own time and as fast as this machine is now.

    What the collector of garbage does with all that the tests before have left is none of it.
    """
    longest = 0.0
    gc.collect()
    gc.disable()
    most = 3 * reference()

    async def look() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        gc.enable()
    most = max(most, 3 * reference())
    assert longest < most, f"the loop was held for {longest * 1000:.0f} ms, which may be {most * 1000:.0f}"


@contextlib.contextmanager
def little_memory(megabytes: float) -> Generator[None]:
    """Fail when more than that is held at once."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * MEGABYTE
    finally:
        tracemalloc.stop()


async def refused(backend: ModelBackend, url: str, model: MakeModel, expected: str) -> None:
    """Ask at an address, and be refused in one sentence, in little memory."""
    with little_memory(20):
        sentence = await failure(backend, turn(model(base_url=url)))
    assert expected in sentence
    assert len(sentence) < 400


@pytest.mark.parametrize(
    "line",
    [
        b"x" * 65_536,
        b"data: " + b"x" * 65_536,
        (b": " + b"x" * 500 + b"\n") * 100,
        (b"data: " + b"x" * 500 + b"\n") * 100,
    ],
    ids=["a line", "a line of data", "comments", "lines of data"],
)
async def test_an_event_that_never_ends(backend: ModelBackend, server: ModelServer, line: bytes):
    async with Endless("text/event-stream", line) as url, unheld():
        await refused(backend, url, server.openai_model, "sent an event of more than 4 MB, which no reply needs")


async def test_an_answer_that_never_ends(backend: ModelBackend, model: MakeModel):
    async with Endless("application/json", b'{"a": "' + b"x" * 65_536) as url, unheld():
        await refused(backend, url, model, "sent an answer of more than 4 MB, which no reply needs")


async def test_an_error_that_never_ends_is_quoted_from_its_beginning(backend: ModelBackend, model: MakeModel):
    async with Endless("text/plain", b"no " * 20_000, status="400 Bad Request") as url, unheld():
        await refused(backend, url, model, "refused: 400 no no no")


@pytest.mark.parametrize(
    ("kind", "encoding", "content", "words"),
    [
        ("text/event-stream", "gzip", b"x", "sent an event of more than 4 MB"),
        ("text/event-stream", "gzip", b"\n", "is more than 16 MB when it is unpacked"),
        ("application/json", "gzip", b"{", "sent an answer of more than 4 MB"),
        ("application/json", "deflate", b"x", "sent an answer of more than 4 MB"),
    ],
    ids=["a line", "empty lines", "an answer", "deflate"],
)
async def test_a_bomb_of_300_megabytes(
    backend: ModelBackend, server: ModelServer, kind: str, encoding: str, content: bytes, words: str
):
    bomb = packed(content, 300, encoding)
    assert len(bomb) < 2 * MEGABYTE
    async with Endless(kind, bomb, encoding=encoding, once=True) as url, unheld():
        await refused(backend, url, server.openai_model, words)


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", "deflate without a header"])
async def test_what_comes_packed_is_read(backend: ModelBackend, server: ModelServer, encoding: str):
    text = json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}).encode()
    raw = zlib.compressobj(wbits=-15)
    body = {
        "deflate": zlib.compress(text),
        "deflate without a header": raw.compress(text) + raw.flush(),
    }.get(encoding, gzip.compress(text))
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: {encoding.split(maxsplit=1)[0]}\r\n"
    server.script(RawAnswer(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body))
    events = await run(backend, turn(server.openai_model()))
    assert isinstance(events[-1], Reply)
    assert events[-1].content[0]["text"] == "hello"


@pytest.mark.parametrize(("encoding", "words"), [("br", "answered packed as br"), ("gzip", "that is damaged")])
async def test_what_cannot_be_unpacked_says_so(backend: ModelBackend, server: ModelServer, encoding: str, words: str):
    server.script(Plain(body="no such thing", headers={"Content-Encoding": encoding}))
    assert words in await failure(backend, turn(server.openai_model()))


def openai_arguments(text: str, number: int) -> dict[str, Any]:
    function = {"name": "look" if number == 0 else "", "arguments": text}
    return {
        "choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c" if number == 0 else "", "function": function}]}}]
    }


def anthropic_arguments(text: str, number: int) -> dict[str, Any]:
    if number == 0:
        return {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "c", "name": "look"},
        }
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text}}


@pytest.mark.parametrize("size", [1_000, 100_000, 3_000_000])
async def test_arguments_that_never_end(backend: ModelBackend, server: ModelServer, model: MakeModel, size: int):
    one = anthropic_arguments if model().api == "anthropic-messages" else openai_arguments
    pieces = [f"data: {json.dumps(one('x' * size, number))}\n\n".encode() for number in range(2)]
    async with Endless("text/event-stream", pieces[1], first=pieces[0]) as url, unheld():
        await refused(backend, url, model, f"called tools with more than {MAX_ARGUMENTS:,} characters of arguments")


async def test_words_that_never_end(backend: ModelBackend, server: ModelServer):
    piece = json.dumps({"choices": [{"delta": {"content": "word " * 2_000}}]})
    async with Endless("text/event-stream", f"data: {piece}\n\n".encode()) as url, unheld():
        with little_memory(60):
            sentence = await failure(backend, turn(server.openai_model(base_url=url)))
        assert f"sent a reply of more than {MAX_WORDS:,} characters" in sentence


async def test_calls_that_never_end(backend: ModelBackend, server: ModelServer):
    pieces = (
        json.dumps({"choices": [{"delta": {"tool_calls": [{"id": f"c{n}", "function": {"name": "look"}}]}}]})
        for n in range(5_001)
    )
    content = "".join(f"data: {piece}\n\n" for piece in pieces).encode()
    server.script(stream(Raw(content)))
    assert "sent a reply of more than 5,000 parts" in await failure(backend, turn(server.openai_model()))


async def test_json_of_a_million_values_is_not_even_read(backend: ModelBackend, server: ModelServer):
    server.script(stream(Data('{"a": [' + "[]," * 1_000_000 + "[]]}")))
    async with unheld():
        sentence = await failure(backend, turn(server.openai_model()))
    assert "sent JSON of more than 100,000 values in one piece" in sentence


async def test_large_arguments_are_taken_and_parsed_beside_the_loop(
    backend: ModelBackend, server: ModelServer, model: MakeModel, monkeypatch: pytest.MonkeyPatch
):
    load, beside = reading.load, dict[bool, set[bool]]()

    def noted(data: str) -> Mapping[str, Any]:
        is_long = len(data) > OFF_LOOP_CHARS
        beside.setdefault(is_long, set()).add(threading.current_thread() is not threading.main_thread())
        return load(data)

    monkeypatch.setattr(reading, "load", noted)
    arguments = {"at": "x" * (MAX_ARGUMENTS - 1_000)}
    one = anthropic_arguments if model().api == "anthropic-messages" else openai_arguments
    text = json.dumps(arguments)
    end: dict[str, Any] = (
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
        if one is anthropic_arguments
        else {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    )
    steps = [one("", 0), one(text, 1), end]
    server.script(stream(*(Data(json.dumps(step)) for step in steps), ended=False), stream("thanks"))
    tools = Tools()
    async with unheld():
        events = await run(backend, turn(model(), tools=tools))
    assert [arguments_ for _, _, arguments_ in tools.calls] == [arguments]
    assert isinstance(events[-1], Reply)
    assert beside[True] == {True}, "what is long is read in another thread"


@pytest.mark.parametrize("value", ["1e999", "-1e999", "NaN", "Infinity"])
@pytest.mark.parametrize("as_text", [True, False])
async def test_numbers_that_json_does_not_have_are_answered_and_never_run(
    backend: ModelBackend, server: ModelServer, value: str, as_text: bool
):
    raw = f'{{"limit": {value}}}'
    shown = json.dumps(raw) if as_text else raw
    chunk = (
        '{"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "look", "arguments": '
        f'{shown}}}}}]}}, "finish_reason": "tool_calls"}}]}}'
    )
    server.script(stream(Data(chunk), ended=False), stream("sorry"))
    tools = Tools()
    events = await run(backend, turn(server.openai_model(), tools=tools))
    assert tools.calls == []
    (ended,) = [event for event in events if isinstance(event, ToolEnded)]
    assert ended.result.is_error
    assert "the arguments are not valid (" in json.loads(ended.result.text)["error"]
    asking = next(event for event in events if isinstance(event, Reply))
    assert json.loads(json.dumps(asking.content[0], allow_nan=False))["arguments"] == {}


async def test_numbers_of_an_anthropic_call_too(backend: ModelBackend, server: ModelServer):
    block = '{"type": "tool_use", "id": "c", "name": "look", "input": {"limit": Infinity}}'
    start = f'{{"type": "content_block_start", "index": 0, "content_block": {block}}}'
    end = json.dumps({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    server.script(stream(Data(start), Data(end), ended=False), stream("sorry"))
    tools = Tools()
    events = await run(backend, turn(server.anthropic_model(), tools=tools))
    assert tools.calls == []
    assert any(isinstance(event, ToolEnded) and event.result.is_error for event in events)


def test_pieces_are_small_whatever_arrives():
    unpack = reading.Unpacker("gzip")
    assert max(map(len, unpack(packed(b"x", 1, "gzip")))) <= 8 * 1024
