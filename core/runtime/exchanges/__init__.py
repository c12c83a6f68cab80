"""What follows a send or a spawn: the loop, the announce, and its delivery."""
