"""The ground of everything that draws by lines: a scrolling area whose height changes often and costs nothing then."""

from typing import TYPE_CHECKING, cast

from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

if TYPE_CHECKING:
    from textual.reactive import Reactive


class Lines(ScrollView):
    """A vertical scrolling area.

    Textual lays the whole screen out again when the virtual size of a widget changes, which is twenty times the work
    of the lines that changed; here only the scrollbar is told.
    """

    DEFAULT_CSS = "Lines { height: 1fr; overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; }"

    base = Style()
    """The style behind the lines that are being drawn."""

    def set_height(self, lines: int) -> None:
        """Have that many lines to scroll through."""
        size = Size(self.size.width, lines)
        if size != self.virtual_size:
            self.set_reactive(cast("Reactive[Size]", Widget.virtual_size), size)
            self.vertical_scrollbar.window_virtual_size = lines
            if self.scroll_offset.y > self.max_scroll_y:
                self.scroll_to(y=self.max_scroll_y, animate=False, force=True)

    def shift(self, lines: int) -> None:
        """Follow what has grown above the view by that many lines; what is seen stays where it is and is not drawn."""
        top = self.scroll_offset.y + lines
        for place in (Widget.scroll_y, Widget.scroll_target_y):
            self.set_reactive(cast("Reactive[float]", place), float(top))
        self.vertical_scrollbar.position = top

    def on_resize(self) -> None:
        """Tell the scrollbar how much is visible."""
        self.vertical_scrollbar.window_size = self.size.height

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw lines; the style behind them is worked out once for all."""
        self.base = self.rich_style
        return super().render_lines(crop)
