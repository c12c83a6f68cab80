"""Measurements of the budgets; `python -m tests.bench` prints them. Nothing here asserts a time."""
