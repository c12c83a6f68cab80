"""One transcript, live: of any length, drawing only what is on the screen (architecture#console).

Heights of rows that nobody has seen are guesses; those around the view are made exact before they are drawn, with the
row at the top kept where it is. At the end the view follows what is said; scrolling up lets go, `G` takes hold again.
"""

import textwrap
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from console.live.items import Item
from console.live.transcript import Transcript
from console.live.view_model import ViewModel
from console.widgets.drawing import line, palette_of
from console.widgets.lines import Lines
from console.widgets.markdown_lines import MarkdownLines
from console.widgets.message_lines import Chunk, MessageLines, is_announce_step
from console.widgets.transcript_rows import GUESS, TranscriptRows


class TranscriptView(Lines, can_focus=True):
    """Draws a `Transcript`.

    Attributes:
        follow: Stay at the end while things are said.
        cursor: `seq` of the row that `Enter`, `c` and `o` mean; None for the newest while following.
        coloured: Draw code in colours; the lexers take too long to load before the first picture.
        working_since: ms since the Unix epoch at which the run under way started, None when there is none.
    """

    HELP = "The transcript. Enter folds a tool call or goes to where a message came from."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "next message", show=False, id="transcript.down"),
        Binding("up,k", "move(-1)", "previous message", show=False, id="transcript.up"),
        Binding("pagedown,ctrl+d", "page(1)", "page down", show=False, id="transcript.page-down"),
        Binding("pageup,ctrl+u", "page(-1)", "page up", show=False, id="transcript.page-up"),
        Binding("home,g", "first", "first message", show=False, id="transcript.first"),
        Binding("end,G", "last", "newest", show=False, id="transcript.last"),
        Binding("enter,space", "choose", "fold, follow", show=False, id="transcript.choose"),
    ]

    @dataclass
    class Wanted(Message):
        """Rows are looked at that are not in memory."""

        transcript: Transcript

    @dataclass
    class Source(Message):
        """The operator wants to see the session a message came from."""

        key: str

    class Moved(Message):
        """The view or its cursor moved, or what is below the end changed."""

    def __init__(self, view_model: ViewModel) -> None:
        super().__init__()
        self.transcript: Transcript | None = None
        self.follow = True
        self.cursor: int | None = None
        self.working_since: int | None = None
        self.thinking = False
        self.coloured = False
        self._view_model = view_model
        self._agent_name = ""
        self._nothing = ""
        self._rows = TranscriptRows(self._draw)
        self._heights = self._rows.heights
        self._lines: MessageLines | None = None
        self._markdown: MarkdownLines | None = None
        self._settling = False
        self._beyond = False

    # What is shown

    def show(self, transcript: Transcript | None, agent_name: str, nothing: str = "") -> None:
        """Show a transcript from its end, or say why there is none."""
        self.transcript = transcript
        self._nothing = nothing
        self._agent_name = agent_name
        self.follow, self.cursor = True, None
        self._rows.begin(len(transcript) if transcript is not None else 0)
        self._lines = None
        self._beyond = False
        self.update()
        self.call_after_refresh(self._look_beyond)

    def update(self) -> None:
        """Take in what changed in the transcript and draw it."""
        transcript = self.transcript
        if transcript is None:
            self.set_height(0)
            self.refresh()
            return
        self._rows.grow(transcript)
        for seq in transcript.take_changed():
            self._rows.forget(seq)
        self._rows.forget(transcript.last + 1)
        self._settle()
        self.refresh()
        self.post_message(self.Moved())

    def redraw(self) -> None:
        """Draw everything anew: another width, theme or name."""
        self._rows.forget_all()
        self._lines = self._markdown = None
        self.update()

    @property
    def below(self) -> int:
        """How many messages stand below the last visible line."""
        if self.transcript is None or self.follow:
            return 0
        last = self._heights.at(self.scroll_offset.y + self.size.height - 1)
        return max(0, len(self.transcript) - 1 - last)

    @property
    def current(self) -> Item | None:
        """The row under the cursor, or the newest one that says something."""
        transcript = self.transcript
        if transcript is None or not len(transcript):
            return None
        seq = transcript.last if self.cursor is None else self.cursor
        while seq > transcript.first and (item := transcript.peek(seq)) is not None and not item.text:
            seq -= 1
        return transcript.peek(seq)

    def jump(self, seq: int) -> None:
        """Put the cursor on a message and show it."""
        if self.transcript is None:
            return
        self.follow = False
        self.cursor = max(self.transcript.first, min(seq, self.transcript.last))
        self._show_cursor()

    def unfold_all(self, *, unfold: bool) -> None:
        """Show what tools answered around the view, or fold it all."""
        transcript = self.transcript
        if transcript is None:
            return
        transcript.changed.update(transcript.unfolded)
        transcript.unfolded.clear()
        if unfold:
            index = self._heights.at(self.scroll_offset.y)
            near = range(transcript.first + index - 20, transcript.first + index + self.size.height + 20)
            for seq in near:
                item = transcript.peek(seq)
                if item is not None and item.role == "toolResult":
                    transcript.toggle(seq)
        self.update()

    # Keys

    def action_move(self, step: int) -> None:
        """Move the cursor by messages; through a message longer than the screen by lines."""
        transcript = self.transcript
        if transcript is None or not len(transcript):
            return
        if self.cursor is None:
            self.cursor = transcript.last if step < 0 else transcript.first + self._heights.at(self.scroll_offset.y)
        elif self._has_more(self.cursor, step):
            self._scroll_by(step * max(1, self.size.height // 3))
            return
        else:
            self.cursor = self._neighbour(self.cursor, step)
        self.follow = False
        self._show_cursor()
        if step > 0 and self.cursor == transcript.last and not self._has_more(self.cursor, step):
            self.action_last()

    def action_page(self, step: int) -> None:
        """Scroll by a screenful."""
        self._scroll_by(step * max(1, self.size.height - 2))

    def action_first(self) -> None:
        """Go to the very first message."""
        if self.transcript is not None and len(self.transcript):
            self.jump(self.transcript.first)

    def action_last(self) -> None:
        """Go to the end and follow it."""
        self.follow, self.cursor = True, None
        self._settle()
        self.refresh()
        self.post_message(self.Moved())

    def action_choose(self) -> None:
        """Fold or unfold a tool's answer or an announce step, or go to the session a message came from."""
        transcript = self.transcript
        if transcript is None or self.cursor is None:
            return
        item = transcript.peek(self.cursor)
        if item is None:
            return
        if item.role == "toolResult" or is_announce_step(transcript, item):
            transcript.toggle(item.seq)
            self.update()
        elif item.source is not None:
            self.post_message(self.Source(item.source))

    # Drawing

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.base
        y += self.scroll_offset.y
        transcript = self.transcript
        if transcript is None and self._nothing:
            words = textwrap.wrap(self._nothing, max(1, width - 2))
            return line([(f" {words[y]}" if y < len(words) else "", palette_of(self).style("muted"))], width, base)
        if transcript is None or y >= self._heights.total:
            return Strip.blank(width, base)
        index = self._heights.at(y)
        seq = transcript.first + index
        drawn = self._line(transcript, seq, y - self._heights.start(index))
        marked = self.cursor == seq and self.has_focus
        mark = Segment("▌" if marked else " ", base + palette_of(self).style("accent"))
        segments = [Segment(s.text, base + s.style if s.style else base) for s in drawn]
        return Strip([mark, *segments]).adjust_cell_length(width, base)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Make exact what comes into view."""
        super().watch_scroll_y(old_value, new_value)
        if not self._settling and round(old_value) != round(new_value):
            if new_value < old_value:
                self.follow = False
            elif self.max_scroll_y - new_value < 1:
                self.follow = True
            self._settle()
            self.post_message(self.Moved())

    def on_resize(self) -> None:
        """Lay out for another width."""
        super().on_resize()
        if self._lines is not None and self._lines.width != self.size.width - 2:
            self.redraw()
        else:
            self._settle()
            self.refresh()  # it was drawn with the guesses before this was called

    @on(events.Focus)
    @on(events.Blur)
    def _mark_cursor(self) -> None:
        self.refresh()

    def tick(self) -> None:
        """Draw the clock of what is at work."""
        if self.working_since is not None:
            self.update()

    # Heights

    def _settle(self) -> None:
        """Make the heights around the view exact, keeping the row at the top where it is."""
        transcript = self.transcript
        if transcript is None or self._settling or not self.size.height:
            return
        self._settling = True
        try:
            for _ in range(3):  # what comes into view by a correction may need one itself
                if not self._settle_once(transcript):
                    break
        finally:
            self._settling = False
        if transcript.wanted:
            self.post_message(self.Wanted(transcript))

    def _look_beyond(self) -> None:
        """Measure a screenful above the view too, once the view itself is drawn."""
        self._beyond = True
        self._settle()

    def _settle_once(self, transcript: Transcript) -> bool:
        height = self.size.height
        if self.follow:
            total = self._heights.total
            changed = self._rows.measure(transcript, total - (2 * height if self._beyond else height), total + height)
            top = max(0, self._heights.total - height)
        else:
            view = self.scroll_offset.y
            anchor = self._rows.anchor(transcript, view)
            changed = self._rows.measure(transcript, view - height, view + 2 * height)
            top = self._rows.line_of(transcript, anchor)
        self.set_height(self._heights.total)
        self.scroll_to(y=top, animate=False, force=True)
        return changed

    def _draw(self, transcript: Transcript, seq: int) -> list[Chunk] | None:
        """Return a row's chunks, None while its message is not in memory."""
        if seq == transcript.last + 1:
            if transcript.live is None and self.working_since is None:
                return []
            now = self._view_model.now_ms(transcript.key)
            return self._drawer.live(transcript, transcript.live, now, self.working_since or now)
        item = transcript.item(seq)
        if item is None:
            return None
        return self._drawer.chunks(transcript, item, self._view_model.now_ms(transcript.key))

    @property
    def _drawer(self) -> MessageLines:
        if self._lines is None:
            palette, known = palette_of(self), self._view_model
            if self._markdown is None:
                self._markdown = MarkdownLines(palette, coloured=self.coloured)
            about = self._agent_name, known.book.name_of, known.exchanges, self.thinking
            self._lines = MessageLines(palette, self._markdown, self.size.width - 2, *about)
        return self._lines

    def _line(self, transcript: Transcript, seq: int, offset: int) -> list[Segment]:
        chunks = self._rows.chunks(transcript, seq)
        if chunks is None:
            missing = self._drawer.missing(GUESS, transcript.why_missing(seq))
            return missing[offset - 1] if 1 <= offset <= len(missing) else []
        for chunk in chunks:
            if offset < chunk.height:
                lines = chunk.get()
                return lines[offset] if offset < len(lines) else []
            offset -= chunk.height
        return []

    # The cursor

    def _neighbour(self, seq: int, step: int) -> int:
        """Return the next row in a direction that has lines."""
        assert self.transcript is not None, "there is a cursor only in a transcript"
        first, last = self.transcript.first, self.transcript.last
        ahead = range(seq + 1, last + 1) if step > 0 else range(seq - 1, first - 1, -1)
        return next((each for each in ahead if self._heights[each - first]), seq)

    def _has_more(self, seq: int, step: int) -> bool:
        """Whether the row goes on beyond the screen in that direction."""
        assert self.transcript is not None, "there is a cursor only in a transcript"
        index = seq - self.transcript.first
        top, bottom = self._heights.start(index), self._heights.start(index + 1)
        view = self.scroll_offset.y
        if self._heights[index] <= self.size.height:
            return False
        return bottom > view + self.size.height if step > 0 else top < view

    def _show_cursor(self) -> None:
        if self.transcript is None or self.cursor is None:
            return
        index = self.cursor - self.transcript.first
        start = self._heights.start(index)
        self._rows.measure(self.transcript, start - self.size.height, start + self.size.height)
        self.set_height(self._heights.total)
        top, bottom = self._heights.start(index), self._heights.start(index + 1)
        view, height = self.scroll_offset.y, self.size.height
        if top < view or bottom - top >= height:
            self.scroll_to(y=top, animate=False, force=True)
        elif bottom > view + height:
            self.scroll_to(y=bottom - height, animate=False, force=True)
        self._settle()
        self.refresh()
        self.post_message(self.Moved())

    def _scroll_by(self, lines: int) -> None:
        self.follow = False
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False, force=True)
        if self.cursor is not None and self.transcript is not None:
            visible = self._heights.at(self.scroll_offset.y + self.size.height // 2)
            self.cursor = self.transcript.first + min(visible, len(self.transcript) - 1)
            self.refresh()
