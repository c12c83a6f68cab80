"""The watch screen: every session, one of them in full, what it spawned (architecture#console).

Here is what is where and what is drawn when; what the keys do is in `console.screens.watch_keys`.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.screen import Screen

from console.actions import ACTIONS, Pane, State
from console.live.changes import Changes
from console.live.outgoing import Outgoing
from console.live.placement import ORDER_WORDS
from console.live.rows import Row
from console.live.text.connections import broken, data_age, title
from console.live.text.words import LOCAL
from console.screens.too_small import BREAKPOINTS, cover
from console.shell import Shell
from console.widgets.details import Details
from console.widgets.footer import foot
from console.widgets.line_list import LineList
from console.widgets.session_list import SessionList
from console.widgets.spawn_tree import SpawnTree
from console.widgets.status import BottomBar, NoticeLine, TitleLine, Tone, TopBar
from console.widgets.transcript_pane import TranscriptPane
from console.widgets.transcript_view import TranscriptView
from core.model.errors import SwitchboardError
from core.model.keys import split

if TYPE_CHECKING:
    from textual.timer import Timer
    from textual.widgets import Input

    from console.live.transcript import Transcript
    from console.widgets.composer import Composer

OPEN_SECONDS: Final = 0.06
"""A session is opened when the cursor has rested on it for that long, so that a held key does not open each."""
DELETED: Final = "this session was deleted"
PLACE_CELLS: Final = 10
"""So many at most are taken by the name of a gateway in the list."""
PLACE_SECONDS: Final = 0.25
"""Rows move at most that often."""


class WatchView(Screen[None]):
    """The watch screen without its keys.

    Args:
        columns: Width of the terminal, so that the first frame is laid out for it.
    """

    AUTO_FOCUS = "#sessions"

    def __init__(self, shell: Shell, columns: int) -> None:
        super().__init__(classes=next(name for least, name in reversed(BREAKPOINTS) if columns >= least))
        self.HORIZONTAL_BREAKPOINTS = BREAKPOINTS
        self.shell = shell
        self.view_model = view_model = shell.view_model
        self.actions = ACTIONS
        glyph = self._glyph
        self.sessions = SessionList(view_model.book, view_model.now_ms, glyph, self._place_width, self._is_old)
        self.spawns = SpawnTree(
            view_model.book, view_model.exchanges, view_model.now_ms, lambda look: self.shell.glyphs[look]
        )
        self.main = self._new_pane("main")
        self.second: TranscriptPane | None = None
        self.top = TopBar(lambda: self.shell.connection_signs)
        self.bottom = BottomBar()
        self.notice = NoticeLine(id="notice")
        self.standing = NoticeLine(id="standing")
        self.list_title = TitleLine(id="list-title")
        self.spawns_title = TitleLine(id="spawns-title")
        self.details = Details(view_model)
        self.filter: Input | None = None
        self.find: Input | None = None
        self._open_timer: Timer | None = None
        self._place_timer: Timer | None = None
        self._placed_at = -PLACE_SECONDS
        self._outgoing = Outgoing()

    def compose(self) -> ComposeResult:
        """Say what is where; the style sheet says how it fits on narrow and wide screens."""
        yield self.top
        yield self.standing
        with Container(id="body"):
            with Vertical(id="sessions-pane"):
                yield self.list_title
                yield self.sessions
            yield self.main
            with Vertical(id="side"):
                yield self.spawns_title
                yield self.spawns
                yield self.details
        yield self.notice
        yield self.bottom

    async def begin(self) -> None:
        """Show the first rows and the transcript of the first session, in one frame."""
        self.view_model.book.placement.reset()
        self.sessions.show((), place=True, now=self._now())
        if self.sessions.selected is not None:
            await self.open_session(self.sessions.selected)
        self.show_counts()
        self.show_edges()

    async def complete(self) -> None:
        """Add the fields for writing and the colours of code, once there is something to read."""
        from textual.widgets import Input

        from console.widgets.markdown_lines import load_colours

        self.filter = Input(placeholder="words of key, name, channel, state", id="filter", compact=True)
        self.find = Input(placeholder="words to find; ↵ older, esc closes", id="find", compact=True)
        await self.mount(self.filter, before=self.sessions)
        await self.mount(self.find, before=self.notice)
        await self.main.add_composer()
        self._load_draft()
        if self._is_first_minute():
            self.enter_composer()
        await asyncio.to_thread(load_colours)
        self.main.view.coloured = True
        self.main.view.redraw()
        self.set_interval(1.0, self._tick)
        self._show_session()

    # What is shown

    @property
    def row(self) -> Row | None:
        """The session under the cursor."""
        key = self.sessions.selected
        return self.view_model.book.rows.get(key) if key is not None else None

    @property
    def pane(self) -> Pane:
        """Where the keys go."""
        focused = self.focused
        if focused is self.spawns:
            return "spawns"
        if isinstance(focused, TranscriptView):
            return "transcript"
        return "list" if focused is self.sessions or focused is None else "composer"

    @property
    def state(self) -> State:
        """What the actions depend on now."""
        subject = self.subject
        return State(
            pane=self.pane,
            row=subject,
            item=self.main.view.current,
            refusal=self.view_model.gateway.refusal,
            reading=self.has_class("-reading"),
            wide=self.has_class("-wide"),
            helpers_at_work=self.view_model.book.at_work_below(subject.session.key)[0] if subject is not None else 0,
            makes=self.view_model.book.name_of(self.draft_key) if subject is None and self.main.key is None else "",
            writing=self.key_of("write"),
        )

    def key_of(self, action_id: str) -> str:
        """Return the key of an action as the footer writes it."""
        return next(action.shown for action in self.actions if action.id == action_id)

    @property
    def subject(self) -> Row | None:
        """The session that an action is about: the one in the tree while the keys go there, else the selected one."""
        if self.focused is self.spawns and self.spawns.selected is not None:
            return self.view_model.book.rows.get(self.spawns.selected)
        return self.row

    @property
    def draft_key(self) -> str:
        """Key of the session that the composer writes to: without any, the main one that it will make."""
        return self.main.key or self.view_model.main_key

    def show_changes(self, changes: Changes) -> None:
        """Draw what changed."""
        if changes.connections:
            self._show_connections()
        if changes.all or changes.gone:
            self.view_model.book.placement.reset()
            self.sessions.release()
            self._show_gone()
            self._place()
            self.show_counts()
        elif changes.rows:
            self._show_rows(changes.rows)
        for pane in self.panes:
            if pane.key is not None and (changes.all or pane.key in changes.transcripts):
                self._show_transcript(pane)
        if changes.all or changes.exchanges or self.main.key in changes.rows:
            self._show_session()
        if changes.exchanges:
            self.spawns.refresh()
            self.details.refresh()
        if self.main.key is None and (changes.all or self.draft_key in changes.rows):
            self._open_selected()

    def _show_gone(self) -> None:
        """Empty the panes whose session was deleted, and the tree of what it spawned."""
        rows = self.view_model.book.rows
        for pane in self.panes:
            if pane.key is not None and pane.key not in rows and pane.view.transcript is not None:
                pane.show_gone()
                if self.view_model.gateway.member(split(pane.key)[0]) is not None:
                    self.say(f"{self.view_model.book.name_of(pane.key)}: {DELETED}", "warning")
        self.spawns.show(self.spawns.root)

    @property
    def panes(self) -> list[TranscriptPane]:
        """The transcripts on the screen."""
        return [self.main] if self.second is None else [self.main, self.second]

    def show_counts(self) -> None:
        """Draw how the fleet is doing; once a second is enough for that."""
        now, rates = self.view_model.now_ms(), self.view_model.rates
        stuck = self.view_model.deliveries.stuck
        self.top.show(dict(self.view_model.book.counts), stuck, rates.tokens_a_minute(now), rates.dollars_an_hour(now))
        self.top.show_where(self.view_model.gateway.connections(), self.view_model.wall_ms(), self.shell.where)

    def _show_connections(self) -> None:
        """Draw what is said of the ways to the gateways, and what depends on them."""
        self.show_counts()
        self.notice.heed(self.view_model.gateway.connections())
        self.sessions.refresh()
        self._show_session()
        self._open_what_could_not_be_read()

    def _standing(self, key: str) -> str:
        """Return what is to be said of the way to the gateway of a session; nothing while it is reached."""
        if self.view_model.silent_ms(key) is None:
            return ""
        connection = self.view_model.gateway.reach(key)
        words = (f"{title(connection)} {connection.state}", data_age(connection, self.view_model.wall_ms()))
        return ", ".join(filter(None, words))

    def _is_old(self, key: str) -> bool:
        return self.view_model.silent_ms(key) is not None

    def _place_width(self) -> int:
        names = self.view_model.gateway.names
        return min(1 + max(len(name or LOCAL) for name in names), PLACE_CELLS) if len(names) > 1 else 0

    def _new_pane(self, id_: str) -> TranscriptPane:
        view_model = self.view_model
        return TranscriptPane(
            view_model.now_ms, view_model.book.name_of, self._glyph, view_model.exchanges, self._standing, id=id_
        )

    def show_edges(self) -> None:
        """Draw titles, and the keys that work here now."""
        book = self.view_model.book
        shown, total = self.sessions.count, len(book.rows)
        about = ORDER_WORDS[book.placement.order]
        if book.placement.archived:
            about = f"archived, {about}"
        if book.placement.needle:
            about = f"/{book.placement.needle}"
        if self.sessions.held:
            about += ", order held"
        number = f"{shown} of {total}" if shown != total else str(total)
        self.list_title.show("SESSIONS", about, number, focused=self.focused is self.sessions)
        self.sessions.explain(self._nothing())
        if self.main.key is None:
            self.main.show_first(self.view_model.book.name_of(self.draft_key), is_first=not total)
        main = self.row
        children = len(book.children(main.session.key)) if main is not None else 0
        name = f"of {main.name}" if main is not None else ""
        self.spawns_title.show("SPAWNS", name, str(children), focused=self.focused is self.spawns)
        self.set_class(bool(children), "-spawns")
        self.details.show(main)
        self._show_keys()

    def _nothing(self) -> tuple[str, str]:
        """Why the list is empty, and what to do."""
        placement = self.view_model.book.placement
        if placement.needle:
            return "No session holds these words.", "Esc shows all of them again."
        if placement.archived:
            return "Nothing is archived.", f"{self.key_of('archived')} goes back to the other sessions."
        connections, now = self.view_model.gateway.connections(), self.view_model.wall_ms()
        wrong = next(filter(None, (broken(connection, now) for connection in connections)), None)
        if wrong is not None:
            return wrong
        return "No session yet.", f"{self.key_of('write')} writes to main, which begins it."

    def say(self, sentence: str, tone: Tone = "muted") -> None:
        """Show what came of an action."""
        self.notice.say(sentence, tone)

    def _show_keys(self) -> None:
        self.bottom.show(*foot(self.actions, self.state, self.focused.id if self.focused is not None else None))

    def _show_rows(self, keys: set[str]) -> None:
        now = self._now()
        due = now - self._placed_at >= PLACE_SECONDS
        self.sessions.show(keys, place=due, now=now)
        if due and not self.sessions.held:
            self._placed_at = now
        elif self._place_timer is None:
            self._place_timer = self.set_timer(PLACE_SECONDS, self._place_later)
        if self.spawns.root is not None:
            self.spawns.show(self.spawns.root)  # draws only what changed

    def _place_later(self) -> None:
        self._place_timer = None
        self._show_rows(set())

    def _place(self) -> None:
        self._placed_at = self._now()
        self.sessions.show((), place=True, now=self._placed_at)
        self.show_edges()
        if self.sessions.selected is not None and self.main.key is None:
            self._open_selected()

    def _show_transcript(self, pane: TranscriptPane) -> None:
        transcript = self.view_model.transcripts.opened.get(pane.key or "")
        row = self.view_model.book.rows.get(pane.key or "")
        if transcript is None or row is None:
            return
        if transcript is not pane.view.transcript:
            pane.show(row, transcript)
        else:
            pane.view.update()
        self._mark_shown()

    def _show_session(self) -> None:
        row = self.view_model.book.rows.get(self.main.key or "")
        self.main.show_row(row)
        self.main.view.update()
        if self.second is not None and self.second.key is not None:
            self.second.show_row(self.view_model.book.rows.get(self.second.key))
        self.show_edges()

    @on(TranscriptPane.Shown)
    def _mark_shown(self) -> None:
        """Note as seen what stands before the operator's eyes to its end."""
        for pane in self.panes:
            is_read = pane.display and pane.view.transcript is not None and pane.view.follow
            if pane.key is not None and is_read and self.view_model.book.mark_seen(pane.key):
                self._show_rows({pane.key})

    def _tick(self) -> None:
        """Draw what changes with time alone."""
        self.sessions.tick()
        self.spawns.tick()
        for pane in self.panes:
            pane.view.tick()
        if self.sessions.held:
            self._show_rows(set())
        self.show_counts()
        if self.view_model.silent_ms(self.main.key or "") is not None:
            self._show_session()
        self.show_edges()

    def _glyph(self, row: Row) -> str:
        return self.shell.glyphs[row.look]

    def _now(self) -> float:
        return self.shell.monotonic()

    # Opening

    @on(LineList.Moved, "#sessions")
    def _selected(self) -> None:
        self.sessions.used(self._now())
        if self._open_timer is not None:
            self._open_timer.stop()
        self._open_timer = self.set_timer(OPEN_SECONDS, self._open_selected)
        self.spawns.show(self.sessions.selected)
        self.show_edges()

    def _open_selected(self) -> None:
        if self._open_timer is not None:
            self._open_timer.stop()  # else it would cut off what begins now
        key = self.sessions.selected
        if self.is_writing and self.main.key not in self.view_model.book.rows:
            # What is being written to a session that was deleted, or that it is to make, goes to no other one.
            key = self.draft_key if self.main.key is None and self.go_to(self.draft_key) else None
        if key is not None and key != self.main.key:
            self.run_worker(partial(self.open_session, key), group="open", exclusive=True)

    # The first minute

    def _is_first_minute(self) -> bool:
        """Whether there is nothing to look at yet, and what is typed can only be meant for a first message."""
        book = self.view_model.book
        return book.listed.issuperset(self.view_model.gateway.names) and not book.rows and not self.shell.is_demo

    @property
    def is_writing(self) -> bool:
        """Whether the cursor stands in the composer."""
        composer = self.main.composer
        return composer is not None and self.focused is composer.field

    def enter_composer(self) -> None:
        """Put the cursor into the composer."""
        self.add_class("-reading")
        if self.main.composer is not None:
            self.main.composer.field.focus()

    async def open_session(self, key: str) -> None:
        """Show a session in the main pane."""
        old, why = self.main.key, ""
        transcript: Transcript | None = None
        try:
            transcript = await self.view_model.transcripts.open(key)
        except SwitchboardError as error:
            why = error.message
        row = self.view_model.book.rows.get(key)
        if row is None:
            if why:
                self.say(why, "error")
            return
        if old is not None and old not in {key, self.second.key if self.second is not None else None}:
            self.view_model.transcripts.close(old)
        self._keep_draft()
        if transcript is not None:
            self.main.show(row, transcript)
            self._mark_shown()
        else:
            self.main.show_unread(row, why)
        self.spawns.show(key)
        self._load_draft()
        self._show_session()

    def _open_what_could_not_be_read(self) -> None:
        key = self.main.key
        if (
            key in self.view_model.book.rows
            and self.main.view.transcript is None
            and self.view_model.silent_ms(key) is None
        ):
            self.run_worker(partial(self.open_session, key), group="open", exclusive=True)

    def _load_draft(self) -> None:
        composer = self.main.composer
        if composer is not None:
            composer.load(self.view_model.memory.drafts.get(self.draft_key, ""))
            composer.use_history(self.view_model.memory.history)

    @on(TranscriptView.Wanted)
    def _fetch(self, event: TranscriptView.Wanted) -> None:
        self.view_model.transcripts.fetch_wanted(event.transcript)

    @on(TranscriptView.Source)
    def _follow_source(self, event: TranscriptView.Source) -> None:
        if not self.go_to(event.key):
            self.say(f"{self.view_model.book.name_of(event.key)} is not among the sessions here", "warning")

    @on(TranscriptView.Moved)
    def _view_moved(self) -> None:
        self.main.show_row(self.view_model.book.rows.get(self.main.key or ""))
        self._mark_shown()

    def on_composer_changed(self, event: "Composer.Changed") -> None:
        """Keep what is being written."""
        del event  # its words may be older than what stands there
        self._keep_draft()

    def on_composer_left(self) -> None:
        """Go back to reading."""
        self.main.view.focus()

    def _keep_draft(self) -> None:
        composer = self.main.composer
        if composer is not None and self.view_model.memory.keep_draft(self.draft_key, composer.text):
            self.shell.remember_soon()

    def go_to(self, key: str) -> bool:
        """Put the cursor on a session, out of a filter that hides it if need be; False when there is none."""
        row = self.view_model.book.rows.get(key)
        if row is None:
            return False
        placement = self.view_model.book.placement
        if not self.sessions.select(key):
            placement.needle = ""
            placement.archived = row.look == "archived"
            if self.filter is not None:
                self.filter.value = ""
            placement.reset()
            self.sessions.release()
            self.sessions.reveal(key)
            self._place()
        return True

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Show which pane has the keys; who leaves the composer without a word sees what has come meanwhile."""
        del event
        if self.main.key is None:
            self._open_selected()
        self.show_edges()

    def on_resize(self, event: events.Resize) -> None:
        """Say so when there is no room for anything."""
        cover(self.shell, event.size)
