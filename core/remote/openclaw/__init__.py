"""Gateways of OpenClaw: the port over what they speak, as far as each of them takes it."""
