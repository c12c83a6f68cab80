"""The keys that read a transcript: what of it is shown, one message whole or copied, words in it."""

from functools import partial

from console.screens.watch.position import Duty
from core.model.access import ALL
from core.model.errors import SwitchboardError


class TranscriptCommands(Duty):
    """Reading a transcript; each method `do_<id>` is what an action of the table does."""

    def do_tools(self) -> None:
        view = self._parts.main.view
        transcript = view.transcript
        if transcript is not None:
            view.unfold_all(unfold=not transcript.unfolded)

    def do_thinking(self) -> None:
        for pane in self._parts.panes:
            pane.view.thinking = not pane.view.thinking
            pane.view.redraw()

    def do_full(self) -> None:
        item, key = self._parts.main.view.current, self._parts.main.key
        if item is not None and key is not None:
            showing = partial(self._show_whole, key, item.seq)
            opening = partial(self._shell.typeahead.opening, showing)
            self._screen.run_worker(opening, group="dialog", exclusive=True)

    async def _show_whole(self, key: str, seq: int) -> None:
        from console.live.items import read_item
        from console.screens.viewer import Viewer

        try:
            message = await self._view_model.transcripts.whole(key, seq)
        except SwitchboardError as error:
            self._parts.notice.say(error.message, "error")
            return
        if message is not None:
            title = f"{self._view_model.book.name_of(key)}, message {seq}"
            self._shell.push_screen(Viewer(title, "\n\n".join(part.text for part in read_item(message).parts)))

    def do_copy(self) -> None:
        item = self._parts.main.view.current
        if item is not None:
            self._shell.copy_to_clipboard(item.text)
            self._parts.notice.say(f"copied {len(item.text):,} characters", "good")

    def do_copy_code(self) -> None:
        item = self._parts.main.view.current
        parts = item.text.split("```") if item is not None else []
        if len(parts) < 3:
            self._parts.notice.say("there is no code block in this message", "warning")
            return
        code = parts[-2].partition("\n")[2]
        self._shell.copy_to_clipboard(code)
        self._parts.notice.say(f"copied {len(code):,} characters of code", "good")

    async def find_older(self, words: str) -> None:
        """Go to the next older message that holds these words."""
        view, key, notice = self._parts.main.view, self._parts.main.key, self._parts.notice
        if key is None or view.transcript is None or not words.strip():
            return
        try:
            hits = await self._view_model.gateway.search(words, ALL, key=key, limit=200)
        except SwitchboardError as error:
            notice.say(error.message, "error")
            return
        places = [hit.seq for hit in hits if hit.seq >= view.transcript.first]
        older = [seq for seq in places if view.cursor is None or seq < view.cursor]
        if not places:
            notice.say(f"nothing here holds {words}", "warning")
            return
        target = (older or places)[0]
        view.jump(target)
        notice.say(f"match {places.index(target) + 1} of {len(places)}" + ("" if older else ", from the newest again"))
