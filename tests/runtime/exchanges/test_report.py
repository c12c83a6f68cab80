"""W6: what a sub-agent says in the form of a report is read as one, and nothing that it says is lost."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.runtime.exchanges.announce import result_text
from core.runtime.exchanges.report import TaskReport, read_report
from tests.live.samples import make_run, make_session

CHILD = "agent:main:subagent:1"
CODE = "```yaml\nStatus: live\nNotes: none\n```"


@pytest.mark.spec("W6")
@pytest.mark.parametrize(
    ("text", "report"),
    [
        ("three flags", TaskReport("three flags")),
        ("Status: failed\nResult: three flags\nNotes: n", TaskReport("three flags", "failed", "n")),
        (
            "status:done\nRESULT:\nthree\nflags\n\nnotes：\n- one\n- two",
            TaskReport("three\nflags", "done", "- one\n- two"),
        ),
        ("**Status:** done\n**Result**: three\n__Notes__: n", TaskReport("three", "done", "n")),
        ("- Status: done\n- Result: three\n- Note: n", TaskReport("three", "done", "n")),
        ("## Result:\nthree flags\n## Notes:\nn", TaskReport("three flags", "", "n")),
        ("Notes: n\nResult: three", TaskReport("three", "", "n")),
        ("Here it is.\n\nStatus: ok\nResult: three", TaskReport("Here it is.\n\nthree", "ok")),
        ("three flags\n\nNotes: one host was silent", TaskReport("three flags", "", "one host was silent")),
        ("The host says:\nStatus: degraded\nUptime: 3 d", TaskReport("The host says:\nStatus: degraded\nUptime: 3 d")),
        ("Status: done\nall three flags", TaskReport("all three flags", "done")),
        ("Result: three\nResult: four", TaskReport("three\nResult: four")),
        (f"Result: this\n{CODE}", TaskReport(f"this\n{CODE}")),
        (CODE, TaskReport(CODE)),
        ("Status: done", TaskReport("", "done")),
        ("Resulting: x", TaskReport("Resulting: x")),
        ("", TaskReport("")),
    ],
)
def test_a_reply_is_read_as_its_parts(text: str, report: TaskReport) -> None:
    assert read_report(text) == report


_TEXT = st.text(st.sampled_from("ab \n#-:."), max_size=30).map(str.strip)
_DRESS = {
    "status": ("Status:", "STATUS :", "**Status:**", "- status："),
    "result": ("Result:", "result：", "__Result__:", "## Result:"),
    "notes": ("Notes:", "note:", "> Notes :", "***Notes***:"),
}


@pytest.mark.spec("W6")
@given(status=st.text("ab", min_size=1), result=_TEXT, notes=_TEXT, data=st.data())
def test_a_form_in_any_order_and_dress_gives_its_parts(
    status: str, result: str, notes: str, data: st.DataObject
) -> None:
    parts = {"status": status, "result": result, "notes": notes}
    names = data.draw(st.permutations(sorted(parts)).filter(lambda names: names.index("status") != 1 or not result))
    lines = [f"{data.draw(st.sampled_from(_DRESS[name]))} {parts[name]}" for name in names]
    assert read_report("\n".join(lines)) == TaskReport(result, status, notes)


@pytest.mark.spec("W6")
@given(
    st.lists(
        st.sampled_from(["Status: ", "\nResult:", "\nNotes:", "\n**Notes**: ", "~", "```\n", "- ", "**", ":", "\n"]),
        max_size=20,
    )
)
def test_no_word_is_lost(pieces: list[str]) -> None:
    numbered = iter(range(100))
    text = "".join(f" w{next(numbered)} " if piece == "~" else piece for piece in pieces)
    report = read_report(text)
    kept = f"{report.status} {report.result} {report.notes}".split()
    assert sorted(word for word in kept if word[0] == "w") == sorted(w for w in text.split() if w[0] == "w")


# What a requester is told of it


def told(reply: str, **fields: Any) -> str:
    """Return what the requester of a sub-agent reads, without its first line and its stats."""
    run = make_run(CHILD, **{"state": "done", "kind": "subagent"} | fields)
    text = result_text(make_session(CHILD), run, read_report(reply), "/nowhere")
    return text.rpartition("\n\nStats:")[0].partition("\n\n")[2]


@pytest.mark.spec("W6")
def test_the_outcome_of_the_run_is_the_status_and_what_it_says_itself_a_note() -> None:
    reply = "Status: failed\nResult: three flags\nNotes: one host was silent"
    notes = "it calls its status: failed; one host was silent"
    assert told(reply) == f"Status: done\nResult: three flags\nNotes: {notes}"
    assert told(reply, state="timed_out", error="too slow") == (
        f"Status: timed_out\nResult: three flags\nNotes: too slow; {notes}"
    )


@pytest.mark.spec("W6")
def test_a_report_that_is_right_already_stays_as_it_is() -> None:
    reply = "Status: done\nResult: three flags\nNotes: one host was silent"
    assert told(reply) == reply
    assert told("Status: Done\nResult: three flags") == "Status: done\nResult: three flags"


@pytest.mark.spec("W6")
def test_notes_and_a_status_are_cut_too() -> None:
    text = told(f"Status: {'s' * 500}\nResult: r\nNotes: {'n' * 9_000}")
    assert text == f"Status: done\nResult: r\nNotes: it calls its status: {'s' * 200}…; {'n' * 4_000}…"
