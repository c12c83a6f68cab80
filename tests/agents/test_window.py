"""What part of a transcript is sent to a model."""

from hypothesis import given, settings
from hypothesis import strategies as st

from core.agents.window import NO_RESULT, Unit, fitting, message_tokens, paired, text_tokens, visible_part
from core.config.settings import ModelSettings
from core.model.messages import Message
from core.model.tools import Tool
from tests.support.messages import assistant, call, note, result, user


def flat(units: list[Unit]) -> list[Message]:
    return [message for unit in units for message in unit]


def texts(units: list[Unit]) -> list[str]:
    return [message.text for message in flat(units)]


def model(window: int | None, max_tokens: int | None = None) -> ModelSettings:
    return ModelSettings("p", "m", "openai-completions", "http://x", None, window, max_tokens)


def test_text_counts_four_characters_a_token():
    assert [text_tokens("x" * n) for n in (0, 1, 4, 5, 400)] == [0, 1, 1, 2, 100]


def test_an_image_counts_by_itself_not_by_its_bytes():
    small = message_tokens(user("", {"type": "image", "mimeType": "image/png", "data": "x"}))
    assert message_tokens(user("", {"type": "image", "mimeType": "image/png", "data": "x" * 100_000})) == small > 1000


def test_notes_for_people_are_left_out():
    assert texts(paired([note("interrupted"), user("a"), note("x"), assistant("b")])) == ["a", "b"]


def test_results_stand_behind_their_calls_in_order():
    asks = assistant(call("1"), call("2"))
    later, two, one = user("queued"), result("2", "two"), result("1", "one")
    assert paired([user("go"), asks, later, two, one])[1:] == [(asks, one, two), (later,)]


def test_a_call_without_result_is_answered():
    unit = paired([user("go"), assistant(call("1"), call("2")), result("2", "two")])[1]
    assert [(message.tool_call_id, message.text, message.is_error) for message in unit[1:]] == [
        ("1", NO_RESULT, True),
        ("2", "two", False),
    ]


def test_results_nobody_asked_for_are_left_out():
    stray = [result("9"), user("go"), assistant(call("1")), result("1"), result("1", "again"), assistant("done")]
    assert texts(paired(stray)) == ["go", "", "found", "done"]


def test_the_same_id_in_two_replies_keeps_its_own_result():
    transcript = [assistant(call("c")), result("c", "first"), assistant(call("c")), result("c", "second")]
    assert texts(paired(transcript)) == ["", "first", "", "second"]


def test_everything_is_sent_when_the_window_is_not_known():
    long = [user("x" * 100_000), assistant("y" * 100_000), user("z")]
    assert visible_part(long, model=model(None), system="", tools=()) == long


def test_the_oldest_go_first():
    transcript = [user("a" * 400), assistant("b" * 400), user("c" * 400), assistant("d" * 400), user("now")]
    kept = fitting(paired(transcript), 250)
    assert flat(kept) == transcript[2:]


def test_what_stays_begins_with_a_user_message():
    transcript = [user("a" * 400), assistant("b"), user("c"), assistant("d"), user("now")]
    assert flat(fitting(paired(transcript), 100)) == transcript[2:]


def test_a_transcript_that_fits_may_begin_with_a_reply():
    transcript = [assistant("hello"), user("now")]
    assert flat(fitting(paired(transcript), 100)) == transcript


def test_calls_go_with_their_results():
    transcript = [user("a"), assistant(call("1")), result("1", "x" * 4000), assistant("b"), user("now")]
    assert flat(fitting(paired(transcript), 100)) == transcript[-1:]


def test_the_newest_user_message_stays_and_old_rounds_of_its_turn_go():
    now = user("now" * 100)
    rounds = [[assistant(call(str(n))), result(str(n), "x" * 400)] for n in range(3)]
    kept = flat(fitting(paired([user("old"), now, *rounds[0], *rounds[1], *rounds[2]]), 220))
    assert kept == [now, *rounds[2]]


def test_system_prompt_tools_and_reply_take_room():
    transcript = [user("a" * 400), assistant("b" * 400), user("now")]
    tools = (Tool("look", "d" * 400, {"type": "object"}),)

    def sent(window: int, *, system: str = "", tools: tuple[Tool, ...] = (), most: int = 100) -> int:
        return len(visible_part(transcript, model=model(window, most), system=system, tools=tools))

    assert sent(400) == 3
    assert sent(400, system="s" * 400) == 1
    assert sent(400, tools=tools) == 1
    assert sent(400, most=200) == 1
    assert sent(800, most=1_000_000) == 3  # a reply never takes more than half the window


TURN = st.sampled_from(["user", "reply", "call", "calls", "orphan", "lost", "note"])


@settings(deadline=None)
@given(st.lists(st.tuples(TURN, st.integers(0, 300))), st.integers(-50, 600))
def test_what_is_sent_is_always_well_formed(turns: list[tuple[str, int]], room: int):
    transcript = [message for n, (kind, size) in enumerate(turns) for message in make(kind, size, n)]
    units = paired(transcript)
    sent = fitting(units, room)
    messages = flat(sent)
    for n, message in enumerate(messages):
        ids = [block["id"] for block in message.content if block["type"] == "toolCall"]
        assert [other.tool_call_id for other in messages[n + 1 : n + 1 + len(ids)]] == ids
    assert all(message.role != "system" for message in messages)
    users = [message for message in transcript if message.role == "user"]
    assert not users or users[-1] in messages
    assert not sent or sent[-1] is units[-1]
    dropped = len(units) - len(sent)
    size = sum(map(message_tokens, messages))
    assert not dropped or sum(map(message_tokens, flat(units))) > room
    assert size <= room or len(sent) <= 2


def make(kind: str, size: int, n: int) -> list[Message]:
    text = "x" * size
    if kind in {"call", "calls"}:
        ids = [f"{n}-{m}" for m in range(2 if kind == "calls" else 1)]
        return [assistant(text, *map(call, ids)), *(result(call_id, text) for call_id in reversed(ids))]
    simple = {
        "user": user(text),
        "reply": assistant(text),
        "orphan": result(str(n), text),
        "lost": assistant(call(str(n))),
        "note": note(text),
    }
    return [simple[kind]]
