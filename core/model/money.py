"""US dollars as people read them, small ones too."""

_SMALLEST = 0.00001


def dollars(usd: float) -> str:
    """Return an amount to the cent; below one cent as precisely as it takes to be more than nothing."""
    if usd >= 0.01 or usd == 0:
        return f"${usd:.2f}"
    if usd >= 0.0001:
        return f"${usd:.4f}"
    return f"${usd:.5f}" if usd >= _SMALLEST else f"<${_SMALLEST:.5f}"
