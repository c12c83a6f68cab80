"""One gateway of each generation for all tests that leave it running."""

from collections.abc import Iterator

import pytest

from tests.peers.gateways import VERSIONS, Peer, running


@pytest.fixture(scope="session", params=VERSIONS)
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """Run a gateway of each generation."""
    with running(request.param, tmp_path_factory.mktemp(f"peer-{request.param}")) as started:
        yield started


@pytest.fixture(params=VERSIONS)
def generation(request: pytest.FixtureRequest) -> str:
    """Name each generation, for tests that start a gateway of their own."""
    return request.param
