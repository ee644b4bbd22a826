from collections.abc import Iterator

import pytest

from tests.nimc.minicluster.driven import Cluster, cluster_of, cluster_or_skip


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster over veth, not up yet."""
    yield from cluster_or_skip("veth")


@pytest.fixture(scope="session")
def two_nodes() -> Iterator[Cluster]:
    """A cluster of a target and an origin over veth, up; for tests that leave it as it is."""
    yield from cluster_of(2)
