"""What our own clients ask for: the port as methods, and its feeds."""
