"""Several gateways as one: their sessions in one list, each key with the name of the gateway it belongs to."""

from core.multi.gateway import MultiGateway

__all__ = ["MultiGateway"]
