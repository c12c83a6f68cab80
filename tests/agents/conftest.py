"""A model endpoint, a backend, and a model in each dialect."""

from collections.abc import AsyncIterator

import pytest

from core.agents.model import ModelBackend
from tests.agents.turns import MakeModel
from tests.support.model_server import ModelServer


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as running:
        yield running


@pytest.fixture
async def backend() -> AsyncIterator[ModelBackend]:
    made = ModelBackend()
    yield made
    await made.close()


@pytest.fixture(params=["openai", "anthropic"])
def model(request: pytest.FixtureRequest, server: ModelServer) -> MakeModel:
    """Makes settings of a model at the server, in each dialect."""
    return server.openai_model if request.param == "openai" else server.anthropic_model
