"""Puts the files of a spawn into the workspace of the child's agent (W8).

Everything is checked before the disk is touched; one bad file refuses them all. Below the workspace, which the operator
chose, no link is followed: each folder is opened by its own name in the one above it.
"""

import base64
import binascii
import contextlib
import errno
import hashlib
import os
import shutil
import unicodedata
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.model.attachments import MAX_BYTES, MAX_FILES, AttachedFile, Attachment, Receipt
from core.model.errors import Invalid, Unavailable
from core.model.keys import quoted

FOLDER: Final = (".openclaw", "attachments")
MAX_NAME_BYTES: Final = 255
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file that may be written."""

    name: str
    data: bytes
    mime_type: str | None


def check(attachments: Sequence[Attachment], mount_path: str | None) -> tuple[CheckedFile, ...]:
    """Decode the files and refuse them all when one of them cannot be.

    Raises:
        Invalid: There are too many, they are too large, or a name, a type, a mount path or a content is not possible.
    """
    if len(attachments) > MAX_FILES:
        raise Invalid(f"{len(attachments)} attachments are too many: at most {MAX_FILES} fit")
    if mount_path is not None and _has_unseen(mount_path):
        raise Invalid(f"attachAs.mountPath {quoted(mount_path)} holds control characters: leave them out")
    seen: set[str] = set()
    files: list[CheckedFile] = []
    total = 0
    for attachment in attachments:
        _check_name(attachment.name)
        folded = unicodedata.normalize("NFC", attachment.name).casefold()
        if folded in seen:
            raise Invalid(f"two attachments are called {quoted(attachment.name)}: give each its own name")
        seen.add(folded)
        if attachment.mime_type is not None and _has_unseen(attachment.mime_type):
            raise Invalid(f"the mimeType of attachment {quoted(attachment.name)} holds control characters")
        data = _decode(attachment)
        total += len(data)
        if total > MAX_BYTES:
            raise Invalid(f"the attachments are larger than {MAX_BYTES:,} bytes in all: leave some out")
        files.append(CheckedFile(attachment.name, data, attachment.mime_type))
    return tuple(files)


def directory(workspace: Path, name: str) -> Path:
    """Return where the files of one spawn are; `name` is an id that we made."""
    return workspace.joinpath(*FOLDER, name)


def receipt(where: Path, files: Sequence[CheckedFile]) -> Receipt:
    """Return what the answer says of the files."""
    listed = [AttachedFile(file.name, len(file.data), hashlib.sha256(file.data).hexdigest()) for file in files]
    return Receipt(str(where), tuple(listed))


def note(where: Path, files: Sequence[CheckedFile], mount_path: str | None) -> str:
    """Return what the child's task says of its files."""
    meant = f" (meant to be mounted at {mount_path})" if mount_path else ""
    lines = [f"Attached files, in {where}{meant}:"]
    for file in files:
        kind = f"{file.mime_type}, " if file.mime_type else ""
        lines.append(f"- {file.name} ({kind}{len(file.data):,} bytes)")
    return "\n".join(lines)


def write(workspace: Path, name: str, files: Sequence[CheckedFile]) -> None:
    """Write the files into a new folder; folders are 0700, files 0600. Blocks.

    Raises:
        Unavailable: The disk refuses it, or a folder on the way is a link; nothing is left behind.
    """
    where = directory(workspace, name)
    try:
        _make_folder(workspace)
        with _opened(workspace, make=True) as parent:
            os.mkdir(name, 0o700, dir_fd=parent)
            try:
                _write_files(parent, name, files)
            except OSError:
                shutil.rmtree(name, ignore_errors=True, dir_fd=parent)
                raise
    except OSError as error:
        reason = "a folder on the way is a link or a file" if error.errno in _NO_FOLDER else error.strerror
        raise Unavailable(f"the attachments cannot be written to {where}: {reason}") from None


def remove(workspace: Path, name: str) -> None:
    """Remove the files of a spawn that was not accepted. Blocks."""
    with contextlib.suppress(OSError), _opened(workspace, make=False) as parent:
        shutil.rmtree(name, ignore_errors=True, dir_fd=parent)


_NO_FOLDER: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EEXIST})


def _write_files(parent: int, name: str, files: Sequence[CheckedFile]) -> None:
    folder = os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    try:
        for file in files:
            with os.fdopen(os.open(file.name, _FILE_FLAGS, 0o600, dir_fd=folder), "wb") as target:
                target.write(file.data)
                target.flush()
                os.fsync(target.fileno())
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def _opened(workspace: Path, *, make: bool) -> Generator[int]:
    """Open the folder of all attachments, step by step from the workspace."""
    folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in FOLDER:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=folder)
            inner = os.open(part, _FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _make_folder(path: Path) -> None:
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def _check_name(name: str) -> None:
    """Refuse a name that is not one of a file in the folder itself."""
    if not name.strip() or name in {".", ".."}:
        raise Invalid(f"{quoted(name)} is no name for an attachment: give it the name of a file")
    if "/" in name or "\\" in name:
        raise Invalid(f"the attachment {quoted(name)} would leave its folder: give a name without / and \\")
    if _has_unseen(name):
        raise Invalid(f"the name of attachment {quoted(name)} holds control characters: leave them out")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise Invalid(f"the name of attachment {quoted(name)} is longer than {MAX_NAME_BYTES} bytes: shorten it")


def _has_unseen(text: str) -> bool:
    return any(unicodedata.category(letter) in _UNSEEN for letter in text)


def _decode(attachment: Attachment) -> bytes:
    try:
        if attachment.encoding == "utf8":
            return attachment.content.encode()
        return base64.b64decode("".join(attachment.content.split()), validate=True)
    except UnicodeEncodeError:
        raise Invalid(f"the text of attachment {quoted(attachment.name)} is not UTF-8: use base64") from None
    except (binascii.Error, ValueError):
        raise Invalid(f"the content of attachment {quoted(attachment.name)} is not valid base64") from None
