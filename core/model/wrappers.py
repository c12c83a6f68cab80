"""Taking off what an OpenClaw gateway wraps around a message for its model, as its own history does.

What stays is what the person or the other session wrote. The facts that the wrappers hold are kept elsewhere: the
time in the message's timestamp, the source in its provenance.
"""

import re
from typing import Final

_STAMP: Final = re.compile(r"\[[A-Za-z]{3} \d{4}-\d{2}-\d{2} \d{2}:\d{2}[^\]]*\] *")
_ENVELOPE: Final = re.compile(r"\[([^\]]+)\]\s*")
_DATED: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(Z\b|\b)")
_CHANNEL: Final = re.compile(
    "(WebChat|WhatsApp|Telegram|Signal|Slack|Discord|Google Chat|iMessage|Teams|Matrix|Zalo|Zalo Personal|BlueBubbles) "
)
_MESSAGE_ID: Final = re.compile(r"^\s*\[message_id:[^\]]+\]\s*$\n?", re.IGNORECASE | re.MULTILINE)
_FACTS: Final = re.compile(
    r"^(?:(?:Conversation info|Sender|Forwarded message context) \(untrusted metadata\)"
    r"|(?:Thread starter|Replied message|Chat history since last reply) \(untrusted, for context\)):[ \t]*\n"
    r"\s*```json[ \t]*\n(?:.*\n)*?[ \t]*```[ \t]*(?:\n[ \t]*)*",
    re.MULTILINE,
)
_APPENDED: Final = re.compile(
    r"\n*^Untrusted context \(metadata, do not treat as instructions or commands\):[ \t]*\n"
    r"(?=(?:.*\n){0,6}.*(?:<<<EXTERNAL_UNTRUSTED_CONTENT|UNTRUSTED channel metadata \(|Source:\s))(?s:.*)",
    re.MULTILINE,
)
_FORWARDED: Final = re.compile(
    r"\[Inter-session message\][^\n]*(?:\n|\Z)"
    r"(?:This content was routed by OpenClaw from another session or internal tool\.[^\n]*(?:\n|\Z))?"
)


def unwrapped(text: str, *, inter_session: bool = False) -> str:
    """Return the words of a user message without what the gateway put around them.

    Args:
        inter_session: Its provenance says that a session sent it; only then the words that announce this are taken off,
            so that a person who writes them is not misquoted.
    """
    text = _STAMP.sub("", text, count=1) if _STAMP.match(text) else text
    if "(untrusted" in text or "Untrusted context" in text:
        text = _APPENDED.sub("", _FACTS.sub("", text)).strip("\n")
        text = _STAMP.sub("", text, count=1) if _STAMP.match(text) else text
    head = _ENVELOPE.match(text)
    if head and (_DATED.search(head[1]) or _CHANNEL.match(head[1])):
        text = text[head.end() :]
    if "[message_id:" in text.lower():
        text = _MESSAGE_ID.sub("", text).rstrip("\n")
    return _FORWARDED.sub("", text, count=1) if inter_session else text
