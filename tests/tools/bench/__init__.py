"""Measurements of the budgets; `python -m tests.tools.bench` prints them. Nothing here asserts a time."""

import console  # first: it says how often Textual paints, which Textual reads once

__all__ = ["console"]
