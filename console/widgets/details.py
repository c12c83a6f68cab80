"""The third column of a wide screen: what decides about the selected session, and what it did lately."""

from typing import Final

from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from console.live.desk import Desk
from console.live.exchange_words import announce_state, state_words, turn_words
from console.live.rows import Row
from console.live.words import ago, seconds_span, tokens
from console.widgets.ink import fit, inks_of, line
from core.model.keys import split
from core.model.money import dollars

NEWEST: Final = 5
"""How many exchanges are shown."""


class Details(Widget):
    """Facts about one session, one a line."""

    DEFAULT_CSS = "Details { height: 1fr; border-top: solid $ink-rule; }"

    def __init__(self, desk: Desk) -> None:
        super().__init__(id="details")
        self._desk = desk
        self._row: Row | None = None

    def show(self, row: Row | None) -> None:
        """Show a session."""
        if row is not self._row:
            self._row = row
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw a line."""
        inks, width = inks_of(self), self.size.width
        lines = self._lines(self._row) if self._row is not None else []
        if y >= len(lines):
            return Strip.blank(width, self.rich_style)
        label, text, ink = lines[y]
        heading = not label and ink == "text"
        parts = [
            (" " + fit(label, 0 if heading else 14), inks.style("muted")),
            (fit(text, width - (2 if heading else 16)), inks.style(ink, bold=heading) if text else Style()),
        ]
        return line(parts, width, self.rich_style)

    def _lines(self, row: Row) -> list[tuple[str, str, str]]:
        """Return label, text and ink of each line; a line without a label is a heading."""
        session, now = row.session, self._desk.now_ms(row.session.key)
        lines = [*self._exchanges(session.key), ("", "POLICY", "text")]
        if row.policy is not None:
            told = f"{row.policy.effective} by {row.policy.reason}"
            lines.append(("messages", told, "warning" if row.denied else "text"))
        else:
            lines.append(("messages", "unknown: the rules are not told here", "muted"))
        lines.append(("override", session.send_policy or "inherit", "text"))
        if row.policy is not None:
            policy = self._desk.gateway.rules_of(session.key).send_policy
            for number, rule in enumerate(policy.rules, 1):
                lines.append((f"rule {number}", f"{rule.action}: {rule.match.words}", "muted"))
            lines.append(("default", policy.default, "muted"))
        lines += [("", "", "text"), ("", "SESSION", "text")]
        if place := self._desk.place_of(session.key):
            lines.append(("gateway", place.removeprefix("@"), "text"))
        lines.append(("kind", f"{session.kind}, agent {session.agent_id}", "text"))
        lines.append(("id", split(session.session_id)[1], "muted"))
        lines.append(("messages", str(session.last_seq - session.first_seq + 1), "text"))
        lines.append(("model", session.model or session.used_model or "the agent's own", "text"))
        if session.thinking_level:
            lines.append(("thinking", session.thinking_level, "text"))
        lines.append(("created", ago(now - session.created_at), "text"))
        if session.runtime_ms is not None:
            lines.append(("last run", f"{seconds_span(session.runtime_ms)}, {session.status or ''}", "text"))
        if session.spent_tokens:
            cost = f", {dollars(session.cost_usd)}" if session.cost_usd is not None else ""
            lines.append(("spent", f"{tokens(session.spent_tokens)} tokens{cost}", "text"))
        return lines

    def _exchanges(self, key: str) -> list[tuple[str, str, str]]:
        """Return the newest exchanges of a session: the other side, turns, how it stands or ended, its announce."""
        newest = self._desk.exchanges.of(key)[:NEWEST]
        lines = [("", "EXCHANGES", "text")] if newest else []
        for exchange in newest:
            sent = exchange.requester == key
            other = f"{'→' if sent else '←'} {self._desk.name_of(exchange.target if sent else exchange.requester)}"
            announce = self._desk.exchanges.announce(exchange.exchange_id)
            told = f"announce {announce_state(exchange, announce)}"
            lines.append((other, f"{turn_words(exchange):<5}{state_words(exchange):<13}{told}", "text"))
            reason = (announce.reason if announce is not None else None) or exchange.reason
            if reason:
                lines.append(("", f"{'':5}{reason}", "muted"))
        return [*lines, ("", "", "text")] if lines else []
