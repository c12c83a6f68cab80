"""The vocabulary every other part speaks: plain data and pure functions, no I/O."""
