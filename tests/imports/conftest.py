"""A store to import into, and state directories of both generations to import from."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.store.database import Store
from tests.imports.folders import Newer, Older
from tests.support.stores import opened


@pytest.fixture
async def store(state: Path) -> AsyncIterator[Store]:
    """Return a store open for writing."""
    async with opened(state) as store:
        yield store


@pytest.fixture(params=["older", "newer"])
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> Older | Newer:
    """Return an empty state directory of each generation."""
    return Older(tmp_path / "oc") if request.param == "older" else Newer(tmp_path / "oc")
