"""Two real gateways: one here, one called `prod`."""

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.multi import MultiGateway
from core.runtime.gateway import Runtime
from tests.support.lines import Line
from tests.support.runtimes import running


@dataclass(frozen=True, slots=True)
class Two:
    """A fleet and what is behind it."""

    fleet: MultiGateway
    here: Runtime
    prod: Runtime
    line: Line


@contextlib.asynccontextmanager
async def two_gateways(folder: Path) -> AsyncGenerator[Two]:
    """Start two runtimes and make a fleet of them."""
    async with running(folder / "here") as here, running(folder / "prod") as prod:
        line = Line(prod)
        yield Two(MultiGateway({"": here, "prod": line.gateway}), here, prod, line)


@pytest.fixture
async def two(tmp_path: Path) -> AsyncGenerator[Two]:
    """Yield a fleet of two gateways."""
    async with two_gateways(tmp_path) as two:
        yield two
