"""What the watch screen draws when: rows, transcripts, titles, counts, keys."""

from typing import TYPE_CHECKING, Final

from console.live.placement import ORDER_WORDS
from console.live.text.connections import broken
from console.screens.watch.position import Duty, Position
from console.widgets.transcript_pane import TranscriptPane
from core.model.keys import split

if TYPE_CHECKING:
    from textual.timer import Timer

DELETED: Final = "this session was deleted"
PLACE_SECONDS: Final = 0.25
"""Rows move at most that often."""
WRITING: Final = [("↵", "send"), ("^j", "new line"), ("/", "command"), ("esc", "back")]
_IN_FIELDS: Final = {
    "filter": [("↵", "to the list"), ("esc", "all sessions")],
    "find": [("↵", "next older"), ("esc", "back")],
}


class Picture(Duty):
    """Draws the view model into the parts of the screen; `place_timer` runs while rows wait for being moved."""

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        self.place_timer: Timer | None = None
        self._placed_at = -PLACE_SECONDS

    # The edges

    def show_connections(self) -> None:
        """Draw what is said of the ways to the gateways, and what depends on them."""
        self._parts.top.show()
        self._parts.notice.heed(self._view_model.gateway.connections())
        self._parts.sessions.refresh()
        self.show_session()

    def show_edges(self) -> None:
        """Draw titles, and the keys that work here now."""
        book, parts, focused = self._view_model.book, self._parts, self._screen.focused
        shown, total = parts.sessions.count, len(book.rows)
        about = ORDER_WORDS[book.placement.order]
        if book.placement.archived:
            about = f"archived, {about}"
        if book.placement.needle:
            about = f"/{book.placement.needle}"
        if parts.sessions.held:
            about += ", order held"
        number = f"{shown} of {total}" if shown != total else str(total)
        parts.list_title.show("SESSIONS", about, number, focused=focused is parts.sessions)
        parts.sessions.why_empty = self._nothing()
        if parts.main.key is None:
            parts.main.show_first(book.name_of(self._position.draft_key), is_first=not total)
        row = self._position.row
        children = len(book.children(row.session.key)) if row is not None else 0
        name = f"of {row.name}" if row is not None else ""
        parts.spawns_title.show("SPAWNS", name, str(children), focused=focused is parts.spawns)
        self._screen.set_class(bool(children), "-spawns")
        parts.details.row = row
        self._show_keys(focused.id if focused is not None else None)

    def _show_keys(self, focused: str | None) -> None:
        """Draw the keys that work now, where the focus is on the widget with that id."""
        state, bottom, actions = self._position.state, self._parts.bottom, self._position.actions
        fixed = [action for action in actions if action.id in {"palette", "help"}]
        if state.pane == "composer":
            shown = [("F1" if "f1" in action.keys.split(",") else action.shown, action.title) for action in fixed]
            typed = [key for key in shown if len(key[0]) > 1]  # a letter is text there
            bottom.show(_IN_FIELDS.get(focused or "", WRITING), typed)
            return
        here = [action for action in actions if state.pane in action.panes and action.enabled(state) is None]
        keys = [(action.shown, action.title) for action in here if action not in fixed]
        if state.reading and state.pane == "transcript":
            keys.insert(0, ("esc", "back"))
        refused = [(action.shown, action.title) for action in here if action.refused(state)]
        bottom.show(keys, [(action.shown, action.title) for action in fixed], refused)

    def _nothing(self) -> tuple[str, str]:
        """Why the list is empty, and what to do."""
        placement = self._view_model.book.placement
        if placement.needle:
            return "No session holds these words.", "Esc shows all of them again."
        if placement.archived:
            return "Nothing is archived.", f"{self._position.key_of('archived')} goes back to the other sessions."
        connections, now = self._view_model.gateway.connections(), self._view_model.wall_ms()
        wrong = next(filter(None, (broken(connection, now) for connection in connections)), None)
        if wrong is not None:
            return wrong
        return "No session yet.", f"{self._position.key_of('write')} writes to main, which begins it."

    # The list

    def show_rows(self, keys: set[str]) -> None:
        """Draw rows that changed, and move them when it is time."""
        now, sessions, spawns = self._shell.monotonic(), self._parts.sessions, self._parts.spawns
        due = now - self._placed_at >= PLACE_SECONDS
        sessions.show(keys, place=due, now=now)
        if due and not sessions.held:
            self._placed_at = now
        elif self.place_timer is None:
            self.place_timer = self._screen.set_timer(PLACE_SECONDS, self._place_later)
        if spawns.root is not None:
            spawns.show(spawns.root)  # draws only what changed

    def _place_later(self) -> None:
        self.place_timer = None
        self.show_rows(set())

    def place(self) -> None:
        """Draw all rows in their order."""
        self._placed_at = self._shell.monotonic()
        self._parts.sessions.show((), place=True, now=self._placed_at)
        self.show_edges()

    # The transcripts

    def show_transcript(self, pane: TranscriptPane) -> None:
        """Draw what came to a transcript."""
        transcript = self._view_model.transcripts.opened.get(pane.key or "")
        row = self._view_model.book.rows.get(pane.key or "")
        if transcript is None or row is None:
            return
        if transcript is not pane.view.transcript:
            pane.show(row, transcript)
        else:
            pane.view.update()
        self.mark_shown()

    def show_session(self) -> None:
        """Draw what is known of the sessions that are open."""
        main, second, rows = self._parts.main, self._parts.second, self._view_model.book.rows
        main.show_row(rows.get(main.key or ""))
        main.view.update()
        if second is not None and second.key is not None:
            second.show_row(rows.get(second.key))
        self.show_edges()

    def show_gone(self) -> None:
        """Empty the panes whose session was deleted, and the tree of what it spawned."""
        book = self._view_model.book
        for pane in self._parts.panes:
            if pane.key is not None and pane.key not in book.rows and pane.view.transcript is not None:
                pane.show_gone()
                if self._view_model.gateway.member(split(pane.key)[0]) is not None:
                    self._parts.notice.say(f"{book.name_of(pane.key)}: {DELETED}", "warning")
        self._parts.spawns.show(self._parts.spawns.root)

    def mark_shown(self) -> None:
        """Note as seen what stands before the operator's eyes to its end."""
        for pane in self._parts.panes:
            is_read = pane.display and pane.view.transcript is not None and pane.view.follow
            if pane.key is not None and is_read and self._view_model.book.mark_seen(pane.key):
                self.show_rows({pane.key})

    def tick(self) -> None:
        """Draw what changes with time alone."""
        parts = self._parts
        parts.sessions.tick()
        parts.spawns.tick()
        for pane in parts.panes:
            pane.view.tick()
        if parts.sessions.held:
            self.show_rows(set())
        self._parts.top.show()
        if self._view_model.silent_ms(parts.main.key or "") is not None:
            self.show_session()
        self.show_edges()
