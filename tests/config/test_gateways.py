"""Gateways elsewhere, as the configuration names them (architecture#configuration)."""

from pathlib import Path

import pytest

from core.config.gateways import is_name
from core.config.load import load
from core.config.paths import find_places
from core.config.settings import GatewaySettings, Settings
from core.model.errors import Invalid, Unavailable

CERTIFICATE = "ab" * 32


def read(folder: Path, text: str) -> Settings:
    """Read a text as the configuration."""
    file = folder / "config.json5"
    file.write_text(text, encoding="utf-8")
    return load(find_places(str(folder / "state"), str(file)), {})


def refusal(folder: Path, text: str) -> str:
    """Return the sentence with which a text is refused."""
    with pytest.raises(Invalid) as caught:
        read(folder, text)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_profiles_keep_their_order_and_read_their_tokens_when_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("from-file\n")
    found = read(
        tmp_path,
        f"""{{gateways: {{
          prod: {{url: "wss://ops.example:18789/", token: {{env: "PROD_TOKEN"}}}},
          home: {{url: "http://127.0.0.1:18789", token: {{file: "{tmp_path}/token"}},
                  tls: {{ca: "/etc/ours.pem", fingerprint: "SHA256:{":".join(["AB"] * 32)}", insecure: true}}}},
          open: {{url: "ws://localhost:1"}},
          old: {{url: "ws://localhost:2", token: "plain-text-token"}},
        }}}}""",
    )
    assert list(found.gateways) == ["prod", "home", "open", "old"]
    prod, home, bare, old = found.gateways.values()
    assert (prod.name, prod.url) == ("prod", "wss://ops.example:18789")
    assert bare == GatewaySettings("open", "ws://localhost:1")
    assert (home.ca, home.fingerprint, home.insecure) == (Path("/etc/ours.pem"), CERTIFICATE, True)
    monkeypatch.setenv("PROD_TOKEN", " from-environment ")
    tokens = [each.token.reveal() for each in (prod, home, old) if each.token is not None]
    assert tokens == ["from-environment", "from-file", "plain-text-token"]
    assert len(found.notices) == 1
    assert found.notices[0].startswith("gateways.old.token holds the token itself")
    assert "plain-text-token" not in repr(found)


def test_a_token_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    token = (
        read(tmp_path, '{gateways: {prod: {url: "ws://localhost", token: {env: "NOWHERE"}}}}').gateways["prod"].token
    )
    assert token is not None
    with pytest.raises(Unavailable, match="the environment variable NOWHERE, which holds the gateway's token, is not"):
        token.reveal()


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ('{"a b": {url: "ws://h"}}', ["gateways.a b", "expected a name of letters, digits, ., _ and -"]),
        ('{"a@b": {url: "ws://h"}}', ["gateways.a@b", "expected a name"]),
        ('{"a:b": {url: "ws://h"}}', ["expected a name"]),
        ('{"a/b": {url: "ws://h"}}', ["expected a name"]),
        ('{local: {url: "ws://h"}}', ["gateways.local", "other than local"]),
        ("{prod: {}}", ["gateways.prod.url is missing"]),
        ('{prod: {url: "ftp://h"}}', ["gateways.prod.url", '"ftp://h"', "expected an address such as wss://"]),
        ('{prod: {url: "host:18789"}}', ["expected an address such as wss://"]),
        ('{prod: {url: "ws://h", tokn: "x"}}', ["gateways.prod.tokn is not known", 'did you mean "token"?']),
        ('{prod: {url: "ws://h", tls: {ca: "mine.pem"}}}', ["gateways.prod.tls.ca", "expected a file that begins"]),
        ('{prod: {url: "ws://h", tls: {fingerprint: "abc"}}}', ["tls.fingerprint", "64 hexadecimal digits"]),
        ('{prod: {url: "ws://h", tls: {insecure: "yes"}}}', ["tls.insecure", "expected true or false"]),
        ('{prod: {url: "ws://h", token: {env: "A", file: "/b"}}}', ["gateways.prod.token must be one of"]),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, inside: str, words: list[str]) -> None:
    sentence = refusal(tmp_path, f"{{\n  gateways: {inside},\n}}")
    assert sentence.startswith(f"{tmp_path / 'config.json5'} line 2: gateways.")
    for word in words:
        assert word in sentence


@pytest.mark.parametrize(
    "inside",
    [
        '{prod: "s3cret"}',
        '{prod: {url: "ws://me:s3cret@h"}}',
        '{prod: {url: "ws://h?token=s3cret"}}',
        '{prod: {url: "ws://h#s3cret"}}',
        '{prod: {url: "ws://h", token: ["s3cret"]}}',
        '{prod: {url: "ws://h", token: {literal: ["s3cret"]}}}',
    ],
)
def test_no_secret_is_repeated(tmp_path: Path, inside: str) -> None:
    assert "s3cret" not in refusal(tmp_path, f"{{gateways: {inside}}}")


@pytest.mark.parametrize("name", ["prod", "eu-1", "a.b_c", "9", "x" * 40])
def test_names(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize("name", ["", "local", "a@b", "a:b", "a/b", "a b", "-a", "x" * 41, "a,b", "é", "a\n"])
def test_no_names(name: str) -> None:
    assert not is_name(name)
