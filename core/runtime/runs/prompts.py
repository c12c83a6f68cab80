"""What an agent is told about itself: who it is, where it acts, and who asks (S7, S9, S10)."""

from core.config.settings import AgentSettings
from core.model.exchanges import ANNOUNCE_SKIP, NO_CHANNEL, REPLY_SKIP, Exchange
from core.model.keys import parse
from core.model.runs import Run
from core.model.sessions import Session

_WHO = "You are the agent {agent} of an operator's fleet. You act in the session {key} (channel: {channel})."
_SUBAGENT = (
    "You are a sub-agent that {requester} started for one task. Do that task and nothing else; your last message is"
    " the result that is posted back to {requester}. Nobody will answer questions."
)
_AGENT_TO_AGENT = (
    "Agent-to-agent message context:\n"
    "- requester: session {requester}, channel {requester_channel}\n"
    "- target: your session {target}, channel {target_channel}\n"
    "The last message comes from the requester's agent, not from the user. Your reply goes back to it."
)
_REPLY = (
    "Agent-to-agent reply context:\n"
    "- requester: session {requester}{channel_of_requester}\n"
    "- target: session {target}{channel_of_target}\n"
    "- you are the {role}; this is turn {turn} of at most {max_turns}\n"
    "The last message is the other agent's reply, not the user's. Your answer goes back to it. If there is nothing to"
    f" add, answer exactly {REPLY_SKIP}: that ends the exchange."
)
_ANNOUNCE = (
    "Agent-to-agent announce step: the exchange between session {requester} and your session {target} is over.\n"
    f"What you write now {{place}}. To say nothing, write exactly {ANNOUNCE_SKIP}."
)
_SPAWN_ANNOUNCE = (
    "Announce step: what you write now is posted to session {requester}. To tell it nothing, write exactly"
    f" {ANNOUNCE_SKIP}."
)


def system_prompt(
    agent: AgentSettings, session: Session, run: Run, requester: Session | None, exchange: Exchange | None
) -> str:
    """Return the system prompt of a run.

    The last message came from the `requester`, None when a person wrote it; the run is a step of `exchange`, if any.
    """
    parts = [agent.system_prompt] if agent.system_prompt else []
    parts.append(_WHO.format(agent=agent.name or agent.agent_id, key=session.key, channel=session.channel))
    if parse(session.key).is_subagent:
        parts.append(_SUBAGENT.format(requester=session.spawned_by or "another session"))
    context = _context(session, run, requester, exchange)
    return "\n\n".join([*parts, context] if context else parts)


def _context(session: Session, run: Run, requester: Session | None, exchange: Exchange | None) -> str:
    """Return what a run must know of the exchange that it is part of; empty when it is of none."""
    if exchange is None or requester is None:
        return ""
    names = {"requester": exchange.requester, "target": exchange.target}
    match run.kind:
        case "turn":
            channels = {"requester_channel": requester.channel, "target_channel": session.channel}
            return _AGENT_TO_AGENT.format(**names, **channels)
        case "reply":
            role, other = ("requester", "target") if session.key == exchange.requester else ("target", "requester")
            channels = {f"channel_of_{role}": f", channel {session.channel} (yours)"}
            channels[f"channel_of_{other}"] = f", channel {requester.channel}"
            return _REPLY.format(**names, **channels, role=role, turn=run.turn, max_turns=exchange.max_turns)
        case "announce" if exchange.kind == "spawn":
            return _SPAWN_ANNOUNCE.format(**names)
        case "announce":
            has_channel = session.channel not in NO_CHANNEL
            place = f"is posted on the channel {session.channel}" if has_channel else "is kept here: nobody reads along"
            return _ANNOUNCE.format(**names, place=place)
        case _:
            return ""
