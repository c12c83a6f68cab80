"""Where state and configuration live (DESIGN 10)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

APP_NAME = "switchboard"
CONFIG_NAME = "config.json5"


@dataclass(frozen=True, slots=True)
class Places:
    """The folder of the state, the configuration file, and who said so.

    Attributes:
        config_required: The file was named by the user, so it must exist.
    """

    state: Path
    config: Path
    state_origin: str
    config_origin: str
    config_required: bool


def find_places(
    state: str | None = None, config: str | None = None, environment: Mapping[str, str] = os.environ
) -> Places:
    """Return where things live: flags first, then `SWITCHBOARD_HOME`, then the platform's folders."""
    home = environment.get("SWITCHBOARD_HOME")
    if home:
        state_dir, config_file = Path(home) / "state", Path(home) / CONFIG_NAME
        origin = "SWITCHBOARD_HOME"
    else:
        state_dir = platformdirs.user_state_path(APP_NAME, appauthor=False)
        config_file = platformdirs.user_config_path(APP_NAME, appauthor=False) / CONFIG_NAME
        origin = "the platform's default"
    return Places(
        Path(state).expanduser().absolute() if state else state_dir.expanduser().absolute(),
        Path(config).expanduser().absolute() if config else config_file.expanduser().absolute(),
        "--state" if state else origin,
        "--config" if config else origin,
        config_required=config is not None,
    )
