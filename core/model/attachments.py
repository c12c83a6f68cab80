"""Files that come with the task of a sub-agent, and the receipt for them (W8)."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

MAX_FILES: Final = 50
MAX_BYTES: Final = 5 * 1024 * 1024
"""Of all files of one spawn together, decoded."""

Encoding = Literal["utf8", "base64"]


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file as it was handed in, not checked yet; `content` is its text, or its bytes in base64."""

    name: str
    content: str = field(repr=False)
    encoding: Encoding = "utf8"
    mime_type: str | None = None


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file of the receipt: its size in bytes, and their SHA-256 in hexadecimal."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where the files of a sub-agent are, as an absolute path, and what they hold."""

    directory: str
    files: tuple[AttachedFile, ...]

    def as_json(self) -> dict[str, Any]:
        """Return what the tool's answer carries."""
        files = [{"name": file.name, "bytes": file.size, "sha256": file.sha256} for file in self.files]
        return {"directory": self.directory, "files": files}
