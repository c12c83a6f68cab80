"""`gateway`: where the server listens and whom it lets in, and the configuration as clients may see it."""

import json
from pathlib import Path

import pytest

from core.config.load import load
from core.config.paths import Places, find_places
from core.config.redacted import REDACTED, redacted_config
from core.config.settings import Secret, ServerSettings, Settings
from core.model.errors import Invalid


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Return where the configuration of a test is."""
    return find_places(str(tmp_path / "state"), str(tmp_path / "config.json5"))


def read(places: Places, text: str) -> Settings:
    """Read a configuration."""
    places.config.write_text(text, encoding="utf-8")
    return load(places, {})


def test_without_a_word_it_is_on_loopback(places: Places) -> None:
    assert read(places, "{}").server == ServerSettings("127.0.0.1", 18789)


@pytest.mark.parametrize(
    ("bind", "host"),
    [
        ('"loopback"', "127.0.0.1"),
        ('"lan"', "0.0.0.0"),
        ('"192.168.1.5"', "192.168.1.5"),
        ('"::1"', "::1"),
        ('"custom", customBindHost: "10.0.0.7"', "10.0.0.7"),
    ],
)
def test_where_it_listens(places: Places, bind: str, host: str) -> None:
    assert read(places, f"{{gateway: {{bind: {bind}}}}}").server.host == host


def test_everything_of_the_section(places: Places) -> None:
    found = read(
        places,
        """{gateway: {
          mode: "local", port: 19000, publicOrigin: "https://gateway.example.com/",
          auth: {mode: "token", token: "${GATEWAY}", readOnlyToken: {file: "/reading"}, allowTailscale: true},
          tls: {enabled: true, certPath: "/cert.pem", keyPath: "~/key.pem"},
          controlUi: {enabled: true, allowedOrigins: ["https://panel.example.com"]},
          trustedProxies: ["10.0.0.1", "::1"], tailscale: {mode: "off"}, remote: {url: "ws://x"},
        }}""",
    )
    assert found.server == ServerSettings(
        "127.0.0.1",
        19000,
        "https://gateway.example.com",
        ("https://panel.example.com",),
        Secret("env", "GATEWAY", "the gateway's token"),
        Secret("file", "/reading", "the read-only token"),
        Path("/cert.pem"),
        Path.home() / "key.pem",
        ("10.0.0.1", "::1"),
    )
    (notice,) = found.notices
    for name in ("gateway.mode", "gateway.auth.allowTailscale", "gateway.controlUi.enabled", "gateway.tailscale"):
        assert name in notice


def test_a_token_in_the_file_is_warned_of_and_not_repeated(places: Places) -> None:
    found = read(places, '{gateway: {auth: {token: "hush-hush"}}}')
    assert found.server.token == Secret("literal", "hush-hush", "the gateway's token")
    assert "gateway.auth.token" in found.notices[0]
    assert "hush" not in repr(found)
    assert "hush" not in str(found.notices)


@pytest.mark.parametrize("tls", ["{enabled: false, certPath: '/c', keyPath: '/k'}", "{}", "{enabled: false}"])
def test_without_tls(places: Places, tls: str) -> None:
    server = read(places, f"{{gateway: {{tls: {tls}}}}}").server
    assert (server.certificate, server.key) == (None, None)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('bind: "tailnet"', 'gateway.bind is "tailnet": expected "loopback", "lan", or an IP address'),
        ('bind: "custom"', "give the address as gateway.customBindHost"),
        ('customBindHost: "here"', "expected an IP address"),
        ("port: 0", "gateway.port is 0: expected 1 or more"),
        ("port: 70000", "expected 65535 or less"),
        ('publicOrigin: "gateway.example.com"', "expected an origin such as https://gateway.example.com"),
        ('publicOrigin: "https://a.b/path"', "without a path"),
        ('controlUi: {allowedOrigins: ["*"]}', "expected an origin"),
        ('trustedProxies: ["proxy"]', "expected an IP address"),
        ('auth: {mode: "none"}', 'expected "token"'),
        ("tls: {enabled: true}", "needs certPath and keyPath"),
        ('tls: {certPath: "/c"}', "needs certPath and keyPath"),
        ('auth: {readOnlyTokn: "x"}', 'did you mean "readOnlyToken"?'),
        ("auth: {readOnlyToken: 5}", "gateway.auth.readOnlyToken is …"),
    ],
)
def test_what_is_wrong_is_said(places: Places, section: str, words: str) -> None:
    with pytest.raises(Invalid) as error:
        read(places, f"{{gateway: {{{section}}}}}")
    assert words in error.value.message


def test_clients_see_everything_but_the_secrets(places: Places) -> None:
    places.config.write_text(
        """{ // a comment
          gateway: {port: 5, auth: {token: "s1-gateway", password: "s2-pass", mode: "token"}, trustedProxies: ["::1"]},
          models: {providers: {x: {apiKey: "s3-key", baseUrl: "https://me:s4-pw@host/v1",
                                   headers: {Authorization: "s5", "X-Plain": "s12"}},
                               y: {apiKey: {env: "NAME"}, models: [{id: "m", maxTokens: 100}]}}},
          channels: {telegram: {botToken: "s6-bot", accounts: [{clientSecret: ["s7", "s8"]}]}},
          env: {vars: {OPENAI_API_KEY: "s9", PLAIN: "s11", PIN: 12}, PLAIN: "s13"}, notes: "use sk-ant-REDACTED-s10",
          hooks: {slack: "https://hooks.slack.example/services/s14/s15", url: "https://x.example/?s16=s17"},
          gateways: {prod: {url: "wss://prod.example/s18-which-is-long-enough-to-be-a-key?key=s19#s20"}},
          plugins: {entries: {mail: {config: {imap: "s21", port: 12, on: true}}}},
          session: {sendPolicy: {rules: [{action: "deny", match: {keyPrefix: "cron:"}}]}},
        }""",
        encoding="utf-8",
    )
    found = redacted_config(places)
    text = json.dumps(found)
    assert [f"s{n}" for n in range(1, 22) if f"s{n}" in text] == []
    assert "12" not in text, "a number may be a secret too"
    assert found["plugins"] == {"entries": {"mail": {"config": {"imap": REDACTED, "port": REDACTED, "on": True}}}}
    assert found["gateways"] == {"prod": {"url": "wss://prod.example/…?…"}}
    assert found["gateway"] == {
        "port": 5,
        "auth": {"token": REDACTED, "password": REDACTED, "mode": "token"},
        "trustedProxies": ["::1"],
    }
    assert found["models"]["providers"]["y"] == {"apiKey": {"env": "NAME"}, "models": [{"id": "m", "maxTokens": 100}]}
    assert found["models"]["providers"]["x"]["baseUrl"] == "https://…@host/v1"
    assert found["session"]["sendPolicy"]["rules"][0]["match"]["keyPrefix"] == "cron:"


@pytest.mark.parametrize("text", [None, "{", "[]", "", "\udcff"])
def test_a_file_that_cannot_be_read_shows_nothing(places: Places, text: str | None) -> None:
    if text is not None:
        places.config.write_bytes(text.encode(errors="surrogateescape"))
    assert redacted_config(places) == {}
