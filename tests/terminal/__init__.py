"""What reaches a terminal: the two walls, every byte on a pseudo-terminal, and how the console begins and ends."""
