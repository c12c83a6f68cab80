"""The rows of the requirements, by their numbers; a test names those it proves with `@pytest.mark.spec`."""

_COUNTS = {"T": 1, "K": 7, "L": 6, "H": 5, "G": 8, "S": 13, "P": 5, "W": 12, "V": 5}

SPEC_ROWS = frozenset(f"{letter}{number}" for letter, count in _COUNTS.items() for number in range(1, count + 1))
