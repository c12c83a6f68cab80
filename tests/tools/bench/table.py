"""Figures and how they are printed."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure.

    Attributes:
        budget: The most it may be; the least where `at_least` is set; None where there is none.
        spread: Smallest and largest of the runs, for judging the machine.
    """

    bench: str
    what: str
    value: float
    unit: str
    budget: float | None = None
    at_least: bool = False
    spread: tuple[float, float] | None = None

    @property
    def verdict(self) -> str:
        """Whether the budget is kept."""
        if self.budget is None:
            return ""
        kept = self.value >= self.budget if self.at_least else self.value <= self.budget
        return "kept" if kept else "MISSED"


def of_runs(bench: str, what: str, values: Sequence[float], unit: str, budget: float | None = None) -> Figure:
    """Return the median of several runs as a figure."""
    return Figure(bench, what, statistics.median(values), unit, budget, spread=(min(values), max(values)))


def print_table(figures: Sequence[Figure]) -> None:
    """Print figures in straight columns."""
    rows = [("", "what", "measured", "min … max", "budget", "")]
    for figure in figures:
        spread = f"{figure.spread[0]:,.3g} … {figure.spread[1]:,.3g}" if figure.spread else ""
        sign = "≥" if figure.at_least else "≤"
        budget = f"{sign} {figure.budget:,.4g} {figure.unit}" if figure.budget is not None else ""
        rows.append((figure.bench, figure.what, f"{figure.value:,.4g} {figure.unit}", spread, budget, figure.verdict))
    widths = [max(len(row[n]) for row in rows) for n in range(6)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which that share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
