"""Several gateways as one: their sessions in one list, each key with the name of the gateway it belongs to."""

from core.fleet.fleet import Fleet

__all__ = ["Fleet"]
