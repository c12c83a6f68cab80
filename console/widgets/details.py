"""The third column of a wide screen: what decides about the selected session, and what it did lately."""

from typing import Final

from rich.style import Style
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from console.live.rows import Row
from console.live.text.exchanges import announce_state, state_words, turn_words
from console.live.text.words import ago, seconds_span, tokens
from console.live.view_model import ViewModel
from console.widgets.drawing import fit, line, palette_of
from core.model.keys import split
from core.model.money import dollars

NEWEST: Final = 5
"""How many exchanges are shown."""


class Details(Widget):
    """Facts about the session `row`, one a line."""

    DEFAULT_CSS = "Details { height: 1fr; border-top: solid $palette-rule; }"

    row: reactive[Row | None] = reactive(None)

    def __init__(self, view_model: ViewModel) -> None:
        super().__init__(id="details")
        self._view_model = view_model

    def render_line(self, y: int) -> Strip:
        palette, width = palette_of(self), self.size.width
        lines = self._lines(self.row) if self.row is not None else []
        if y >= len(lines):
            return Strip.blank(width, self.rich_style)
        label, text, colour = lines[y]
        heading = not label and colour == "text"
        parts = [
            (" " + fit(label, 0 if heading else 14), palette.style("muted")),
            (fit(text, width - (2 if heading else 16)), palette.style(colour, bold=heading) if text else Style()),
        ]
        return line(parts, width, self.rich_style)

    def _lines(self, row: Row) -> list[tuple[str, str, str]]:
        """Return label, text and colour of each line; a line without a label is a heading."""
        session, now = row.session, self._view_model.now_ms(row.session.key)
        lines = [*self._exchanges(session.key), ("", "POLICY", "text")]
        if row.policy is not None:
            told = f"{row.policy.effective} by {row.policy.reason}"
            lines.append(("messages", told, "warning" if row.denied else "text"))
        else:
            lines.append(("messages", "unknown: the rules are not told here", "muted"))
        lines.append(("override", session.send_policy or "inherit", "text"))
        if row.policy is not None:
            policy = self._view_model.gateway.of(session.key).rules.send_policy
            for number, rule in enumerate(policy.rules, 1):
                lines.append((f"rule {number}", f"{rule.action}: {rule.match.words}", "muted"))
            lines.append(("default", policy.default, "muted"))
        lines += [("", "", "text"), ("", "SESSION", "text")]
        if place := self._view_model.place_of(session.key):
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
        newest = self._view_model.exchanges.of(key)[:NEWEST]
        lines = [("", "EXCHANGES", "text")] if newest else []
        for exchange in newest:
            sent = exchange.requester == key
            name = self._view_model.book.name_of(exchange.target if sent else exchange.requester)
            other = f"{'→' if sent else '←'} {name}"
            announce = self._view_model.exchanges.announce(exchange.exchange_id)
            told = f"announce {announce_state(exchange, announce)}"
            lines.append((other, f"{turn_words(exchange):<5}{state_words(exchange):<13}{told}", "text"))
            reason = (announce.reason if announce is not None else None) or exchange.reason
            if reason:
                lines.append(("", f"{'':5}{reason}", "muted"))
        return [*lines, ("", "", "text")] if lines else []
