"""How fast the fleet spends."""

from hypothesis import given
from hypothesis import strategies as st

from console.live.rates import COST_WINDOW_MS, TOKEN_WINDOW_MS, Rates
from core.model.messages import Usage
from tests.live.samples import make_run

RUNS = st.lists(st.tuples(st.integers(0, 2_000_000), st.integers(0, 10_000), st.none() | st.floats(0, 10)), max_size=30)


@given(RUNS, st.integers(0, 1_000_000))
def test_rates_are_sums_over_the_last_minutes(ended: list[tuple[int, int, float | None]], later: int) -> None:
    rates = Rates()
    for at, count, cost in sorted(ended, key=lambda run: run[0]):
        rates.add(make_run("key", ended_at=at, usage=Usage(input=count, cost_usd=cost)))
    now = max((at for at, _, _ in ended), default=0) + later
    spent = sum(count for at, count, _ in ended if now - at < TOKEN_WINDOW_MS)
    assert rates.tokens_a_minute(now) == spent
    dollars = sum(cost or 0.0 for at, _, cost in ended if now - at < COST_WINDOW_MS)
    assert abs(rates.dollars_an_hour(now) - dollars * 6) < 1e-6


def test_a_run_without_an_end_counts_for_nothing() -> None:
    rates = Rates()
    rates.add(make_run("key", usage=Usage(input=5, cost_usd=1.0)))
    assert (rates.tokens_a_minute(0), rates.dollars_an_hour(0)) == (0, 0.0)
