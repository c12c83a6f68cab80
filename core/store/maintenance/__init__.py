"""Copies of a state directory, and what is wrong in it."""
