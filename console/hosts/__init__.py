"""What one process works on: the bundled runtime, gateways elsewhere, and who else it answers."""
