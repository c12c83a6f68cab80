"""Gateways of ours elsewhere: the port over our own dialect, which loses nothing (protocol#our-methods)."""
