"""Every method of the gateway, by its name (protocol#our-methods)."""

from typing import Final

from core.server.method import Method
from core.server.native.extensions import OURS
from core.server.native.port import METHODS as NATIVE
from core.server.openclaw.absent import ABSENT
from core.server.openclaw.chat import CHAT
from core.server.openclaw.devices import DEVICES
from core.server.openclaw.facts import FACTS
from core.server.openclaw.runs import RUNS
from core.server.openclaw.sessions import SESSIONS
from core.server.openclaw.tools import TOOLS

METHODS: Final[dict[str, Method]] = {
    method.name: method
    for methods in (ABSENT, FACTS, SESSIONS, CHAT, RUNS, TOOLS, OURS, DEVICES, NATIVE)
    for method in methods
}
