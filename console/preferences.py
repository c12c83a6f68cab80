"""What the operator likes of the console, checked: the configuration names themes, actions and keys, and which of those
there are is only known here. What is wrong is said in a sentence and left out; the rest is used."""

import dataclasses
import difflib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from textual.keys import Keys, format_key, key_to_character
from textual.theme import BUILTIN_THEMES

from console.actions import ACTIONS, TABLES, Action
from console.themes import DEFAULT_THEME, THEMES
from core.config.settings import ConsoleSettings
from core.model.keys import quoted

_MOVING: Final = frozenset(
    ["j", "k", "g", "G", "up", "down", "home", "end", "pageup", "pagedown", "ctrl+d", "ctrl+u", "space"]
)
"""Keys that move inside a pane; an action behind one of them could not be reached."""
_MODIFIERS: Final = {"ctrl": "^", "shift": "⇧", "alt": "alt+"}
_NAMED: Final = frozenset(str(key.value) for key in Keys)


@dataclass(frozen=True, slots=True)
class Preferences:
    """What the console uses.

    Attributes:
        actions: The table of actions of the watch screen with the operator's keys in it.
        shown: How the footer writes those keys, by the id of the action, on every screen.
        keymap: The same keys for Textual, by the id of the action.
        problems: One sentence for everything that could not be meant.
    """

    theme: str = DEFAULT_THEME
    actions: tuple[Action, ...] = ACTIONS
    shown: dict[str, str] = dataclasses.field(default_factory=dict[str, str])
    keymap: dict[str, str] = dataclasses.field(default_factory=dict[str, str])
    problems: tuple[str, ...] = ()


def check(settings: ConsoleSettings) -> Preferences:
    """Return what can be used of the settings, and what is wrong with the rest."""
    problems: list[str] = []
    theme = settings.theme or DEFAULT_THEME
    themes = [*THEMES, *BUILTIN_THEMES]
    if theme not in themes:
        problems.append(f"console.theme is {quoted(theme)}, which is no theme{_nearest(theme, themes)}")
        theme = DEFAULT_THEME
    keymap = {action_id: ",".join(_split(keys)) for action_id, keys in settings.keymap.items()}
    while wrong := {action_id: said for action_id in keymap if (said := _problem(action_id, keymap)) is not None}:
        problems += [f"console.keymap.{said}" for said in wrong.values()]
        keymap = {action_id: keys for action_id, keys in keymap.items() if action_id not in wrong}
    shown = {action_id: " ".join(_shown(key) for key in _split(keys)) for action_id, keys in keymap.items()}
    actions = tuple(
        dataclasses.replace(action, keys=keymap[action.id], shown=shown[action.id]) if action.id in keymap else action
        for action in ACTIONS
    )
    return Preferences(theme, actions, shown, keymap, tuple(problems))


def _problem(action_id: str, keymap: dict[str, str]) -> str | None:
    """Say why an action cannot have the keys it is given, None when it can."""
    ids = list(dict.fromkeys(action.id for table in TABLES for action in table))
    if action_id not in ids:
        return f"{quoted(action_id)[1:-1]} is no action{_nearest(action_id, ids)}"
    given = _split(keymap[action_id])
    if not given:
        return f'{action_id} is empty: give it a key such as "s", "ctrl+s" or "f5"'
    for key in given:
        if not _is_key(key):
            return f'{action_id} is {quoted(key)}, which is no key: write "s", "ctrl+s", "f5", "slash"'
        if key in _MOVING:
            return f"{action_id} is {quoted(key)}, which moves inside the panes: take another key"
        for other in _beside(action_id):
            if key in _split(keymap.get(other.id, other.keys)):
                return f"{action_id} is {quoted(key)}, which {other.id} has: give one of them another key"
    return None


def _beside(action_id: str) -> list[Action]:
    """Return the other actions of the screens that have one."""
    tables = [table for table in TABLES if any(action.id == action_id for action in table)]
    return [action for table in tables for action in table if action.id != action_id]


def _split(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",") if key.strip()]


def _is_key(key: str) -> bool:
    *modifiers, name = key.split("+") if len(key) > 1 else [key]
    return set(modifiers) <= set(_MODIFIERS) and (name in _NAMED or key_to_character(name) is not None)


def _nearest(name: str, known: Collection[str]) -> str:
    found = difflib.get_close_matches(name, known, 1, 0.5)
    return f"; did you mean {quoted(found[0])}?" if found else f": use one of {', '.join(known)}"


def _shown(key: str) -> str:
    *modifiers, name = key.split("+") if len(key) > 1 else [key]
    return "".join([*(_MODIFIERS[modifier] for modifier in modifiers), format_key(name)])
