"""How fast the fleet spends: tokens a minute and US dollars an hour, from the runs that ended lately."""

from collections import deque
from typing import Final

from core.model.runs import Run

TOKEN_WINDOW_MS: Final = 60_000
COST_WINDOW_MS: Final = 600_000


class Rates:
    """What was spent in the last minutes."""

    def __init__(self) -> None:
        self._ended: deque[tuple[int, int, float]] = deque()

    def add(self, run: Run) -> None:
        """Count a run that has ended."""
        if run.ended_at is not None:
            self._ended.append((run.ended_at, run.usage.context, run.usage.cost_usd or 0.0))

    def tokens_a_minute(self, now_ms: int) -> int:
        """Return the tokens of the last minute."""
        self._forget(now_ms)
        return sum(tokens for at, tokens, _ in self._ended if now_ms - at < TOKEN_WINDOW_MS)

    def dollars_an_hour(self, now_ms: int) -> float:
        """Return US dollars of the last ten minutes, as if the hour went on like that."""
        self._forget(now_ms)
        return sum(cost for _, _, cost in self._ended) * 3_600_000 / COST_WINDOW_MS

    def _forget(self, now_ms: int) -> None:
        while self._ended and now_ms - self._ended[0][0] >= COST_WINDOW_MS:
            self._ended.popleft()
