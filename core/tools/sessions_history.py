"""`sessions_history`: the newest messages of one session (H1-H3, H5)."""

from typing import Any

from pydantic import Field

from core.gateway import Gateway
from core.model.access import Caller
from core.model.keys import shown
from core.rules.redact import Allowance
from core.tools.params import Limit, ToolParams
from core.tools.reading import readable
from core.tools.target import canonical, find

NAME = "sessions_history"
DESCRIPTION = "Read the newest messages of a session, oldest first."
DEFAULT_MESSAGES = 50
MAX_MESSAGES = 200


class SessionsHistoryParams(ToolParams):
    """Parameters of `sessions_history`."""

    session_key: str = Field(description="Key or session id, as sessions_list shows it.")
    limit: Limit = Field(default=DEFAULT_MESSAGES, description=f"Messages at most, up to {MAX_MESSAGES}.")
    include_tools: bool = Field(default=False, description="Keep the results of tools.")


async def run(gateway: Gateway, caller: Caller, params: SessionsHistoryParams) -> dict[str, Any]:
    """Return `{sessionKey, sessionId, messages}`; for an agent with `truncated` and `omitted` where it was too much."""
    session = await find(gateway, caller, params.session_key)
    history = await gateway.history(
        canonical(gateway, caller, params.session_key),
        gateway.rules.grant(caller).scope,
        limit=min(params.limit, MAX_MESSAGES),
        include_tools=params.include_tools,
    )
    messages, omitted = readable(caller, history.messages, Allowance())
    if history.before is not None and (missing := min(params.limit, MAX_MESSAGES) - len(history.messages)) > 0:
        omitted += min(missing, max(0, history.before - session.first_seq))  # the page was full of long ones
    result = {
        "sessionKey": shown(session.key, gateway.rules.whose_main(caller)),
        "sessionId": history.session_id,
        "messages": messages,
    }
    return result | ({"truncated": True, "omitted": omitted} if omitted else {})
