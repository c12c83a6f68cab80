"""Our client at gateways of ours of another version: a newer one does not break it, and an older one works without."""

from typing import Any

import pytest

from core.model.access import ALL
from core.model.errors import Unavailable
from core.model.sessions import SearchHit, Session, SessionQuery, unsearched
from core.rules.ruleset import RuleSet
from core.wire import frames
from core.wire.codec import codec_of
from core.wire.port import DESCRIBED, Described
from tests.live.samples import make_session
from tests.remote.native.test_hostile import scripted
from tests.support.runtimes import Listener, until

KEY = "agent:main:view_model"


async def test_a_newer_gateway_says_more_than_we_know() -> None:
    server, gateway = await scripted()
    described: dict[str, Any] = DESCRIBED.write(Described("store", "boot", 1, RuleSet()))
    described["rules"]["visibility"] |= {"visibility": "team", "sandbox": "none", "who": ["me"]}
    described |= {"state": "upgrading", "detail": "it is being upgraded", "refusals": {"dance": "no"}}
    server.answers["port.describe"] = described
    row = codec_of(Session).write(make_session(KEY, status="done"))
    newer = row | {"status": "paused", "kind": "pet", "chat_type": "thread", "mood": "good"}
    server.answers["port.list_sessions"] = {
        "sessions": [newer, row | {"key": "k2"}],
        "children": {},
        "has_more": False,
        "x": 1,
    }
    await gateway.link.open()
    try:
        assert (gateway.connection.state, gateway.connection.detail) == ("live", "it is being upgraded")
        assert gateway.rules.visibility.visibility == "self"
        page = await gateway.list_sessions(SessionQuery(), ALL)
        assert [(each.key, each.status) for each in page.sessions] == [(KEY, None), ("k2", "done")]
        listener = Listener(gateway.subscribe())
        await gateway.list_sessions(SessionQuery(), ALL)
        gone = {"type": "SessionGone", "rev": 9, "key": "k", "session_id": "s", "why": "asked"}
        events = [{"type": "Moved", "rev": 7}, {"type": "SessionChanged", "rev": 8, "session": newer}, gone]
        assert server.lines is not None
        await server.lines.send(frames.event("port.more", {"feed": "1"}))
        await server.lines.send(frames.event("port.events", {"feed": "1", "turn": 1, "events": events, "late": True}))
        await until(lambda: len(listener.events) == 2)
        assert [(type(each).__name__, each.rev) for each in listener.events] == [
            ("SessionChanged", 8),
            ("SessionGone", 9),
        ]
        await listener.close()
    finally:
        await gateway.close()
        await server.close()


async def test_an_older_gateway_is_used_without_what_it_has_not() -> None:
    server, gateway = await scripted()
    described = DESCRIBED.write(Described("store", "boot", 1, RuleSet()))
    del described["rules"]["untold"]
    server.answers["port.describe"] = described
    server.answers["port.search"] = [
        codec_of(SearchHit).write(SearchHit(KEY, "s", "m", 1, 5, "user", "words", ((0, 5),)))
    ]
    server.lacks = {"port.overrides", "port.deliveries"}
    await gateway.link.open()
    try:
        assert gateway.unready() is None
        assert gateway.rules.untold == frozenset()
        assert await gateway.overrides() == {}, "it keeps none"
        hits = await gateway.search("words", ALL)
        assert (len(hits), unsearched(hits)) == (1, ())
        with pytest.raises(Unavailable) as error:
            await gateway.deliveries(limit=5)
        assert error.value.message == "this gateway is switchboard and has no port.deliveries yet: update it"
    finally:
        await gateway.close()
        await server.close()
