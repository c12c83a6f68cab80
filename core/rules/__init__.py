"""The rules: pure functions that return a decision with its reason. No I/O, no configuration files, no pydantic."""
