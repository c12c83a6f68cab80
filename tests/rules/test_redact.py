"""H5: what an agent reads stays within its bounds, whatever was written, and secrets of the usual shapes are gone."""

import base64
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.model.messages import Message, text_block, thinking_block, tool_call_block
from core.rules.redact import MAX_BLOCK_CHARS, MAX_BYTES, Allowance, bounded_block, redact

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
SECRETS = [
    f"sk-{LETTERS}",
    f"sk-proj-{LETTERS}_x-{LETTERS}",
    f"sk-ant-api03-{LETTERS}",
    f"AIza{LETTERS[:35]}",
    f"ghp_{LETTERS}",
    f"github_pat_{LETTERS}_{LETTERS}",
    f"glpat-{LETTERS[:20]}",
    f"xoxb-1234567890-{LETTERS[:24]}",
    f"hf_{LETTERS[:34]}",
    f"gsk_{LETTERS}",
    f"sk_live_{LETTERS[:24]}",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    JWT,
    PEM,
    PEM.replace("RSA ", ""),
    PEM.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"),
    PEM.partition("-----END")[0],
]
NAMED = [
    ("Authorization: Bearer {}", "abcd"),
    ("authorization: Basic {}", "dXNlcjpwYXNz"),
    ('{{"Authorization": "Bearer {}"}}', LETTERS),
    ("curl -H 'bearer {}'", LETTERS),
    ("password={}", "hunter2!"),
    ("DB_PASSWORD = {}", "hunter2!"),
    ("export AWS_SECRET_ACCESS_KEY={}", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ('{{"password": "{}"}}', 'two words and \\"quotes\\"'),
    ('{{"apiKey": "{}"}}', "x"),
    ("https://host/?api_key={}&page=2", "12345678"),
    ("postgres://user:{}@db/main", "p%40ss:word"),
]
ORDINARY = [
    "The password is kept in a safe; ask the bearer of good news. max_tokens=4096 and token == other.",
    "We use sk-learn, a task-force-of-many-people, risk-based-prioritisation-of-everything and ask-me-anything.",
    "def token(password: str) -> Secret: ...  # the bearer token is documented in bearer-documentation-standards",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8, uuid 3f0e4c9e-8b7a-4b39-9d8e-7d1c5c3f2a10, key agent:main:main",
    "https://example.org:8080/path?page=2#top and ssh://host:22/x, mail me@example.org, 10:30:00, a://b:c d@e",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n-----BEGIN PUBLIC KEY-----\nMIIB",
    "authorization is needed. secret: nobody knows. password:\n  see below. key=value; monkey=banana",
    "Ελληνικά, 日本語, 🎉 — “quotes” … \u202e \x00 \ud800 {} [] <tag> | pipe",
    "eyJust kidding; AKIA is a prefix; AIza too; ghp_short; xoxb-; hf_; sk-; Bearer x",
    base64.b64encode(b"\0\1\2picture" * 40).decode(),
]
FRAGMENTS = st.sampled_from([
    "sk-", "eyJ", "AKIA", "AIza", "ghp_", "xoxb-", "password=", '"token": "', "Bearer ", "Authorization: ", "://a:",
    "@", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "[redacted]", "[", "]", '"', "\\", "=", ".", " ",
    "\n", "-", "_", LETTERS, "aaaaaaaa", "é",
])  # fmt: skip
TEXT = st.one_of(st.text(max_size=200), st.lists(FRAGMENTS, max_size=30).map("".join))


@pytest.mark.spec("H5")
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("around", ["{}", "my key is {}.", "KEY={}\nnext", '{{"k": "{}"}}', "`{}`", "({}),", "{}\n"])
def test_secrets_are_gone_and_their_surroundings_are_not(secret: str, around: str) -> None:
    if "END" not in secret and secret.startswith("-----"):
        around = around.partition("{}")[0] + "{}"  # a key that never ends takes the rest with it
    assert redact(around.format(secret)) == around.format("[redacted]")


@pytest.mark.spec("H5")
@pytest.mark.parametrize(("around", "secret"), NAMED)
def test_what_is_called_a_secret_is_gone_and_its_name_is_not(around: str, secret: str) -> None:
    assert redact(f"{around.format(secret)} end") == f"{around.format('[redacted]')} end"


@pytest.mark.spec("H5")
@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


@pytest.mark.spec("H5")
@given(TEXT)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.spec("H5")
@given(TEXT, st.sampled_from(SECRETS), TEXT)
def test_no_surroundings_keep_a_secret(before: str, secret: str, after: str) -> None:
    shown = redact(f"copper {before} {secret} {after}")
    assert secret not in shown
    assert "[redacted]" in shown
    assert shown.startswith("copper "), "what stands before all of it is left alone"


@pytest.mark.spec("H5")
@given(
    st.text("copper tin\n.,", max_size=60),
    st.sampled_from([each for each in SECRETS if "END" in each or "-----" not in each]),
)
def test_ordinary_surroundings_are_kept_to_the_letter(words: str, secret: str) -> None:
    assert redact(f"{words} {secret} {words}") == f"{words} [redacted] {words}"


@pytest.mark.spec("H5")
@pytest.mark.parametrize("hostile", [
    "sk-", "sk-aaaaaaaa ", "eyJ", "eyJaaaaaaaaaaaaaaaaaaaa.", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "password=",
    "password = ", '"password":"\\', "://a:", "://", "Bearer ", "Authorization: ", "AKIA", "x://aaaaaaaa:bbbbbbbb",
    "-----BEGIN PRIVATE KEY-----x-----END ",
])  # fmt: skip
def test_time_grows_with_the_text_and_no_more(hostile: str) -> None:
    def seconds(size: int) -> float:
        text = hostile * (size // len(hostile))
        begin = time.process_time()
        redact(text)
        return time.process_time() - begin

    assert seconds(1_000_000) < 10  # with going back it would be minutes


def message(seq: int, *content: dict[str, Any]) -> Message:
    """Return a message with these blocks."""
    return Message(f"id-{seq}", seq, 1_700_000_000_000 + seq, "assistant", content, model="m", stop_reason="stop")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
LONG = st.integers(0, 9_000).map(lambda n: "é" * n)
BLOCKS = st.one_of(
    (TEXT | LONG).map(text_block),
    (TEXT | LONG).map(thinking_block),
    (VALUES | LONG).map(lambda value: tool_call_block("c", "tool", {"password": value})),
    LONG.map(lambda data: {"type": "image", "mimeType": "image/png", "data": data}),
    st.dictionaries(TEXT, VALUES | LONG, max_size=4),
)


@pytest.mark.spec("H5")
@settings(max_examples=40)
@given(st.lists(st.lists(st.lists(BLOCKS, max_size=4), max_size=12), min_size=1, max_size=3))
def test_bounds_hold_whatever_was_written(histories: list[list[list[dict[str, Any]]]]) -> None:
    allowance, written = Allowance(), 0
    for contents in histories:
        given_ = [message(seq, *content) for seq, content in enumerate(contents, 1)]
        bounded = allowance.take(given_)
        written += len(json.dumps(bounded.messages, ensure_ascii=False).encode("utf-8", "surrogatepass")) - 2
        assert len(bounded.messages) + bounded.left_out == len(given_)
        assert [m["seq"] for m in bounded.messages] == [m.seq for m in given_[bounded.left_out :]]
        for shown in bounded.messages:
            for block in shown["content"]:
                words = [value for name, value in block.items() if isinstance(value, str) and name != "type"]
                assert sum(map(len, words)) <= MAX_BLOCK_CHARS
                assert len(json.dumps(block.get("arguments"), ensure_ascii=False)) <= MAX_BLOCK_CHARS + 20
    assert written <= MAX_BYTES


@pytest.mark.spec("H5")
def test_a_long_block_is_cut_and_says_by_how_much() -> None:
    assert bounded_block(text_block("x" * 4_000)) == text_block("x" * 4_000)
    assert bounded_block(text_block("x" * 100_000)) == {**text_block("x" * 4_000), "cut": 96_000}
    assert bounded_block({"type": "image", "mimeType": "i/p", "data": "x" * 4_001}) == {
        "type": "image",
        "mimeType": "i/p",
        "data": "",
        "cut": 4_001,
    }
    long_call = bounded_block(tool_call_block("c", "t", {"text": "x" * 5_000}))
    assert long_call["arguments"] == {"partly": '{"text": "' + "x" * 3_988}
    assert long_call["cut"] == 5_012 - 3_998


@pytest.mark.spec("H5")
@pytest.mark.parametrize("at", [3_970, 3_999])
def test_a_secret_over_the_cut_is_known(at: int) -> None:
    for secret in SECRETS:
        shown = bounded_block(text_block("x" * at + " " + secret + " y" * 5_000))["text"]
        assert (shown + "[redacted]")[: at + 11] == "x" * at + " [redacted]" or shown == "x" * 3_999 + " "


@pytest.mark.spec("H5")
def test_arguments_of_a_tool_call_are_redacted_by_name_and_shape() -> None:
    call = tool_call_block("c", "t", {"a": 1, "password": "hunter2!", "deep": [{"x": f"use sk-{LETTERS}"}]})
    assert bounded_block(call)["arguments"] == {"a": 1, "password": "[redacted]", "deep": [{"x": "use [redacted]"}]}


@pytest.mark.spec("H5")
def test_the_newest_win_and_one_too_large_keeps_its_beginning() -> None:
    small, large = text_block("x" * 1_000), text_block("y" * 4_000)
    history = [message(seq, small) for seq in range(1, 101)]
    bounded = Allowance().take(history)
    assert [m["seq"] for m in bounded.messages] == list(range(1 + bounded.left_out, 101))
    assert 65 < len(bounded.messages) < 80
    huge = Allowance().take([message(1, small), message(2, *[large] * 30)])
    assert (huge.left_out, len(huge.messages)) == (1, 1)
    assert len(huge.messages[0]["content"]) + huge.messages[0]["cut"] == 30
    assert len(huge.messages[0]["content"]) == 20
