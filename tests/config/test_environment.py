"""The model that the environment asks for, and where things live (architecture#configuration)."""

from pathlib import Path

import pytest

from core.config.load import load
from core.config.paths import find_places
from core.config.settings import ModelSettings, Settings
from core.model.errors import Invalid

FILE = """{
  agents: {defaults: {model: "local/small"}, list: [{id: "main"}, {id: "ops", model: "local/large"}]},
  models: {providers: {local: {baseUrl: "http://localhost:1", models: [{id: "small"}, {id: "large"}]}}},
}"""


def settings(tmp_path: Path, text: str = "{}", **environment: str) -> Settings:
    """Read a file and an environment."""
    file = tmp_path / "config.json5"
    file.write_text(text)
    return load(find_places(str(tmp_path), str(file)), environment)


def model(tmp_path: Path, text: str = "{}", **environment: str) -> ModelSettings:
    """Return the model of the agent main."""
    found = settings(tmp_path, text, **environment)
    chosen = found.model(found.agent("main").model)
    assert chosen is not None
    return chosen


def test_an_address_is_enough(tmp_path: Path) -> None:
    found = model(tmp_path, SWITCHBOARD_MODEL_URL="http://localhost:8000")
    assert (found.base_url, found.model_id, found.api, found.api_key) == (
        "http://localhost:8000/v1",
        "",
        "openai-completions",
        None,
    )


def test_an_address_with_model_and_key(tmp_path: Path) -> None:
    found = model(
        tmp_path, SWITCHBOARD_MODEL_URL="http://h/api/v1/", SWITCHBOARD_MODEL="qwen", SWITCHBOARD_MODEL_KEY="k"
    )
    assert (found.base_url, found.model_id) == ("http://h/api/v1", "qwen")
    assert found.api_key is not None
    assert (found.api_key.where, found.api_key.value) == ("env", "SWITCHBOARD_MODEL_KEY")


def test_a_providers_own_key_is_never_sent_to_another_address(tmp_path: Path) -> None:
    found = model(tmp_path, SWITCHBOARD_MODEL_URL="http://elsewhere", OPENAI_API_KEY="sk", ANTHROPIC_API_KEY="sk")
    assert found.api_key is None


@pytest.mark.parametrize(
    ("environment", "ref", "api", "variable"),
    [
        ({"SWITCHBOARD_MODEL": "gpt-9", "OPENAI_API_KEY": "k"}, "openai/gpt-9", "openai-completions", "OPENAI_API_KEY"),
        (
            {"SWITCHBOARD_MODEL": "claude-9", "ANTHROPIC_API_KEY": "k"},
            "anthropic/claude-9",
            "anthropic-messages",
            "ANTHROPIC_API_KEY",
        ),
        (
            {"SWITCHBOARD_MODEL": "openai/x", "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"},
            "openai/x",
            "openai-completions",
            "OPENAI_API_KEY",
        ),
        (
            {"SWITCHBOARD_MODEL": "odd", "ANTHROPIC_API_KEY": "k"},
            "anthropic/odd",
            "anthropic-messages",
            "ANTHROPIC_API_KEY",
        ),
        (
            {"SWITCHBOARD_MODEL": "gpt-9", "SWITCHBOARD_MODEL_KEY": "k", "OPENAI_API_KEY": "k"},
            "openai/gpt-9",
            "openai-completions",
            "SWITCHBOARD_MODEL_KEY",
        ),
    ],
)
def test_a_name_and_a_providers_key(
    tmp_path: Path, environment: dict[str, str], ref: str, api: str, variable: str
) -> None:
    found = model(tmp_path, **environment)
    assert (found.ref, found.api) == (ref, api)
    assert found.api_key is not None
    assert (found.api_key.where, found.api_key.value) == ("env", variable)
    assert found.base_url.startswith("https://api.")


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    assert model(tmp_path, FILE).ref == "local/small"
    assert model(tmp_path, FILE, SWITCHBOARD_MODEL="local/large").ref == "local/large"
    assert model(tmp_path, FILE, SWITCHBOARD_MODEL_URL="http://x", SWITCHBOARD_MODEL="m").ref == "env/m"
    assert settings(tmp_path, FILE, SWITCHBOARD_MODEL="builtin").agent("main").model == "builtin"


def test_an_agent_with_a_model_of_its_own_keeps_it(tmp_path: Path) -> None:
    assert settings(tmp_path, FILE, SWITCHBOARD_MODEL="builtin").agent("ops").model == "local/large"


def test_where_a_model_came_from_is_told(tmp_path: Path) -> None:
    found = settings(tmp_path, FILE, SWITCHBOARD_MODEL="local/large")
    assert any("environment" in place for setting, _, place in found.origins if setting == "model")


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "http://", "http://[x", "http://x:99999"])
def test_a_bad_address_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(Invalid, match="SWITCHBOARD_MODEL_URL must be an address"):
        settings(tmp_path, SWITCHBOARD_MODEL_URL=url)


def test_places_flags_then_home_then_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = {"SWITCHBOARD_HOME": str(tmp_path / "sb")}
    by_flag = find_places(str(tmp_path / "s"), str(tmp_path / "c.json5"), home)
    assert (by_flag.state, by_flag.config) == (tmp_path / "s", tmp_path / "c.json5")
    assert (by_flag.state_origin, by_flag.config_origin, by_flag.config_required) == ("--state", "--config", True)
    by_home = find_places(environment=home)
    assert (by_home.state, by_home.config) == (tmp_path / "sb" / "state", tmp_path / "sb" / "config.json5")
    assert (by_home.state_origin, by_home.config_required) == ("SWITCHBOARD_HOME", False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xs"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xc"))
    platform = find_places(environment={})
    assert platform.state == tmp_path / "xs" / "switchboard"
    assert platform.config == tmp_path / "xc" / "switchboard" / "config.json5"
    monkeypatch.chdir(tmp_path)
    assert find_places("here", environment={}).state == tmp_path / "here"
