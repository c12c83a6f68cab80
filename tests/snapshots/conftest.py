"""Scenes are played without waiting by the clock."""

import tests.support.idle
import tests.support.quick_screen  # noqa: F401 - it is imported for what it does
