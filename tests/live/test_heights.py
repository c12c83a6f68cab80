"""Heights by index against a plain list, under any changes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.live.heights import Heights

CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 50)),
        st.tuples(st.just("set"), st.integers(0, 200), st.integers(0, 50)),
        st.tuples(st.just("replace"), st.lists(st.integers(0, 50), max_size=40)),
    ),
    max_size=60,
)


def naive_at(values: list[int], line: int) -> int:
    """Return the row at a line by walking from the top."""
    start = 0
    for index, height in enumerate(values):
        if start <= line < start + height:
            return index
        start += height
    return 0 if line < 0 else max(0, len(values) - 1)


@given(st.lists(st.integers(0, 50), max_size=40), CHANGES)
def test_heights_are_those_of_a_list(values: list[int], changes: list[Any]) -> None:
    heights = Heights(values)
    for change in changes:
        match change:
            case ("append", height):
                values.append(height)
                heights.append(height)
            case ("set", index, height) if values:
                values[index % len(values)] = height
                heights.set(index % len(values), height)
            case ("replace", new):
                values = list(new)
                heights.replace(new)
            case _:
                pass
    assert len(heights) == len(values)
    assert [heights[index] for index in range(len(values))] == values
    assert heights.total == sum(values)
    assert [heights.start(index) for index in range(len(values) + 1)] == [
        sum(values[:i]) for i in range(len(values) + 1)
    ]
    for line in range(sum(values)):
        assert heights.at(line) == naive_at(values, line)
    assert heights.at(sum(values) + 5) == max(0, len(values) - 1)
    assert heights.at(-1) == 0
