"""Small files that hold secrets: readable by their owner only, written whole or not at all."""

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

from core.model.errors import Unavailable
from core.model.ids import new_id


def write_secret(path: Path, text: str) -> None:
    """Replace a file.

    Raises:
        Unavailable: The folder cannot be written to.
    """
    with _fresh(path, text) as fresh:
        fresh.replace(path)


def make_secret(path: Path, text: str) -> str:
    """Write a file unless there is one already, and return what it holds then; whoever comes first has made it.

    Raises:
        Unavailable: The folder cannot be written to.
    """
    with _fresh(path, text) as fresh:
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(fresh)
        return path.read_text()


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


@contextlib.contextmanager
def _fresh(path: Path, text: str) -> Generator[Path]:
    """Write a file beside the one that is meant, whole and on disk, for as long as it is worked with."""
    fresh = path.with_name(f".{path.name}.{new_id()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield fresh
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()
