"""Runs, from the queue to the end of a turn."""
