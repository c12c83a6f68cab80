"""Bringing the sessions of other systems in: read what they keep, write it as ours."""
