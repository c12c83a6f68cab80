"""One gateway of each generation for tests that leave it running; pytest runs the tests of a generation together."""

from collections.abc import Iterator

import pytest

from tests.tools.peers.gateways import OUTERMOST, VERSIONS, Peer, running


@pytest.fixture(scope="session", params=VERSIONS)
def generation(request: pytest.FixtureRequest) -> str:
    """Name the version of each generation, for tests that start a gateway of their own or a client."""
    return request.param


@pytest.fixture(scope="session", params=OUTERMOST)
def outermost(request: pytest.FixtureRequest) -> str:
    """Name the oldest and the newest version, for tests that need no others."""
    return request.param


@pytest.fixture(scope="session")
def peer(generation: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """Run a gateway of each generation, one after the other."""
    with running(generation, tmp_path_factory.mktemp(f"peer-{generation}")) as started:
        yield started
