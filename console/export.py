"""A whole transcript, and how it is written as markdown."""

import json
import re
from dataclasses import replace
from itertools import chain
from typing import Final

from core.gateway import Gateway
from core.model.access import ALL
from core.model.keys import split
from core.model.messages import Message
from core.model.sessions import HistoryPage, Session

PAGE: Final = 200


async def read_whole(gateway: Gateway, ref: str) -> HistoryPage:
    """Read a transcript page by page into one; `ref` is a session id, or a key for its session's current transcript."""
    pages: list[tuple[Message, ...]] = []
    page = await gateway.history(ref, ALL, limit=PAGE)
    pages.append(page.messages)
    while page.before is not None:
        page = await gateway.history(ref, ALL, limit=PAGE, before=page.before)
        pages.append(page.messages)
    return replace(page, messages=tuple(chain.from_iterable(reversed(pages))))


def file_name(session: Session) -> str:
    """Return the file name of an export: made of letters and digits of the key and the transcript's id only."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", session.key).strip("-")[:60]
    return f"{words}-{split(session.session_id)[1][:8]}.md"


def markdown(message: Message) -> str:
    """Return one message as markdown."""
    who = message.role
    if message.provenance is not None:
        who = f"{who} from {message.provenance.source_session_key}"
    parts = [message.text] if message.text else []
    parts += [
        f"`{block.get('name')}` {json.dumps(block.get('arguments'), ensure_ascii=False)}"
        for block in message.content
        if block.get("type") == "toolCall"
    ]
    return f"## {message.seq} · {who}\n\n" + "\n\n".join(parts) + "\n\n"
