"""The gateway server: serves any `Gateway` over HTTP and WebSocket (architecture#server)."""
