"""Methods that other gateways do not have: why a policy decides, deliveries, exchanges, backups (P5, S10, S11)."""

import asyncio
from dataclasses import asdict
from typing import Any, Final

from pydantic import Field
from pydantic.alias_generators import to_camel

from core.model.errors import Unavailable
from core.model.exchanges import Delivery, DeliveryState, Exchange
from core.server.auth import ADMIN, READ
from core.server.conversation.client import Client
from core.server.method import Method
from core.server.openclaw.find import session_of
from core.server.params import MethodParams, Nothing
from core.tools.target import policy_subject

MAX_LISTED: Final = 200


class _ExplainParams(MethodParams):
    key: str


class _DeliveriesParams(MethodParams):
    key: str | None = None
    states: list[DeliveryState] = Field(default_factory=list[DeliveryState])
    limit: int = Field(default=50, ge=1, le=MAX_LISTED)


class _DeliveryParams(MethodParams):
    id: str


class _ExchangesParams(MethodParams):
    key: str
    limit: int = Field(default=50, ge=1, le=MAX_LISTED)


async def _explain(client: Client, params: _ExplainParams) -> dict[str, Any]:
    session = await policy_subject(client.gateway, params.key)
    decision = client.gateway.policy_of(session)
    if decision is None:
        raise Unavailable("the gateway behind this one does not tell its rules")
    found = {to_camel(name): value for name, value in asdict(decision).items()}
    waiting = {} if session.session_id else {"waiting": session.send_policy is not None}
    return {"key": session.key, **found, "allowed": decision.allowed, **waiting}


async def _deliveries(client: Client, params: _DeliveriesParams) -> dict[str, Any]:
    key = (await session_of(client, params.key)).key if params.key is not None else None
    found = await client.gateway.deliveries(key, states=params.states, limit=params.limit)
    return {"deliveries": [_delivery(each) for each in found]}


async def _retry(client: Client, params: _DeliveryParams) -> dict[str, Any]:
    return {"delivery": _delivery(await client.gateway.retry_delivery(params.id, client.caller))}


async def _drop(client: Client, params: _DeliveryParams) -> dict[str, Any]:
    return {"delivery": _delivery(await client.gateway.drop_delivery(params.id, client.caller))}


async def _exchanges(client: Client, params: _ExchangesParams) -> dict[str, Any]:
    session = await session_of(client, params.key)
    found = await client.gateway.exchanges(session.key, limit=params.limit)
    return {"exchanges": [_exchange(exchange, delivery) for exchange, delivery in found]}


async def _backup(client: Client, _: Nothing) -> dict[str, Any]:
    return await asyncio.to_thread(client.context.facts.backup)


def _exchange(exchange: Exchange, delivery: Delivery | None) -> dict[str, Any]:
    fields = {to_camel(name): value for name, value in exchange._asdict().items() if value is not None}
    return fields | ({"delivery": _delivery(delivery)} if delivery is not None else {})


def _delivery(delivery: Delivery) -> dict[str, Any]:
    fields = {to_camel(name): value for name, value in delivery._asdict().items() if value is not None}
    return fields | {"id": delivery.delivery_id, "address": delivery.address}


OURS: Final = (
    Method("policy.explain", READ, _ExplainParams, _explain),
    Method("deliveries.list", READ, _DeliveriesParams, _deliveries),
    Method("deliveries.retry", ADMIN, _DeliveryParams, _retry),
    Method("deliveries.drop", ADMIN, _DeliveryParams, _drop),
    Method("exchanges.list", READ, _ExchangesParams, _exchanges),
    Method("backup.create", ADMIN, Nothing, _backup),
)
