"""Where state and configuration live (architecture#files)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from core.model.errors import Invalid

APP_NAME = "switchboard"
CONFIG_NAME = "config.json5"


@dataclass(frozen=True, slots=True)
class Places:
    """The folder of the state, the configuration file, and who said so.

    `config_required`: the file was named by the user, so it must exist.
    """

    state: Path
    config: Path
    state_origin: str
    config_origin: str
    config_required: bool


def find_places(
    state: str | None = None, config: str | None = None, environment: Mapping[str, str] = os.environ
) -> Places:
    """Return where things live: flags first, then `SWITCHBOARD_HOME`, then the platform's folders.

    `Invalid` when a path starts from a home or a working directory that does not exist.
    """
    home = environment.get("SWITCHBOARD_HOME")
    if home:
        state_dir, config_file = Path(home) / "state", Path(home) / CONFIG_NAME
        origin = "SWITCHBOARD_HOME"
    else:
        state_dir = platformdirs.user_state_path(APP_NAME, appauthor=False)
        config_file = platformdirs.user_config_path(APP_NAME, appauthor=False) / CONFIG_NAME
        origin = "the platform's default"
    return Places(
        absolute(Path(state) if state else state_dir),
        absolute(Path(config) if config else config_file),
        "--state" if state else origin,
        "--config" if config else origin,
        config_required=config is not None,
    )


def absolute(path: Path) -> Path:
    """Return where a path of the command line leads.

    `Invalid` when it starts from a home or a working directory that does not exist.
    """
    try:
        return path.expanduser().absolute()
    except (RuntimeError, OSError):  # no such user; the working directory was removed
        raise Invalid(f"nobody knows where {path} is: give a path that starts with /") from None
