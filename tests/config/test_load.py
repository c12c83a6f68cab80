"""The configuration file, and what is said when it is wrong (architecture#configuration)."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyjson5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.load import load
from core.config.paths import Places, find_places
from core.config.settings import Settings
from core.model.errors import Invalid
from core.rules.policy import Match, Rule

Load = Callable[..., Settings]

MODELS = """models: {providers: {local: {baseUrl: "http://localhost:1234", models: [
  {id: "small", contextWindow: 8000, maxTokens: 500, cost: {input: 1, output: 2, cacheRead: 0.5}},
  {id: "large"},
]}}}"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return where the configuration of these tests lies."""
    return tmp_path / "config.json5"


@pytest.fixture
def read(tmp_path: Path, config: Path) -> Load:
    """Return a function that reads a text as the configuration."""

    def read(text: str, **environment: str) -> Settings:
        config.write_text(text.replace("$MODELS", MODELS), encoding="utf-8")
        return load(find_places(str(tmp_path / "state"), str(config)), environment)

    return read


def refusal(read: Load, text: str, **environment: str) -> str:
    """Return the sentence with which a text is refused."""
    with pytest.raises(Invalid) as caught:
        read(text, **environment)
    assert "\n" not in caught.value.message
    return caught.value.message


# What a good file means


def test_an_empty_file_means_the_defaults(read: Load) -> None:
    assert read("") == read("{}") == Settings()


def test_a_whole_file(read: Load) -> None:
    found = read(
        """// everything once
{
  session: {
    scope: "global",
    sendPolicy: {rules: [{action: "deny", match: {channel: "Discord", chatType: "group"}}], default: "deny"},
  },
  agents: {
    defaults: {
      model: {primary: "local/small"}, thinkingDefault: "low", maxConcurrent: 2,
      subagents: {maxConcurrent: 3, runTimeoutSeconds: 60},
      sandbox: {mode: "non-main", sessionToolsVisibility: "all"},
    },
    list: [
      {id: "Main", name: "The boss", subagents: {allowAgents: ["Ops", "*"]}},
      {id: "ops", default: true, model: "local/large", thinkingDefault: "high", sandbox: {mode: "off"},
       systemPrompt: "be brief"},
    ],
  },
  tools: {
    sessions: {visibility: "all"},
    agentToAgent: {enabled: true, allow: ["Main", "ops"]},
    subagents: {tools: {allow: ["sessions_list"], deny: ["agents_list"]}},
  },
  $MODELS,
}"""
    )
    rules = found.rules
    assert (rules.default_agent, rules.global_scope) == ("ops", True)
    assert rules.send_policy.rules == (Rule("deny", Match("discord", "group")),)
    assert rules.send_policy.default == "deny"
    assert (rules.visibility.visibility, rules.visibility.sandbox) == ("all", "all")
    assert rules.visibility.agent_to_agent.enabled
    assert rules.visibility.agent_to_agent.allow == ("main", "ops")
    assert rules.agents["main"].sandboxed
    assert not rules.agents["ops"].sandboxed
    assert rules.agents["main"].allow_agents == ("ops", "*")
    assert (rules.subagent_tools.allow, rules.subagent_tools.deny) == (("sessions_list",), ("agents_list",))
    assert (found.max_concurrent, found.subagent_max_concurrent, found.subagent_timeout_ms) == (2, 3, 60_000)
    main, ops = found.agent("main"), found.agent("ops")
    assert (main.model, main.thinking, main.name) == ("local/small", "low", "The boss")
    assert (ops.model, ops.thinking, ops.system_prompt) == ("local/large", "high", "be brief")
    small = found.model("local/small")
    assert small is not None
    assert (small.base_url, small.context_window, small.max_tokens) == ("http://localhost:1234/v1", 8000, 500)
    assert small.price is not None
    assert (small.price.input, small.price.output, small.price.cache_read) == (1.0, 2.0, 0.5)
    assert found.notices == ()
    assert ("agents.defaults.model.primary", "local/small") in [origin[:2] for origin in found.origins]


@pytest.mark.spec("V3")
def test_an_agent_may_say_what_its_sandbox_shows(read: Load) -> None:
    entry = '{id: "box", sandbox: {mode: "all", sessionToolsVisibility: "all"}}'
    for older in ("agent: {sandbox: {sessionToolsVisibility: 'spawned'}}, ", ""):
        found = read(f"{{{older}agents: {{list: [{entry}, {{id: 'main', sandbox: {{mode: 'all'}}}}]}}}}")
        assert (found.rules.agents["box"].sandbox, found.rules.agents["main"].sandbox) == ("all", None)
        assert found.rules.visibility.sandbox == "spawned"


def test_agents_may_be_given_as_entries(read: Load) -> None:
    found = read('{agents: {entries: {Main: {}, ops: {default: true, name: "Ops"}}}}')
    assert list(found.agents) == ["main", "ops"]
    assert found.rules.default_agent == "ops"
    assert found.agent("ops").name == "Ops"


@pytest.mark.spec("P1")
@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ('{chatType: "room"}', '{chatType: "channel"}'),
        ('{chatType: "dm"}', '{chatType: "direct"}'),
        ('{provider: "discord"}', '{channel: "discord"}'),
    ],
)
def test_older_spellings_of_a_match(read: Load, older: str, newer: str) -> None:
    text = '{session: {sendPolicy: {rules: [{action: "deny", match: %s}]}}}'
    assert read(text % older).rules == read(text % newer).rules


@pytest.mark.spec("W3", "V3")
def test_the_older_agent_section(read: Load) -> None:
    older = '{agent: {subagents: {tools: {deny: ["x"]}}, sandbox: {sessionToolsVisibility: "all"}}}'
    newer = (
        '{tools: {subagents: {tools: {deny: ["x"]}}}, agents: {defaults: {sandbox: {sessionToolsVisibility: "all"}}}}'
    )
    assert read(older).rules == read(newer).rules
    both = '{agent: {subagents: {tools: {deny: ["old"]}}}, tools: {subagents: {tools: {deny: ["new"]}}}}'
    assert read(both).rules.subagent_tools.deny == ("new",)


def test_what_means_nothing_here_is_named_once(read: Load) -> None:
    found = read(
        "{gateway: {port: 1, tailscale: {}}, channels: {telegram: {}},"
        ' agents: {defaults: {models: {}, heartbeat: {every: "1h"}}, list: [{id: "a", avatar: "x"}]}}'
    )
    assert len(found.notices) == 1
    (notice,) = found.notices
    for name in (
        "gateway.tailscale",
        "channels",
        "agents.defaults.models",
        "agents.defaults.heartbeat",
        "agents.list[0].avatar",
    ):
        assert notice.count(name) == 1
    assert "port" not in notice


def test_a_file_with_a_byte_order_mark(read: Load) -> None:
    assert read('\ufeff{tools: {sessions: {visibility: "self"}}}').rules.visibility.visibility == "self"


# What is said about a bad one


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{\n session: {\n  scope: "gobal"}}', 'line 3: session.scope is "gobal": expected "per-sender" or "global"'),
        ('{\n session: {\n  scope: "gobal"}}', 'did you mean "global"?'),
        ('{tools: {sessions: {visibility: "tre"}}}', 'did you mean "tree"?'),
        (
            "{agents: {defaults: {\nmaxConcurrent: 0}}}",
            "line 2: agents.defaults.maxConcurrent is 0: expected 1 or more",
        ),
        ('{agents: {defaults: {maxConcurrent: "4"}}}', 'maxConcurrent is "4": expected a whole number'),
        ("{agents: {defaults: {maxConcurrent: 1.5}}}", "maxConcurrent is 1.5: expected a whole number"),
        ("{agents: {defaults: {subagents: {runTimeoutSeconds: 1000000000000}}}}", "expected 1000000000 or less"),
        ("{session: {sendPolicy: {rules: {}}}}", "session.sendPolicy.rules is an object: expected a list"),
        ("{session: {sendPolicy: {rules: [\n{match: {}}]}}}", "line 2: session.sendPolicy.rules[0].action is missing"),
        ('{session: {sendPolicy: {rules: [{action: "deny"}, {action: "denny"}]}}}', 'rules[1].action is "denny"'),
        ('{session: "x"}', 'session is "x": expected an object'),
        ("{tools: {agentToAgent: {enabled: 1}}}", "tools.agentToAgent.enabled is 1: expected true or false"),
        ('{agents: {list: [{id: "bad id"}]}}', 'agents.list[0].id is "bad id": expected letters, digits'),
        ('{agents: {entries: {\n"bad id": {}}}}', "line 2: agents.entries.bad id is"),
        ("{agents: {list: [\n{}]}}", "line 2: agents.list[0].id is missing: give the agent an id"),
        ('{agents: {list: [{id: "a"},\n{id: "A"}]}}', 'line 2: agents.list[1] is a second agent "A"'),
        ('{agents: {defaults: {\nmodel: "local/smal"}}, $MODELS}', 'line 2: agents.defaults.model is "local/smal"'),
        ('{agents: {defaults: {model: "local/smal"}}, $MODELS}', 'did you mean "local/small"?'),
        (
            '{agents: {list: [{id: "a", model: "x"}]}, $MODELS}',
            'agents.list[0].model is "x", which no provider has',
        ),
        ('{models: {providers: {p: {baseUrl: "localhost"}}}}', "baseUrl is"),
        ('{models: {providers: {p: {baseUrl: "http://[x"}}}}', "starts with http:// or https://"),
        ('{models: {providers: {p: {baseUrl: "http://x:99999"}}}}', "starts with http:// or https://"),
        ("{models: {providers: {p: {}}}}", "models.providers.p.baseUrl is missing"),
        ('{models: {providers: {p: {baseUrl: "http://x", apiKey: {}}}}}', "apiKey must be one of"),
        ('{models: {providers: {p: {baseUrl: "http://x", apiKey: {env: "A", file: "B"}}}}}', "apiKey must be one of"),
        ("[1]", "must hold one object"),
        ("null", "must hold one object"),
    ],
)
def test_a_wrong_value_is_explained(read: Load, config: Path, text: str, expected: str) -> None:
    said = refusal(read, text)
    assert expected in said
    assert said.startswith(str(config))


@pytest.mark.parametrize(
    ("text", "line", "name", "nearest"),
    [
        ("{\n sesion: {}}", 2, "sesion", "session"),
        ("{sessions: {}}", 1, "sessions", "session"),
        ('{session: {sendpolicy: {default: "deny"}}}', 1, "session.sendpolicy", "sendPolicy"),
        ("{agents: {default: {}}}", 1, "agents.default", "defaults"),
        ("{agents: {defaults: {\n\nmaxConcurent: 1}}}", 3, "agents.defaults.maxConcurent", "maxConcurrent"),
        ('{session: {sendPolicy: {rules: [\n{action: "deny", match: {chanel: "x"}}]}}}', 2, "chanel", "channel"),
        ('{tools: {sessions: {visibilty: "self"}}}', 1, "tools.sessions.visibilty", "visibility"),
        ('{models: {providers: {p: {baseurl: "x", baseUrl: "http://x"}}}}', 1, "models.providers.p.baseurl", "baseUrl"),
    ],
)
def test_a_misspelt_name_is_an_error_with_the_nearest(
    read: Load, text: str, line: int, name: str, nearest: str
) -> None:
    said = refusal(read, text)
    assert f"line {line}: " in said
    assert f'{name} is not known; did you mean "{nearest}"?' in said


@pytest.mark.spec("P1")
def test_a_condition_that_is_not_understood_never_makes_a_rule_wider(read: Load) -> None:
    said = refusal(read, '{session: {sendPolicy: {rules: [{action: "allow", match: {weekday: "monday"}}]}}}')
    assert "match.weekday is not known; use any of channel, provider, chatType, keyPrefix" in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{a: 1,\n b: [1, 2", "line 2: the"),
        ("{\n a: 1\n b: 2}", "line 3: this is not valid JSON5"),
        ("{session {}}", "line 1: this is not valid JSON5"),
        ("{'a: 1}", "line 1"),
        ("{a: 1} {b: 2}", "line 1"),
        ("{a: " * 5_000, "nested too deeply"),
        ("hello", "line 1"),
    ],
    ids=range(7),
)
def test_a_broken_file_is_explained_by_its_line(read: Load, config: Path, text: str, expected: str) -> None:
    said = refusal(read, text)
    assert said.startswith(str(config))
    assert expected in said


NAMES = [
    *("session", "sendPolicy", "rules", "action", "match", "channel", "agents", "list", "defaults", "id", "entries"),
    *("tools", "models", "providers", "baseUrl", "apiKey"),
]
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES) | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["session", "agents", "tools", "models", "agent", "x"]), JSON, min_size=1))
def test_any_object_is_read_or_refused_in_one_sentence(tmp_path_factory: Any, data: dict[str, Any]) -> None:
    folder = tmp_path_factory.getbasetemp() / "any-object"
    folder.mkdir(exist_ok=True)
    file = folder / "config.json5"
    file.write_text(pyjson5.dumps(data), encoding="utf-8")
    with contextlib.suppress(Invalid):
        load(find_places(str(folder), str(file)), {})
        return
    with pytest.raises(Invalid) as caught:
        load(find_places(str(folder), str(file)), {})
    assert caught.value.message.startswith(str(file))
    assert "\n" not in caught.value.message


def test_a_place_that_only_one_parser_understands_is_named_without_a_line(read: Load) -> None:
    assert "config.json5: session.scope is 1" in refusal(read, "{a: 1,\u3000session: {scope: 1}}")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = find_places(str(tmp_path), str(tmp_path / "none.json5"))
    with pytest.raises(Invalid, match="does not exist: check --config"):
        load(missing, {})
    with pytest.raises(Invalid, match="cannot be read: Is a directory"):
        load(find_places(str(tmp_path), str(tmp_path)), {})
    (tmp_path / "binary.json5").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Invalid, match="not UTF-8"):
        load(find_places(str(tmp_path), str(tmp_path / "binary.json5")), {})


def test_no_file_is_no_error_unless_it_was_named(tmp_path: Path) -> None:
    places = Places(tmp_path, tmp_path / "none.json5", "x", "x", config_required=False)
    assert load(places, {}) == Settings()


def test_workspaces(read: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    found = read(
        '{agents: {defaults: {workspace: "~/work"}, list: [{id: "a"}, {id: "b", workspace: "/srv/b"}]}}'
    ).agents
    assert (found["a"].workspace, found["b"].workspace) == (Path("/somewhere/work"), Path("/srv/b"))
    assert read("{}").agents["main"].workspace is None
    for bad in ("work", "~root/work", ""):
        with pytest.raises(
            Invalid, match=r"agents\.defaults\.workspace is .*: expected a folder that begins with / or ~/"
        ):
            read(f'{{agents: {{defaults: {{workspace: "{bad}"}}}}}}')


AGENTS = 'agents: {list: [{id: "main"}, {id: "Ops", subagents: {allowAgents: [%s]}, tools: {deny: [%s]}}]}'


@pytest.mark.spec("W3", "W4", "V2")
@pytest.mark.parametrize(
    ("text", "notice"),
    [
        (
            '{tools: {subagents: {tools: {allow: ["bogus", "seen", "sessions_*"]}}}}',
            'tools.subagents.tools.allow names "bogus", "seen", and no tool here is called that: there are ',
        ),
        (
            '{tools: {subagents: {tools: {deny: ["x", "session_send"]}}}}',
            'tools.subagents.tools.deny names "x", "session_send", and no tool here is called that: did you mean "ses',
        ),
        ('{agent: {subagents: {tools: {deny: ["exec"]}}}}', 'agent.subagents.tools.deny names "exec", '),
        (
            f"{{{AGENTS % (chr(34) + 'mian' + chr(34), '')}}}",
            'agents.list[1].subagents.allowAgents names "mian", and no agent here is called that: did you mean "main"?',
        ),
        (f"{{{AGENTS % ('', chr(34) + 'fly' + chr(34))}}}", 'agents.list[1].tools.deny names "fly", and no tool'),
        (
            '{agents: {entries: {ops: {tools: {allow: ["fly\\u001b"]}}}}}',
            'agents.entries.ops.tools.allow names "fly\\x1b", and no tool',
        ),
        (
            f"{{tools: {{agentToAgent: {{allow: ['main', 'ops', 'nosuch', 'nosuch']}}}}, {AGENTS % ('', '')}}}",
            'tools.agentToAgent.allow names "nosuch", and no agent here is called that: there are main, ops',
        ),
    ],
)
def test_a_list_that_names_what_there_is_not_is_told_once(read: Load, text: str, notice: str) -> None:
    (found,) = read(text).notices
    assert found.startswith(notice)
    assert found.isprintable()


@pytest.mark.spec("W3", "W4", "V2")
def test_lists_that_name_what_there_is_are_not_told(read: Load) -> None:
    listed = '{tools: {subagents: {tools: {allow: ["sessions_*"], deny: ["*"]}}, agentToAgent: {allow: ["*", "OPS"]}}, '
    assert (
        read(
            f"{listed}{AGENTS % ('`*`, `MAIN`, `o?s`'.replace('`', chr(34)), '`agents_list`'.replace('`', chr(34)))}}}"
        ).notices
        == ()
    )
