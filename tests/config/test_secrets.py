"""Keys of models are read when they are needed, and never shown (architecture#configuration, architecture#threats)."""

import traceback
from pathlib import Path

import pytest

from core.config.load import load
from core.config.paths import find_places
from core.config.settings import Secret, Settings
from core.model.errors import Invalid, NotFound, Unavailable

SECRET = "sk-THIS-IS-SECRET"


def with_key(tmp_path: Path, key: str) -> Settings:
    """Read a file with one provider that has this key."""
    file = tmp_path / "config.json5"
    file.write_text(
        '{models: {providers: {p: {baseUrl: "http://x", apiKey: KEY, models: [{id: "m"}]}}}}'.replace("KEY", key)
    )
    return load(find_places(str(tmp_path), str(file)), {})


def secret_of(settings: Settings) -> Secret:
    """Return the key of the only model."""
    model = settings.model("p/m")
    assert model is not None
    assert model.api_key is not None
    return model.api_key


def test_a_key_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for written in ('{env: "THE_KEY"}', '"${THE_KEY}"'):
        secret = secret_of(with_key(tmp_path, written))
        with pytest.raises(Unavailable, match="THE_KEY"):
            secret.reveal()
        monkeypatch.setenv("THE_KEY", f" {SECRET}\n")
        assert secret.reveal() == SECRET
        assert secret.words == "env THE_KEY"
        monkeypatch.delenv("THE_KEY")


def test_a_key_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    secret = secret_of(with_key(tmp_path, f'{{file: "{file}"}}'))
    with pytest.raises(Unavailable, match="cannot be read: No such file"):
        secret.reveal()
    file.write_text(" \n")
    with pytest.raises(Unavailable, match="is empty"):
        secret.reveal()
    file.write_bytes(SECRET.encode() + b"\xff")
    with pytest.raises(Unavailable, match="not UTF-8") as caught:
        secret.reveal()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    file.write_text(f"{SECRET}\n")
    assert secret.reveal() == SECRET


def test_a_literal_key_works_with_a_warning(tmp_path: Path) -> None:
    found = with_key(tmp_path, f'"{SECRET}"')
    assert secret_of(found).reveal() == SECRET
    assert len(found.notices) == 1
    assert "models.providers.p.apiKey holds the key itself" in found.notices[0]
    assert SECRET not in found.notices[0]


def test_no_repr_holds_a_key(tmp_path: Path) -> None:
    found = with_key(tmp_path, f'"{SECRET}"')
    assert SECRET not in repr(found)
    assert SECRET not in str(secret_of(found))
    assert SECRET not in secret_of(found).words


@pytest.mark.parametrize(
    "text",
    [
        '{models: {providers: {p: "KEY"}}}',
        '{models: {providers: {p: {baseUrl: "http://x", apiKey: ["KEY"]}}}}',
        '{models: {providers: {p: {baseUrl: "http://x", apiKey: {env: ["KEY"]}}}}}',
        '{models: {providers: {p: {baseUrl: "http://x", apiKey: {literal: "KEY", env: "X"}}}}}',
        '{models: {providers: {p: {baseUrl: "http://x", apikey: "KEY"}}}}',
        '{models: {providers: {p: {baseUrl: "ftp://user:KEY@x"}}}}',
        '{models: {providers: {p: {baseUrl: "http://x", apiKey: "KEY", models: 5}}}}',
        '{models: {providers: {p: {baseUrl: "http://x", apiKey: "KEY',
        '{models: {providers: {p: {baseUrl: "http://x", apiKey: KEY}}}}',
    ],
)
def test_no_error_holds_a_key(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.json5"
    file.write_text(text.replace("KEY", SECRET))
    with pytest.raises(Invalid) as caught:
        load(find_places(str(tmp_path), str(file)), {})
    assert SECRET not in "".join(traceback.format_exception(caught.value)).replace(text.replace("KEY", SECRET), "")
    assert SECRET not in caught.value.message


@pytest.mark.parametrize("key", ["4711471147", "{env: 4711471147}", "{file: 4711471147}"])
def test_not_even_a_key_of_digits_is_repeated(tmp_path: Path, key: str) -> None:
    with pytest.raises(Invalid, match="apiKey") as caught:
        with_key(tmp_path, key)
    assert "4711471147" not in caught.value.message


def test_unknown_agents_and_models_are_named_with_those_there_are(tmp_path: Path) -> None:
    found = with_key(tmp_path, '{env: "K"}')
    with pytest.raises(NotFound, match='agent "nobody" is not configured: use one of main'):
        found.agent("nobody")
    with pytest.raises(NotFound, match='model "p/x" is not configured: use one of p/m, builtin'):
        found.model("p/x")
    assert found.model("builtin") is None
    with pytest.raises(NotFound) as caught:
        found.model("\x1b[2J")
    assert caught.value.message.isprintable()
