"""The conversation with one client, over any transport."""
