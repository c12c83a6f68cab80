"""Every method of the gateway, by its name (protocol#our-methods)."""

from typing import Final

from core.server.method import Method
from core.server.methods.absent import ABSENT
from core.server.methods.chat import CHAT
from core.server.methods.devices import DEVICES
from core.server.methods.facts import FACTS
from core.server.methods.ours import OURS
from core.server.methods.runs import RUNS
from core.server.methods.sessions import SESSIONS
from core.server.methods.tools import TOOLS
from core.server.native import METHODS as NATIVE

METHODS: Final[dict[str, Method]] = {
    **ABSENT,
    **FACTS,
    **SESSIONS,
    **CHAT,
    **RUNS,
    **TOOLS,
    **OURS,
    **DEVICES,
    **NATIVE,
}
