"""The slash commands a session understands as messages of their own; they never reach a model (P3).

One table feeds the runtime that carries them out, the composer that completes them, and the help that explains them.
"""

from dataclasses import dataclass
from typing import Final

from core.model.errors import Invalid


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """One command.

    Attributes:
        arguments: How they are written in help; empty for none.
        choices: The only values the argument may have; empty for free text.
        required: An argument must be given.
    """

    name: str
    arguments: str
    help: str
    choices: tuple[str, ...] = ()
    required: bool = False

    @property
    def usage(self) -> str:
        """How it is written."""
        return f"/{self.name} {self.arguments}".rstrip()


@dataclass(frozen=True, slots=True)
class Command:
    """A command as somebody wrote it."""

    name: str
    argument: str

    @property
    def written(self) -> str:
        """The command as a message."""
        return f"/{self.name} {self.argument}".rstrip()


COMMANDS: Final[dict[str, CommandSpec]] = {
    spec.name: spec
    for spec in (
        CommandSpec(
            "send", "on|off|inherit", "allow, deny or inherit messages", ("on", "off", "inherit"), required=True
        ),
        CommandSpec("spawn", "TASK", "start a sub-agent of this session on a task", required=True),
        CommandSpec("status", "", "tell the model, what was used, and the send policy"),
        CommandSpec("abort", "", "stop the running turn and drop the queued ones"),
        CommandSpec("model", "[NAME]", "use another model here; without a name the agent's own"),
        CommandSpec("label", "[TEXT]", "give the session a label; without a text remove it"),
        CommandSpec("reset", "", "start an empty transcript; the old one stays readable by its id"),
        CommandSpec("archive", "", "take the session out of the list; a new message brings it back"),
    )
}


def parse_command(message: str) -> Command | None:
    """Return the command that a message is, None when it is an ordinary message.

    `Invalid` when it is one of ours, but its argument is missing, wrong, or one too many.
    """
    text = message.strip()
    if not text.startswith("/") or "\n" in text:
        return None
    words = text.split(maxsplit=1)
    spec = COMMANDS.get(words[0][1:].lower())
    if spec is None:
        return None
    argument = words[1] if len(words) > 1 else ""
    if spec.choices:
        argument = argument.lower()
    wrong = (
        (spec.required and not argument)
        or (spec.choices and argument not in spec.choices)
        or (not spec.arguments and argument)
    )
    if wrong:
        raise Invalid(f"usage: {spec.usage} ({spec.help})")
    return Command(spec.name, argument)
