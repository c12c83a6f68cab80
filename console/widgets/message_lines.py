"""What a transcript's rows look like: who spoke, their words, their tools. Cut into chunks that are drawn when seen."""

import textwrap
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from console.live.exchanges import Exchanges
from console.live.items import FOLDED_LINES, Item, Part
from console.live.text.clean import clean_line
from console.live.text.exchanges import address_words, announce_sentence, end_sentence, place_words, short_id
from console.live.text.markdown_blocks import split_blocks
from console.live.text.words import seconds_span, size
from console.live.transcript import LiveReply, Step, Transcript
from console.themes import UNICODE_SIGNS, Palette
from console.widgets.drawing import PLAIN, fit
from console.widgets.markdown_lines import Line, MarkdownLines
from core.model.exchanges import ANNOUNCE_SKIP, REPLY_SKIP, Exchange

INDENT: Final = 2
KEPT_BLOCKS: Final = 2_000
_SPOKEN_BY_AGENT: Final = frozenset({"assistant", "toolResult"})
_SKIPS: Final = {REPLY_SKIP: "ends the exchange", ANNOUNCE_SKIP: "announces nothing"}
_VIA_WORDS: Final = {"sessions_send": "message from another session", "sessions_spawn": "result of a sub-agent"}


@dataclass(slots=True)
class Chunk:
    """Some lines of a row that are drawn together.

    Attributes:
        draw: Makes the lines; called once, when they are first seen.
        height: Number of lines; a guess until they were drawn.
        lines: What was drawn.
    """

    draw: Callable[[], list[Line]]
    height: int
    lines: list[Line] | None = field(default=None)

    def get(self) -> list[Line]:
        """Return the lines, drawing them at the first time."""
        if self.lines is None:
            self.lines = self.draw()
            self.height = len(self.lines)
        return self.lines


@dataclass(slots=True)
class MessageLines:
    """Draws the rows of one transcript at one width.

    Attributes:
        agent_name: Name of the session's own agent.
        name_of: Turns the key of another session into its name.
        exchanges: What is known of the exchanges that messages belong to.
        thinking: Show what models think.
    """

    palette: Palette
    markdown: MarkdownLines
    width: int
    agent_name: str
    name_of: Callable[[str], str]
    exchanges: Exchanges
    thinking: bool = False
    _blocks: OrderedDict[tuple[str, bool, bool], Chunk] = field(default_factory=OrderedDict, init=False)

    def chunks(self, transcript: Transcript, item: Item, now_ms: int) -> list[Chunk]:
        """Return a row as chunks: the message, and below the last one of an exchange what came of that."""
        step = transcript.steps.get(item.seq)
        if is_announce_step(transcript, item):
            chunks = self._announce_step(transcript, item)
        elif step is not None and item.role == "assistant" and item.text.strip() in _SKIPS:
            said, when = item.text.strip(), local_time(item.timestamp, item.timestamp)
            chunks = [self._words(f"{when}  {self.agent_name} {_SKIPS[said]} ({said})", "muted")]
        else:
            chunks = self._message(transcript, item, step, now_ms)
        exchange = self._ending(transcript, item)
        return [*chunks, *self._outcome(transcript, item, exchange)] if exchange is not None else chunks

    def _message(self, transcript: Transcript, item: Item, step: Step | None, now_ms: int) -> list[Chunk]:
        before = transcript.peek(item.seq - 1) if item.seq > transcript.first else None
        chunks: list[Chunk] = []
        goes_on = item.role in _SPOKEN_BY_AGENT and _agent_goes_on(before)
        if item.role != "system" and not goes_on:
            space: list[Line] = [[]] if item.seq > transcript.first else []
            chunks.append(_done([*space, self._header(item, step, now_ms)]))
        elif goes_on and item.parts and item.parts[0].kind == "speech":
            chunks.append(_done([[]]))
        for part in item.parts:
            chunks += self._part(transcript, item, part)
        if item.stop_reason and item.role == "assistant":
            words = {"aborted": "cut short: the run was stopped", "length": "cut short by the model's limit"}
            chunks.append(self._words(words.get(item.stop_reason, "cut short: the run failed"), "muted"))
        return chunks

    def live(self, transcript: Transcript, reply: LiveReply | None, now_ms: int, since_ms: int) -> list[Chunk]:
        """Return the reply under way as chunks; its run started at `since_ms`, ms since the Unix epoch."""
        chunks: list[Chunk] = []
        if not _agent_goes_on(transcript.peek(transcript.last)):
            chunks.append(_done([[], self._author_line(self.agent_name, "", since_ms, now_ms)]))
        elif reply is not None and reply.blocks and reply.blocks[0].kind == "text":
            chunks.append(_done([[]]))
        for block in reply.blocks if reply is not None else ():
            if block.kind == "thinking":
                chunks += self._thought(block.words.text)
            else:
                chunks += [self._speech(part.source) for part in block.words.blocks]
        for tool in reply.tools.values() if reply is not None else ():
            took = seconds_span(max(0, now_ms - tool.started_at))
            chunks.append(_done([self._tool_line("●", "accent", tool.name, tool.note, f"{took}  at work")]))
        if reply is None or not (reply.blocks or reply.tools):
            chunks.append(self._words(f"● at work  {seconds_span(max(0, now_ms - since_ms))}", "accent"))
        return chunks

    def missing(self, height: int, why: str) -> list[Line]:
        """Return the lines of a row that is not in memory: it is being read, or it cannot be for a reason."""
        style = self.palette.style("error" if why else "muted")
        words = textwrap.wrap(f"× not read: {why}", max(8, self.width - 4)) if why else ["…"]
        return [self._indented([Segment(each, style)]) for each in words[: height - 1]]

    def _header(self, item: Item, step: Step | None, now_ms: int) -> Line:
        exchange = self.exchanges.get(step.exchange_id) if step is not None else None
        source = item.source
        if step is not None and step.kind == "subagent" and exchange is not None:
            source = exchange.requester
        if source is not None and item.role == "user":
            who = f"{self.name_of(source)} → {self.agent_name}"
            about = place_words(step, exchange) if step is not None else _VIA_WORDS.get(item.via, item.via)
            return self._author_line(who, about, item.timestamp, now_ms)
        if item.role == "user":
            return self._author_line("user", "", item.timestamp, now_ms)
        return self._author_line(self.agent_name, item.model, item.timestamp, now_ms)

    def _author_line(self, who: str, about: str, at_ms: int, now_ms: int) -> Line:
        palette = self.palette
        when = local_time(at_ms, now_ms)
        about = fit(about, min(cell_len(about), self.width // 2)) if about else ""
        room = max(4, self.width - len(when) - cell_len(about) - 4)
        return [
            Segment(when + "  ", palette.style("muted")),
            Segment(fit(who, room), palette.style("text", bold=True)),
            Segment("  " + about, palette.style("muted")),
        ]

    def _announce_step(self, transcript: Transcript, item: Item) -> list[Chunk]:
        """Draw the message that asks a session what to announce: one line, with all of it on demand."""
        open_ = item.seq in transcript.unfolded
        exchange_id = transcript.steps[item.seq].exchange_id
        announce = self.exchanges.announce(exchange_id)
        asked = f"{self.agent_name} is asked what to say"
        if announce is not None:
            asked += f" on {address_words(announce)}"
        state = f"exchange {short_id(exchange_id)}"
        chunks = [_done([[], self._tool_line("▾" if open_ else "▸", "muted", "announce step", asked, state)])]
        if open_:
            chunks += [self._speech(block.raw, plain=True) for block in split_blocks(item.text)]
        return chunks

    def _ending(self, transcript: Transcript, item: Item) -> Exchange | None:
        """Return the exchange that has its last message here."""
        if item.is_result and item.source is not None:
            exchange = self.exchanges.spawn_of(item.source)
            if exchange is not None and exchange.requester == transcript.key:
                return exchange
        exchange_id = transcript.ends(item.seq)
        return self.exchanges.get(exchange_id) if exchange_id is not None else None

    def _outcome(self, transcript: Transcript, item: Item, exchange: Exchange) -> list[Chunk]:
        """Draw what came of an exchange."""
        announce = self.exchanges.announce(exchange.exchange_id)
        if announce is not None and announce.is_denied and announce.key == transcript.key:
            return []  # a note in this transcript says it
        if announce is not None:
            colour = {"failed": "error", "unknown": "warning"}.get(announce.state, "muted")
            sign = UNICODE_SIGNS.deliveries[announce.state]
            return [_done([[]]), self._words(f"{sign} {announce_sentence(announce)}", colour)]
        if exchange.state == "announcing" and not is_announce_step(transcript, item):
            return [_done([[]]), self._words(f"◌ announce: {self.name_of(exchange.target)} writes it", "muted")]
        if exchange.state == "ended" and exchange.outcome != "done":
            other = exchange.requester if transcript.key == exchange.target else exchange.target
            return [_done([[]]), self._words(end_sentence(exchange, self.name_of(other)), "muted")]
        return []

    def _part(self, transcript: Transcript, item: Item, part: Part) -> Iterator[Chunk]:
        match part.kind:
            case "speech":
                yield from (self._speech(block.source) for block in split_blocks(part.text))
            case "plain":
                yield from (self._speech(block.raw, plain=True) for block in split_blocks(part.text))
            case "thinking":
                yield from self._thought(part.text)
            case "call":
                if not transcript.answered(item.seq, part.call_id):
                    yield _done([self._tool_line("▸", "muted", part.name, part.text, "no answer yet")])
            case "result":
                yield from self._result(transcript, item, part)
            case "note":
                when = f"{local_time(item.timestamp, item.timestamp)}  " if item.timestamp else ""  # 0 is not known
                yield self._words(f"{when}{part.text}", "muted")
            case "failure":
                yield self._words(f"× {part.text}", "error")
        if part.cut and part.kind != "result":
            yield self._words(f"… {size(part.cut)} more   o open", "muted")

    def _result(self, transcript: Transcript, item: Item, part: Part) -> Iterator[Chunk]:
        asked = transcript.call_of(item.seq, part.call_id)
        took = seconds_span(max(0, item.timestamp - asked[0].timestamp)) if asked else ""
        open_ = item.seq in transcript.unfolded
        state = f"{took}  {'failed' if item.failed else 'ok'}".strip()
        words = asked[1].text if asked else clean_line(part.text, 80)
        colour = "error" if item.failed else "muted"
        yield _done([self._tool_line("▾" if open_ else "▸", colour, part.name, words, state)])
        if open_:
            yield Chunk(lambda: self._unfolded(part), FOLDED_LINES + 1)

    def _unfolded(self, part: Part) -> list[Line]:
        """Draw the first lines of what a tool answered."""
        muted = self.palette.style("muted")
        lines = self.markdown.draw(part.text[: FOLDED_LINES * 400], self.width - 3 * INDENT, plain=True)
        shown = [self._indented([Segment(s.text, muted) for s in line], 2 * INDENT) for line in lines[:FOLDED_LINES]]
        left = len(lines) - FOLDED_LINES
        rest = part.cut + max(0, len(part.text) - FOLDED_LINES * 400)
        if rest or left > 0:
            more = f"… {size(rest)} more" if rest else f"… {left} more lines"
            shown.append(self._indented([Segment(f"{more}   o open", muted)], 2 * INDENT))
        return shown or [self._indented([Segment("(nothing)", muted)], 2 * INDENT)]

    def _thought(self, text: str) -> Iterator[Chunk]:
        colour = self.palette.style("muted", italic=True)
        if not self.thinking:
            words = len(text.split())
            yield _done([self._indented([Segment(f"▸ thinking  {words} words", self.palette.style("muted"))])])
            return
        for block in split_blocks(text):
            yield self._speech(block.raw, plain=True, colour=colour)

    def _speech(self, source: str, *, plain: bool = False, colour: Style = PLAIN) -> Chunk:
        """Return a block of words; the same one gives the same chunk, so a reply keeps its heights as it grows."""
        place = (source, plain, colour is PLAIN)
        known = self._blocks.get(place)
        if known is not None:
            return known
        width = self.width - INDENT

        def draw() -> list[Line]:
            lines = self.markdown.draw(source, width, plain=plain)
            if colour is not PLAIN:
                lines = [[Segment(s.text, colour) for s in line] for line in lines]
            space: list[Line] = [[]] if source.endswith("\n\n") else []
            return [*(self._indented(line) for line in lines), *space]

        guess = sum(1 + len(line) // max(8, width) for line in source.rstrip("\n").split("\n"))
        chunk = self._blocks[place] = Chunk(draw, guess + source.endswith("\n\n"))
        if len(self._blocks) > KEPT_BLOCKS:
            self._blocks.popitem(last=False)
        return chunk

    def _words(self, text: str, colour: str) -> Chunk:
        style = self.palette.style(colour)

        def draw() -> list[Line]:
            lines = self.markdown.draw(text, self.width - INDENT, plain=True)
            return [self._indented([Segment(s.text, style) for s in line]) for line in lines]

        return Chunk(draw, 1 + len(text) // max(8, self.width - INDENT))

    def _tool_line(self, sign: str, colour: str, name: str, words: str, state: str) -> Line:
        palette = self.palette
        room = self.width - INDENT - 2 - len(state) - 2
        name = fit(name, min(cell_len(name), max(8, room // 2)))
        style = palette.style("error" if colour == "error" else "muted")
        return self._indented(
            [
                Segment(sign + " ", palette.style(colour)),
                Segment(name, palette.style("text")),
                Segment("  " + fit(words, room - cell_len(name) - 2) + "  ", palette.style("muted")),
                Segment(state, style),
            ]
        )

    def _indented(self, line: Sequence[Segment], by: int = INDENT) -> Line:
        return [Segment(" " * by), *line]


def is_announce_step(transcript: Transcript, item: Item) -> bool:
    """Whether a message asks the session what to announce."""
    step = transcript.steps.get(item.seq)
    return step is not None and step.kind == "announce" and item.role == "user"


def local_time(at_ms: int, now_ms: int) -> str:
    """Return a time of the day as `14:02`, with the day in front when it is another one."""
    at, now = time.localtime(at_ms / 1000), time.localtime(now_ms / 1000)
    clock = time.strftime("%H:%M", at)
    return clock if at[:3] == now[:3] else f"{at.tm_mday} {time.strftime('%b', at)} {clock}"


def _agent_goes_on(before: Item | None) -> bool:
    """Whether the agent was speaking above, in the same run."""
    return before is not None and before.role in _SPOKEN_BY_AGENT and not before.last


def _done(lines: list[Line]) -> Chunk:
    return Chunk(lambda: lines, len(lines), lines)
