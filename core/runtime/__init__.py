"""The bundled runtime: the gateway that needs no setting up. One asyncio loop, one writer
(architecture#loop-and-writer)."""
