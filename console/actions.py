"""Everything the operator can do, in one table for each screen: it makes the keys, the footer, the palette and the
help, and the user's keymap changes it by id (console#keys)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from console.live.items import Item
from console.live.rows import Row, runs_of
from core.gateway import Action as GatewayAction

Pane = Literal["list", "transcript", "spawns", "composer"]


@dataclass(frozen=True, slots=True)
class State:
    """What an action may depend on.

    Attributes:
        pane: Where the keys go.
        row: The session that is meant, None when there is none.
        item: The message under the cursor of the transcript.
        refusal: Says why the gateway does not allow something, here or for a session; None when it does.
        reading: The transcript fills the screen, on a narrow one.
        wide: There is room for a second transcript.
        helpers_at_work: Sub-agents of the session, at any depth, that have runs that are not over.
        makes: Name of the session that what is written makes, while there is none; empty once there is one.
        writing: The key that begins to write.
    """

    pane: Pane
    row: Row | None
    item: Item | None
    refusal: Callable[[GatewayAction, str | None], str | None]
    reading: bool = False
    wide: bool = False
    helpers_at_work: int = 0
    makes: str = ""
    writing: str = "i"


Enabled = Callable[[State], str | None]
"""Returns why an action does not work now, None when it does."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing the operator can do.

    Attributes:
        id: Stable, for the keymap; the method that does it is `do_<id>` with `_` for `-`.
        keys: Comma-separated, as Textual spells them.
        shown: The key as the footer and the help write it.
        title: Two words for the footer.
        help: One line for help and palette.
        panes: Where the footer shows it; empty for not at all.
        needs: What the gateway must allow for it; dimmed where it does not.
        enabled: Why it does not work now, None when it does.
    """

    id: str
    keys: str
    shown: str
    title: str
    help: str
    panes: frozenset[Pane] = frozenset()
    enabled: Enabled = lambda _: None
    needs: GatewayAction | None = None

    def refused(self, state: State) -> str | None:
        """Return why the gateway does not allow it, None when it does."""
        if self.needs is None:
            return None
        return state.refusal(self.needs, state.row.session.key if state.row is not None else None)

    def why_not(self, state: State) -> str | None:
        """Return why it does not work now, None when it does."""
        return self.refused(state) or self.enabled(state)


def _session(state: State) -> str | None:
    if state.row is None and state.makes:
        return f"there is no session yet: {state.writing} writes to {state.makes}, which begins it"
    return None if state.row is not None else "there is no session here: press s to send a message to one"


def _session_or_first(state: State) -> str | None:
    return None if state.makes else _session(state)


def _at_work(state: State) -> str | None:
    if state.row is not None and not runs_of(state.row) and not state.helpers_at_work:
        return f"{state.row.name} is not at work"
    return _session(state)


def _message(state: State) -> str | None:
    return None if state.item is not None else "there is no message here"


def _room(state: State) -> str | None:
    return None if state.wide else "two transcripts need 160 columns"


LIST: Final[frozenset[Pane]] = frozenset({"list"})
TEXT: Final[frozenset[Pane]] = frozenset({"transcript"})
BOTH: Final = LIST | TEXT
ALL_PANES: Final[frozenset[Pane]] = frozenset({"list", "transcript", "spawns"})

ACTIONS: Final[tuple[Action, ...]] = (
    Action("open", "enter", "↵", "open", "Go into the transcript of the session", LIST, _session_or_first),
    Action("write", "i", "i", "write", "Write a message to the session", BOTH, _session_or_first, "send"),
    Action("send", "s", "s", "send", "Send a message from one session to another", BOTH, needs="send"),
    Action("spawn", "n", "n", "spawn", "Start a sub-agent on a task", BOTH, needs="spawn"),
    Action("policy", "p", "p", "policy", "Send policy: inherit, allow, deny in turn", BOTH, _session, "policy"),
    Action(
        "abort", "a", "a", "abort", "Stop the run, the queued ones and all sub-agents", ALL_PANES, _at_work, "abort"
    ),
    Action("filter", "slash", "/", "filter", "Narrow the list to some words; in a transcript, search it", BOTH),
    Action("tools", "t", "t", "tools", "Show or hide what tools answered", TEXT, _session),
    Action("thinking", "T", "T", "thinking", "Show or hide the thinking of models", frozenset(), _session),
    Action("full", "o", "o", "open whole", "Show the message under the cursor in full", TEXT, _message),
    Action("copy", "c", "c", "copy", "Copy the message under the cursor", TEXT, _message),
    Action("copy-code", "C", "C", "copy code", "Copy the last code block of the message", frozenset(), _message),
    Action("back", "escape", "esc", "back", "Go out: to the transcript, to the list, out of a filter"),
    Action("next-pane", "tab", "tab", "pane", "Go to the next pane"),
    Action("previous-pane", "shift+tab", "⇧tab", "pane back", "Go to the previous pane"),
    Action("previous-session", "left_square_bracket", "[", "previous", "Go to the previous session"),
    Action("next-session", "right_square_bracket", "]", "next", "Go to the next session"),
    Action("urgent", "exclamation_mark", "!", "urgent", "Go to the session that needs somebody most"),
    Action("tile", "v", "v", "tile", "Keep this transcript beside the next one", BOTH, _room),
    Action("search", "S", "S", "search", "Search all transcripts"),
    Action("deliveries", "D", "D", "deliveries", "What was announced on channels, what was not, and why", LIST),
    Action("rules", "P", "P", "rules", "Which rules decide about a session, or about any key", LIST),
    Action("gateways", "at", "@", "gateways", "How the gateways are reached, and which are shown", LIST),
    Action("order", "O", "O", "order", "Sort the sessions another way"),
    Action("archive", "x", "x", "archive", "Archive the session, or bring it back", frozenset(), _session, "archive"),
    Action("archived", "A", "A", "archived", "Show the archived sessions, or the others"),
    Action("label", "L", "L", "label", "Give the session a label", frozenset(), _session, "patch"),
    Action("reset", "R", "R", "reset", "Start an empty transcript", frozenset(), _session, "reset"),
    Action("export", "e", "e", "export", "Write the transcript to a file here", frozenset(), _session),
    Action("configuration", "f5", "F5", "configuration", "Read the configuration again"),
    Action("palette", "ctrl+p", "^p", "all", "Search all actions and sessions", ALL_PANES),
    Action("help", "question_mark,f1", "?", "keys", "Show the keys that work here", ALL_PANES),
    Action("quit", "q,ctrl+q,ctrl+c", "q", "quit", "Leave the console"),
)

BACK: Final = Action("back", "escape", "esc", "back", "Go back to the sessions")
HELP: Final = Action("help", "question_mark,f1", "?", "keys", "Show the keys that work here")

DELIVERIES: Final[tuple[Action, ...]] = (
    Action("open", "enter", "↵", "session", "Go to the session of the delivery"),
    Action("retry", "r", "r", "retry", "Send it again; asks first when it may have arrived"),
    Action("drop", "x", "x", "drop", "Give it up; asks first when it may have arrived"),
    Action("filter", "slash", "/", "filter", "Narrow to some words of state, session, address, reason or text"),
    BACK,
    HELP,
)
RULES: Final[tuple[Action, ...]] = (
    Action("open", "enter", "↵", "session", "Look at the session of the line, then go to it"),
    Action("policy", "p", "p", "policy", "Send policy of the session: inherit, allow, deny in turn"),
    Action("filter", "slash", "/", "what if", "Take a session, or try any key: also one that has none yet"),
    Action("previous-session", "left_square_bracket", "[", "previous", "Look at the previous session"),
    Action("next-session", "right_square_bracket", "]", "next", "Look at the next session"),
    Action("next-pane", "tab", "tab", "column", "Go to the next column"),
    BACK,
    HELP,
)
GATEWAYS: Final[tuple[Action, ...]] = (
    Action("only", "enter", "↵", "this alone", "Show the sessions of this gateway alone; the others stay connected"),
    Action("toggle", "space", "space", "in list", "Add its sessions to the list, or take them out"),
    Action("retry", "r", "r", "try now", "Try to connect now instead of later"),
    Action("disconnect", "d", "d", "disconnect", "Take it out of the list and end the connection"),
    BACK,
    HELP,
)

TABLES: Final = (ACTIONS, DELIVERIES, RULES, GATEWAYS)
"""What can be done on each screen; what has the same id on several of them has the operator's own key on all."""
