"""What an agent is told about itself: who it is, where it acts, and who asks (S7)."""

from core.config.settings import AgentSettings
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


def system_prompt(agent: AgentSettings, session: Session, run: Run, requester: Session | None) -> str:
    """Return the system prompt of a run.

    Args:
        requester: The session that sent the message, None when a person did.
    """
    parts = [agent.system_prompt] if agent.system_prompt else []
    parts.append(_WHO.format(agent=agent.name or agent.agent_id, key=session.key, channel=session.channel))
    if parse(session.key).is_subagent:
        parts.append(_SUBAGENT.format(requester=session.spawned_by or "another session"))
    if requester is not None and run.kind == "turn":
        parts.append(
            _AGENT_TO_AGENT.format(
                requester=requester.key,
                requester_channel=requester.channel,
                target=session.key,
                target_channel=session.channel,
            )
        )
    return "\n\n".join(parts)
