"""Replies as bytes, cut anywhere, read by the code that reads real ones."""

import itertools
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import httpx

from core.agents.endpoint import read_reply
from core.agents.port import Reply, TextDelta, ThinkingDelta
from core.agents.wire import ReplyDecoder

Words = list[TextDelta | ThinkingDelta]


def events(*data: str | Mapping[str, Any]) -> bytes:
    """Return a stream of events with these data; objects become JSON."""
    texts = (item if isinstance(item, str) else json.dumps(item) for item in data)
    return "".join(f"data: {text}\n\n" for text in texts).encode()


async def read(
    decoder: ReplyDecoder, content: bytes | Iterable[bytes], content_type: str = "text/event-stream"
) -> tuple[Words, Reply]:
    """Read an answer that arrives in these pieces; return its deltas and the reply."""
    pieces = [content] if isinstance(content, bytes) else list(content)

    async def arriving() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    response = httpx.Response(200, headers={"content-type": content_type}, content=arriving())
    *deltas, reply = [event async for event in read_reply(response, decoder)]
    assert isinstance(reply, Reply)
    return [delta for delta in deltas if not isinstance(delta, Reply)], reply


def said(deltas: Words) -> str:
    """Return the text of these deltas, without the thinking."""
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def thought(deltas: Words) -> str:
    """Return the thinking of these deltas."""
    return "".join(delta.text for delta in deltas if isinstance(delta, ThinkingDelta))


def cut(content: bytes, places: Iterable[int]) -> list[bytes]:
    """Cut bytes at these places."""
    edges = [0, *sorted({place % (len(content) + 1) for place in places}), len(content)]
    return [content[start:end] for start, end in itertools.pairwise(edges)]
