"""Methods over the paired devices: which there are, and the end of one's rights (protocol#pairing)."""

from typing import Any, Final

from pydantic import Field

from core.model.errors import NotFound
from core.server.auth import PAIRING
from core.server.conversation.client import Client
from core.server.devices import PairedDevice
from core.server.method import Method
from core.server.params import MethodParams, Nothing


class _DeviceParams(MethodParams):
    device_id: str = Field(min_length=1, max_length=128)


class RevokeParams(_DeviceParams):
    """Parameters of `device.token.revoke`; there is one role here."""

    role: str = "operator"


async def _list(client: Client, params: Nothing) -> dict[str, Any]:  # noqa: ARG001 - one shape
    """Tell which devices are paired; none waits for it, as the gateway's token decides."""
    return {"pending": [], "paired": [shown(device) for device in client.context.devices.paired()]}


async def _remove(client: Client, params: _DeviceParams) -> dict[str, Any]:
    await _unpair(client, params.device_id)
    return {"deviceId": params.device_id}


async def _revoke(client: Client, params: RevokeParams) -> dict[str, Any]:
    await _unpair(client, params.device_id)
    return {"deviceId": params.device_id, "role": params.role, "revokedAtMs": client.gateway.now_ms()}


async def _unpair(client: Client, device_id: str) -> None:
    if not await client.context.devices.revoke(device_id):
        raise NotFound("unknown deviceId: device.pair.list names those that are paired")


def shown(device: PairedDevice) -> dict[str, Any]:
    """Return a device as clients are told of it; nothing in it is secret."""
    tokens = [
        {
            "role": "operator",
            "scopes": sorted(token.scopes),
            "createdAtMs": token.issued_at,
            "lastUsedAtMs": token.used_at,
        }
        for token in device.tokens
    ]
    return {
        "deviceId": device.device_id,
        "displayName": device.name,
        "platform": device.platform,
        "role": "operator",
        "roles": ["operator"],
        "scopes": sorted(device.scopes),
        "remoteIp": device.network,
        "createdAtMs": device.paired_at,
        "approvedAtMs": device.paired_at,
        "tokens": tokens,
    }


DEVICES: Final = (
    Method("device.pair.list", PAIRING, Nothing, _list),
    Method("device.pair.remove", PAIRING, _DeviceParams, _remove),
    Method("device.token.revoke", PAIRING, RevokeParams, _revoke),
)
