"""Small files that hold secrets: readable by their owner only, written whole or not at all."""

import contextlib
import os
from pathlib import Path

from core.model.errors import Unavailable
from core.model.ids import new_id


def write_secret(path: Path, text: str) -> None:
    """Replace a file.

    Raises:
        Unavailable: The folder cannot be written to.
    """
    fresh = path.with_name(f".{path.name}.{new_id()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_new(fresh, text)
        fresh.replace(path)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()


def make_secret(path: Path, text: str) -> str:
    """Write a file unless there is one already, and return what it holds then; whoever comes first has made it.

    Raises:
        Unavailable: The folder cannot be written to.
    """
    fresh = path.with_name(f".{path.name}.{new_id()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_new(fresh, text)
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(fresh)
        return path.read_text()
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()


def read_secret(path: Path) -> str | None:
    """Return what a file holds, None when there is none.

    Raises:
        Unavailable: It is there and cannot be read.
    """
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Unavailable(f"{path} cannot be read: {why}") from None


def _write_new(path: Path, text: str) -> None:
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(number, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
