"""What clients of OpenClaw ask for: its methods, rows, events and replies."""
