"""Commands in messages to an OpenClaw gateway; its own ways of saying them differ, or cannot be said at all."""

from typing import Final

from core.gateway import Writes
from core.model.access import Caller
from core.model.commands import Command
from core.model.errors import Unavailable
from core.model.runs import RunTicket
from core.model.sessions import Session, SessionPatch

POLICY_WORDS: Final[dict[str, str | None]] = {"on": "allow", "off": "deny", "inherit": None}


THEIRS: Final = frozenset({"status"})
"""Commands that the gateway carries out itself when they are sent as a message."""


async def carry_out(
    writes: Writes, session: Session, command: Command, caller: Caller, run_id: str, no_spawn: str | None
) -> RunTicket:
    """Carry out a command of ours.

    Args:
        no_spawn: Why the gateway does not spawn, None when it does.

    Raises:
        SwitchboardError: As the method that carries it out.
    """
    argument = command.argument or None
    match command.name:
        case "send":
            patched = await writes.patch(
                session.key, SessionPatch({"sendPolicy": POLICY_WORDS[argument or ""]}), caller
            )
            answer = f"send policy: {patched.send_policy or 'inherit'}"
        case "model" | "label":
            await writes.patch(session.key, SessionPatch({command.name: argument}), caller)
            answer = f"{command.name}: {argument or 'removed'}"
        case "abort":
            answer = f"{len(await writes.abort(session.key, caller))} stopped"
        case "reset":
            await writes.reset(session.key, caller)
            answer = "an empty transcript has begun"
        case "archive":
            await writes.archive(session.key, caller, archived=True)
            answer = "archived"
        case _:
            raise Unavailable(no_spawn or f"/{command.name} is not a command of this gateway")
    return RunTicket(run_id, session.key, session.session_id, "done", reply=answer)
