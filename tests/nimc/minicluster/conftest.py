from collections.abc import Iterator

import pytest

from tests.nimc.minicluster.driven import Cluster, cluster_of, cluster_or_skip


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Yields a cluster over veth that is not up yet."""
    yield from cluster_or_skip("veth")


@pytest.fixture(scope="session")
def two_nodes() -> Iterator[Cluster]:
    """Yields a running cluster of a target and an origin over veth. Tests must not change it."""
    yield from cluster_of(2)
