"""Every test of the contract runs in every way there is to a gateway."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.ways import WAYS, Way, way


@pytest.fixture(params=WAYS)
def how(request: pytest.FixtureRequest) -> str:
    """Name a way to a gateway."""
    return str(request.param)


@pytest.fixture
async def port(how: str, state: Path) -> AsyncIterator[Way]:
    """Give a gateway over a runtime with the builtin agent."""
    async with way(how, state) as found:
        yield found
