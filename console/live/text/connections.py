"""How gateways are reached, in words: the same on the top line, beside a session and on the screen of gateways."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from console.live.text.clean import clean_line
from console.live.text.words import LOCAL, age, ago
from core.model.connection import REACHED, Connection, ConnectionState

Colour = Literal["accent", "good", "muted", "warning", "error"]
STALE_MS: Final = 40_000
"""A live gateway that was silent for longer than its signs of life are apart is said to have been."""
REASON_CHARS: Final = 400
"""Characters that are shown of why a gateway is not reached."""
COLOURS: Final[dict[ConnectionState, Colour]] = {
    "live": "good",
    "reading": "muted",
    "starting": "muted",
    "connecting": "muted",
    "lost": "warning",
    "refused": "error",
}


class Word(NamedTuple):
    """Some words and the colour they stand in."""

    text: str
    colour: Colour


def title(connection: Connection) -> str:
    """Return the name of a gateway for the screen."""
    return connection.name or LOCAL


def where(connections: tuple[Connection, ...], now: int, signs: Mapping[ConnectionState, str], room: int) -> list[Word]:
    """Return where the console is and how current that is, in as many words as there is room for.

    Args:
        now: ms since the Unix epoch by the local clock.
        signs: One cell for each state.
        room: Cells.
    """
    forms: tuple[list[Word], ...]
    if len(connections) == 1:
        one = connections[0]
        forms = tuple([*_named(one), *words] for words in (_said(one, now), _said_shortly(one, now), []))
    else:
        forms = tuple(_beside(connections, now, signs, said=said) for said in (True, False))
    return next((form for form in forms if sum(len(word.text) for word in form) <= room), forms[-1])


def state_words(connection: Connection, now: int) -> str:
    """Return the state of a gateway, since when, and when it is tried again: `lost 14s ago, next try 3s`."""
    word = "reading only" if connection.state == "reading" else connection.state
    if connection.state in REACHED:
        if connection.heard_at is not None and now - connection.heard_at > STALE_MS:
            return f"{word}, silent for {age(now - connection.heard_at)}"
        return f"{word} {latency(connection)}".rstrip()
    since = f" {ago(now - connection.heard_at)}" if connection.state == "lost" and connection.heard_at else ""
    return f"{word}{since}{_next_try(connection, now)}"


def latency(connection: Connection) -> str:
    """Return how long the gateway took to answer: `12 ms`, empty where that means nothing."""
    return f"{connection.latency_ms:.0f} ms" if connection.latency_ms is not None else ""


def data_age(connection: Connection, now: int) -> str:
    """Return how old what is shown of a gateway is: `data of 14s ago`; empty while it is current."""
    if connection.state in REACHED or connection.heard_at is None:
        return ""
    return f"data of {ago(now - connection.heard_at)}"


def broken(connection: Connection, now: int) -> tuple[str, str] | None:
    """Return what is wrong with a gateway and what happens next, in two lines; None while it is reached."""
    if connection.state in REACHED:
        return None
    name = title(connection)
    detail = clean_line(connection.detail, REASON_CHARS)
    if connection.state == "connecting":
        return detail or f"{name} is being connected.", "Its sessions show up here."
    if connection.state == "refused":
        again = _next_try(connection, now).removeprefix(", ")
        next_ = f"Tried again by itself: {again}." if again else "Trying again by itself would not help; r tries."
        return detail or f"{name} refused the connection.", next_
    heard = f"last heard {ago(now - connection.heard_at)}" if connection.heard_at is not None else "never heard yet"
    again = _next_try(connection, now).removeprefix(", ") or "being tried now"
    return detail or f"{name} is not connected.", f"{name}: {heard}, {again}."


def _beside(
    connections: tuple[Connection, ...], now: int, signs: Mapping[ConnectionState, str], *, said: bool
) -> list[Word]:
    words: list[Word] = []
    for connection in connections:
        sign = signs[connection.state]
        if said:
            is_well = connection.state in REACHED
            sign = f"{sign} " if is_well else f"{sign} {state_words(connection, now)} "
        words += [*_named(connection), Word(f"{sign} ", COLOURS[connection.state])]
    return words


def _named(connection: Connection) -> list[Word]:
    return [Word(f"{clean_line(title(connection), 40)} ", "accent")]


def _said(connection: Connection, now: int) -> list[Word]:
    """Return the state in words; of what is here and well there is nothing to say."""
    if connection.state == "live" and connection.detail:
        return [Word(f"! {clean_line(connection.detail, 60)}", "warning")]
    if connection.state == "live" and connection.latency_ms is None and connection.heard_at is None:
        return []
    return [Word(state_words(connection, now), COLOURS[connection.state])]


def _said_shortly(connection: Connection, now: int) -> list[Word]:
    if connection.state == "live" and connection.detail:
        return [Word("! see @", "warning")]
    if connection.state == "lost" and connection.heard_at is not None:
        return [Word(f"lost {age(now - connection.heard_at)}", "warning")]
    return [Word(connection.state, COLOURS[connection.state])] if _said(connection, now) else []


def _next_try(connection: Connection, now: int) -> str:
    if connection.retry_at is None:
        return ""
    seconds = -(-(connection.retry_at - now) // 1000)
    return f", next try {age(seconds * 1000)}" if seconds > 1 else f", next try {max(seconds, 0)}s"
