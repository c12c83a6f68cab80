"""Scenes are played without waiting by the clock."""

import tests.support.idle  # pyright: ignore[reportUnusedImport] - it is imported for what it does
import tests.support.quick_screen  # noqa: F401  # pyright: ignore[reportUnusedImport] - it is imported for what it does
