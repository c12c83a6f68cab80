"""Every file that we keep: in folders that only this user may write to, whole or not at all, never through a link.

Modes are set as files and folders are made, whatever the umask: 0700 and 0600. A link that lies where a file should be
is refused, since whoever put it there chose what would be written or read.
"""

import contextlib
import errno
import os
import pwd
import shlex
import stat
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO, Final

from core.model.errors import Unavailable
from core.model.ids import new_id

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_NO_HARD_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EMLINK})


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing; one that is there must be safe to work in.

    Raises:
        OSError: It cannot be made.
        Unavailable: Others may write to it, or it belongs to another user; the sentence holds the command that helps.
    """
    make_folders(path)
    check_folder(path)


def make_folders(path: Path) -> None:
    """Make a folder and those above it that are missing, wherever they lie.

    Raises:
        OSError: One cannot be made.
    """
    missing: list[Path] = []
    while not os.path.lexists(path):
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(FOLDER_MODE)
            if folder.stat().st_mode & 0o777 != FOLDER_MODE:  # a umask that takes from the owner
                folder.chmod(FOLDER_MODE)


def make_inner_folder(path: Path) -> None:
    """Make a folder within one of ours; a link in its place is none of ours.

    Raises:
        OSError: It cannot be made.
        Unavailable: There is a link or a file; or see `check_folder`.
    """
    make_folder(path)
    if not stat.S_ISDIR(path.lstat().st_mode):
        raise Unavailable(f"{path} is a link, which is not followed: put a folder in its place")


def check_folder(path: Path) -> None:
    """Refuse a folder in which others could put what we would read or write.

    Raises:
        OSError: It is not there.
        Unavailable: They may; the sentence holds the command that helps.
    """
    problem = folder_problem(path)
    if problem:
        raise Unavailable(problem)


def folder_problem(path: Path, *, trusted: frozenset[int] = frozenset()) -> str:
    """Return why a folder is not safe to work in, and the command that helps; empty when it is.

    Args:
        trusted: Ids of users that it may belong to besides this one.

    Raises:
        OSError: It is not there.
    """
    me = os.geteuid()
    link = path.lstat()
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in {0, me}:
        return f"{path} is a link that {_user(link.st_uid)} made: remove it, or choose another folder"
    found = path.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise _exists(path)
    if found.st_uid not in {me, *trusted}:
        who = f"the folder {path} belongs to {_user(found.st_uid)}, not to {_user(me)}"
        return f"{who}: work as that user or, if it is yours, `sudo chown -R {_user(me)} {shlex.quote(str(path))}`"
    if found.st_mode & _OTHERS_MAY_WRITE and not (trusted and found.st_mode & stat.S_ISVTX):
        return f"others may write to the folder {path}: `chmod go-w {shlex.quote(str(path))}` mends that"
    return ""


def open_private(path: Path | str, flags: int, *, folder: int | None = None) -> int:
    """Open a file of ours, for this user only if it is made now, and return its descriptor.

    Args:
        flags: Of `os.open`, such as `os.O_RDWR | os.O_CREAT`.
        folder: The descriptor of the folder that the path starts from.

    Raises:
        OSError: It cannot be opened, ELOOP where a link lies in its place.
    """
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    if not flags & os.O_CREAT:
        return os.open(path, flags, dir_fd=folder)
    try:
        descriptor = os.open(path, flags | os.O_EXCL, FILE_MODE, dir_fd=folder)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return os.open(path, flags, FILE_MODE, dir_fd=folder)
    if os.fstat(descriptor).st_mode & 0o777 != FILE_MODE:  # a umask that takes from the owner
        os.fchmod(descriptor, FILE_MODE)
    return descriptor


@contextlib.contextmanager
def written(path: Path, *, replace: bool = True) -> Generator[BinaryIO]:
    """Give a new file to write to, which is on disk and takes its place as a whole when the block has ended well.

    Args:
        replace: In the place of the one that is there, else there must be none.

    Raises:
        OSError: It cannot be written; FileExistsError when it is there and must not be.
    """
    fresh = path.with_name(f".{path.name[:200]}.{new_id()}")
    try:
        with os.fdopen(open_private(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL), "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if replace:
            fresh.replace(path)
        else:
            _place(fresh, path)
        sync_folder(path.parent)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()


def write_file(path: Path, data: bytes, *, replace: bool = True) -> None:
    """Write a file as a whole, as `written` does; its folder is there.

    Raises:
        OSError: It cannot be written; FileExistsError when it is there and must not be.
    """
    with written(path, replace=replace) as file:
        file.write(data)


def sync_folder(path: Path) -> None:
    """Have the names in a folder on disk.

    Raises:
        OSError: The disk refuses it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_secret(path: Path, text: str) -> None:
    """Replace a file, in a folder that is made if need be.

    Raises:
        Unavailable: The folder cannot be written to, or is not safe.
    """
    with _explained(path):
        make_folder(path.parent)
        write_file(path, text.encode())


def make_secret(path: Path, text: str) -> str:
    """Write a file unless there is one already, and return what it holds then; whoever comes first has made it.

    Raises:
        Unavailable: The folder cannot be written to, or is not safe.
    """
    with _explained(path):
        make_folder(path.parent)
        with contextlib.suppress(FileExistsError):
            write_file(path, text.encode(), replace=False)
        return _read(path)


def read_secret(path: Path) -> str | None:
    """Return what a file holds, None when there is none.

    Raises:
        Unavailable: It is there and cannot be read, or others may write to its folder.
    """
    try:
        check_folder(path.parent)
        return _read(path)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(f"{path} cannot be read: {_why(error)}") from None


def _read(path: Path) -> str:
    with os.fdopen(open_private(path, os.O_RDONLY), encoding="utf-8") as file:
        return file.read()


@contextlib.contextmanager
def _explained(path: Path) -> Generator[None]:
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(f"{path} cannot be written: {_why(error)}") from None


def _why(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not text"
    return "it is a link, which is not followed" if error.errno == errno.ELOOP else str(error.strerror)


def _place(fresh: Path, path: Path) -> None:
    """Give a file its name where nothing has it."""
    try:
        path.hardlink_to(fresh)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if os.path.lexists(path):
            raise _exists(path) from None
        fresh.rename(path)


def _exists(path: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
