"""Several gateways as one."""
