"""Scenes are played without waiting by the clock."""

import tests.support.idle  # noqa: F401 - it is imported for what it does
