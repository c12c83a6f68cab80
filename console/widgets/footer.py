"""Which keys the watch screen shows at its foot: those that work where the keys go now."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from console.actions import Action, State

Keys = Sequence[tuple[str, str]]
_FIXED: Final = frozenset({"palette", "help"})
WRITING: Final = [("↵", "send"), ("^j", "new line"), ("/", "command"), ("esc", "back")]
_IN_FIELDS: Final[dict[str | None, Keys]] = {
    "filter": [("↵", "to the list"), ("esc", "all sessions")],
    "find": [("↵", "next older"), ("esc", "back")],
}


class Foot(NamedTuple):
    """Keys with their titles: the ones that may be cut, the ones that stand always, the ones the gateway refuses."""

    keys: Keys
    fixed: Keys
    refused: Keys


def foot(actions: Sequence[Action], state: State, focused: str | None) -> Foot:
    """Return the keys that work now.

    Args:
        focused: Id of the widget with the focus.
    """
    fixed = [action for action in actions if action.id in _FIXED]
    if state.pane == "composer":
        shown = [("F1" if "f1" in action.keys.split(",") else action.shown, action.title) for action in fixed]
        return Foot(
            _IN_FIELDS.get(focused, WRITING), [key for key in shown if len(key[0]) > 1], ()
        )  # a letter is text there
    here = [action for action in actions if state.pane in action.panes and action.enabled(state) is None]
    keys = [(action.shown, action.title) for action in here if action.id not in _FIXED]
    if state.reading and state.pane == "transcript":
        keys.insert(0, ("esc", "back"))
    refused = [(action.shown, action.title) for action in here if action.refused(state)]
    return Foot(keys, [(action.shown, action.title) for action in fixed], refused)
