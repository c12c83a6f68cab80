"""The gateway server: serves any `Gateway` over HTTP and WebSocket (DESIGN 7)."""
