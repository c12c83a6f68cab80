"""What the server counts, as Prometheus reads it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple


class _Kind(NamedTuple):
    """What a number is, with the name of its one label, if it has one."""

    type: Literal["counter", "gauge"]
    words: str
    label: str = ""


METRICS: Final[Mapping[str, _Kind]] = MappingProxyType(
    {
        "http_requests": _Kind("counter", "HTTP requests answered, by status.", "status"),
        "auth_failures": _Kind("counter", "Tokens refused, by reason.", "reason"),
        "followers": _Kind("gauge", "Open streams of follow=1."),
        "conversations": _Kind("gauge", "Open conversations over WebSocket and the local socket."),
        "conversations_dropped": _Kind("counter", "Conversations that read too slowly and were let go."),
        "requests": _Kind("counter", "Requests of conversations answered, by method.", "method"),
        "requests_refused": _Kind("counter", "Those of them that were refused, by method.", "method"),
        "parameters_ignored": _Kind("counter", "Parameters that mean nothing here, by method.", "method"),
        "events": _Kind("counter", "Events sent to conversations."),
        "tool_calls": _Kind("counter", "Tools run for clients, by tool.", "tool"),
        "errors": _Kind("counter", "Requests that ended in a defect of the server; the log has it."),
    }
)
"""Every number by its name; the exposed one is `switchboard_<name>`, with `_total` for counters."""


class Metrics:
    """Numbers that only this process knows; they begin at 0 with it."""

    def __init__(self) -> None:
        self._values = {name: Counter[str]() for name in METRICS}

    def add(self, name: str, amount: int = 1, *, label: str = "") -> None:
        """Change a number; the name is one of `METRICS`, the label's value comes from a small set."""
        self._values[name][label] += amount

    def value(self, name: str, *, label: str = "") -> int:
        """Return a number."""
        return self._values[name][label]

    def lines(self) -> Iterable[str]:
        """Return the numbers in the text format of Prometheus."""
        for name, kind in METRICS.items():
            exposed = f"switchboard_{name}{'_total' if kind.type == 'counter' else ''}"
            yield f"# HELP {exposed} {kind.words}"
            yield f"# TYPE {exposed} {kind.type}"
            values = self._values[name]
            if kind.label:
                yield from (f'{exposed}{{{kind.label}="{value}"}} {values[value]}' for value in sorted(values))
            else:
                yield f"{exposed} {values['']}"
