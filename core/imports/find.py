"""Finding the stores of an OpenClaw state directory, from wherever in it somebody points to."""

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.imports import openclaw_files, openclaw_sqlite
from core.imports.source import Source
from core.model.errors import Invalid, NotFound, Unavailable

LOOKED_FOR: Final = (
    f"agents/<id>/agent/{openclaw_sqlite.DATABASE} (2026.8 and newer) or agents/<id>/sessions/{openclaw_files.INDEX}"
)


@dataclass(frozen=True, slots=True)
class AgentFolder:
    """What an agent has in a state directory.

    Attributes:
        folder: Where all of it lies.
        database: The newer store, None when it is not there.
        files: The folder of the older one, None when it is not there.
    """

    agent_id: str
    folder: Path
    database: Path | None
    files: Path | None

    @contextlib.contextmanager
    def open(self) -> Generator[Source]:
        """Return the agent's sessions: of the newer store, if there is one. Raises as the stores do."""
        if self.database is not None:
            older = self.files / openclaw_files.INDEX if self.files is not None else None
            with openclaw_sqlite.open_source(self.database, self.agent_id) as source:
                if self.files is not None and older is not None and older.is_file():
                    if not source.sessions:  # it has not moved yet
                        yield openclaw_files.read_source(self.files, self.agent_id)
                        return
                    source.notes.add("older indexes beside a database that took their place", str(older))
                yield source
        elif self.files is not None:
            yield openclaw_files.read_source(self.files, self.agent_id)


def find_agents(directory: Path) -> list[AgentFolder]:
    """Return the agents of a state directory: of DIR itself, of the one below it, or DIR's own agent.

    Raises:
        NotFound: There is no such folder.
        Invalid: It is no state directory; the sentence says what was looked for. Or several lie below it.
    """
    try:
        if not directory.is_dir():
            missing = "is not a folder" if directory.exists() else "does not exist"
            raise NotFound(f"{directory} {missing}: give the state directory of OpenClaw, such as ~/.openclaw")
        found = _all(directory / "agents") or _agents_around(directory)
        if found:
            return _held(found)
        below = [child for child in _folders(directory) if _all(child / "agents")]
    except OSError as error:
        raise Unavailable(f"{error.filename or directory} cannot be read: {error.strerror}") from None
    if len(below) == 1:
        return _held(_all(below[0] / "agents"))
    if below:
        names = ", ".join(child.name for child in below[:5])
        raise Invalid(f"{directory} holds several OpenClaw state directories ({names}): name one of them")
    raise Invalid(f"{directory} is not an OpenClaw state directory: neither {LOOKED_FOR} is there")


def _held(agents: list[AgentFolder]) -> list[AgentFolder]:
    """Refuse links out of the folder that holds the agents: they may lead to what nobody meant to bring in."""
    for agent in agents:
        folder = agent.folder.parent.resolve()
        index = agent.files / openclaw_files.INDEX if agent.files is not None else None
        for path in (agent.folder, agent.files, index, agent.database):
            if path is not None and path.exists() and not path.resolve().is_relative_to(folder):
                raise Invalid(
                    f"{path} is a link that leads out of {folder}: give the folder that it leads to, or a copy"
                )
    return agents


def _agents_around(directory: Path) -> list[AgentFolder]:
    """Return the agents when the folder is `agents`, one agent's, or within one agent's."""
    if directory.name == "agents":
        return _all(directory)
    for folder in (directory, directory.parent):
        agent = _agent(folder)
        if agent is not None and folder.parent.name == "agents":
            return [agent]
    return []


def _all(folder: Path) -> list[AgentFolder]:
    """Return the agents that lie in a folder, none when it is not there."""
    found = [_agent(child) for child in _folders(folder)]
    return [agent for agent in found if agent is not None]


def _agent(folder: Path) -> AgentFolder | None:
    database = folder / "agent" / openclaw_sqlite.DATABASE
    files = folder / "sessions"
    has_files = files.is_dir() and ((files / openclaw_files.INDEX).exists() or any(files.glob("*.jsonl*")))
    if not database.is_file() and not has_files:
        return None
    return AgentFolder(
        folder.name.lower(), folder, database if database.is_file() else None, files if has_files else None
    )


def _folders(folder: Path) -> list[Path]:
    return sorted(child for child in folder.iterdir() if child.is_dir()) if folder.is_dir() else []
