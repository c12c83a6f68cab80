"""P5: an override that waits for the session of its key, whichever way the port is asked."""

import pytest

from core.model.access import ALL, OPERATOR, Operator, SessionCaller
from core.model.errors import Forbidden, Invalid, NotFound
from core.model.sessions import NewSession, SessionPatch
from core.tools.target import policy_subject
from tests.contract.ways import Way

GROUP = "agent:main:discord:group:new"
OTHER = "agent:main:discord:group:other"


def policy(word: str | None) -> SessionPatch:
    """Return the change of an override."""
    return SessionPatch({"sendPolicy": word})


@pytest.mark.spec("P3", "P5")
async def test_what_cannot_wait_is_refused(port: Way) -> None:
    for key, change, error, words in (
        (f"agent:main:subagent:{GROUP}", policy("deny"), Invalid, "only a spawn makes"),
        ("agent:main:acp:1", policy("deny"), Invalid, "external harness"),
        ("nonsense", policy("deny"), NotFound, "no session has the key"),
        (GROUP, policy("maybe"), Invalid, "sendPolicy cannot be"),
        (GROUP, SessionPatch({"sendPolicy": "deny", "label": "x"}), NotFound, "no session has the key"),
        ("agent::x", policy("deny"), (Invalid, NotFound), "empty part|no session"),
    ):
        with pytest.raises(error, match=words):
            await port.gateway.patch(key, change, OPERATOR)
    for caller in (Operator(owner=False), SessionCaller("agent:main:main")):
        with pytest.raises((Forbidden, NotFound)):
            await port.gateway.patch(GROUP, policy("allow"), caller)
    assert await port.gateway.overrides() == {}


@pytest.mark.spec("P5")
async def test_it_is_the_same_whichever_way_it_is_asked(port: Way) -> None:
    waits = await port.gateway.patch(GROUP, policy("deny"), OPERATOR)
    assert (waits.key, waits.session_id, waits.send_policy) == (GROUP, "", "deny")
    assert await port.gateway.overrides() == {GROUP: "deny"}
    asked = await policy_subject(port.gateway, GROUP)
    decision = port.gateway.policy_of(asked)
    assert decision is not None
    assert (asked.session_id, decision.effective, decision.decided_by) == ("", "deny", ("sendPolicy override",))
    await port.runtime.create(NewSession(GROUP), OPERATOR)
    assert (await policy_subject(port.gateway, GROUP)).send_policy == "deny"
    assert await port.gateway.overrides() == {}
    with pytest.raises(NotFound):
        await port.gateway.get_session(OTHER, ALL)
