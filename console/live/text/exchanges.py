"""What the console says of exchanges and announces: the same words on every screen and on the command line.

What happened to the message, to the run and to the announce are never merged into one word (architecture#states).
"""

from collections.abc import Callable, Iterable
from typing import Final

from console.live.text.clean import clean_line
from console.live.transcript import Step
from core.model.exchanges import Delivery, DeliveryState, Exchange
from core.model.keys import split

NameOf = Callable[[str], str]
_IN_THE_TREE: Final[dict[DeliveryState, str]] = {"sent": "announced", "failed": "undelivered"}


def short_id(exchange_id: str) -> str:
    """Return the beginning of an exchange's id: enough to tell those of one transcript apart."""
    return clean_line(split(exchange_id)[1], 4)


def place_words(step: Step, exchange: Exchange | None) -> str:
    """Return where in its exchange a message stands: `exchange 7f3a  turn 2 of 5`."""
    if step.kind == "subagent":
        return "task"
    words = f"exchange {short_id(step.exchange_id)}"
    if step.kind != "reply":
        return words
    return f"{words}  turn {step.turn}" + (f" of {exchange.max_turns}" if exchange is not None else "")


def state_words(exchange: Exchange) -> str:
    """Return the state of an exchange in a word or two: how it ended, or that it has not."""
    return exchange.outcome or ("first reply" if exchange.state == "first" else exchange.state)


def turn_words(exchange: Exchange) -> str:
    """Return turns begun and allowed: `2/5`; nothing where there is no loop."""
    return f"{exchange.turn}/{exchange.max_turns}" if exchange.kind == "send" else ""


def next_words(live: Iterable[Exchange], key: str, name_of: NameOf) -> str:
    """Return who is next in a session's exchanges, the newest first, that have not ended; nothing without any."""
    first, *others = [e for e in live if e.state != "ended" and e.kind == "send"] or [None]
    if first is None:
        return ""
    other = name_of(first.requester if key == first.target else first.target)
    more = f"; {len(others)} more under way" if others else ""
    return f"exchange with {other}: {_turn_sentence(first, name_of)}{more}"


def progress_sentence(exchange: Exchange, name_of: NameOf) -> str:
    """Return how far an exchange has come: `exchange main → ops: turn 2 of 5, ops is next`."""
    how = _turn_sentence(exchange, name_of)
    if exchange.outcome is not None:
        how = exchange.outcome + (f": {exchange.reason}" if exchange.reason else "")
    return f"exchange {name_of(exchange.requester)} → {name_of(exchange.target)}: {how}"


def _turn_sentence(exchange: Exchange, name_of: NameOf) -> str:
    turn = f"turn {exchange.turn} of {exchange.max_turns}" if exchange.turn else f"no turn of {exchange.max_turns} yet"
    if not exchange.max_turns:
        turn = "no turns"
    does = "writes the announce" if exchange.state == "announcing" else "is next"
    return f"{turn}, {name_of(exchange.next_key)} {does}"


def announce_state(exchange: Exchange, announce: Delivery | None) -> str:
    """Return what became of an announce in one word or two."""
    if announce is not None:
        return announce.state
    return "none" if exchange.outcome not in {None, "done"} else "not yet"


def tree_words(exchange: Exchange, announce: Delivery | None) -> str:
    """Return the same where the state of a run stands beside it, in at most eleven cells: none of its words is used."""
    return _IN_THE_TREE.get(announce.state, announce.state) if announce is not None else announce_state(exchange, None)


def address_words(announce: Delivery) -> str:
    """Return where an announce goes: `discord group:ops`."""
    return f"{announce.channel} {announce.to}".rstrip()


def announce_sentence(announce: Delivery) -> str:
    """Return where an announce goes, how that went, and why: `announce to discord group:ops: sent`."""
    reason = f": {announce.reason}" if announce.reason else ""
    return f"announce to {address_words(announce)}: {announce.state}{reason}"


def end_sentence(exchange: Exchange, name: str) -> str:
    """Return how an exchange with the session called `name` ended that has nothing to announce."""
    reason = f": {exchange.reason}" if exchange.reason else ""
    return f"exchange with {name}: {exchange.outcome}, nothing is announced{reason}"
