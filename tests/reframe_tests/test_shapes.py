"""Layouts of ranks, against factors found by hand."""

import pytest

from reframe_tests.binaries import largest_cube, near_cube, near_square


@pytest.mark.parametrize(("count", "edge"), [(1, 1), (7, 1), (8, 2), (26, 2), (27, 3), (64, 4)])
def test_largest_cube(count, edge):
    assert largest_cube(count) == edge


@pytest.mark.parametrize(
    ("count", "nodes", "edge"), [(512, 8, 8), (16, 8, 2), (100, 2, 4), (27, 2, 2), (7, 4, 1)]
)
def test_a_cube_has_as_many_ranks_on_each_node(count, nodes, edge):
    assert largest_cube(count, nodes) == edge


@pytest.mark.parametrize(
    ("count", "factors"), [(1, (1, 1)), (7, (1, 7)), (12, (3, 4)), (16, (4, 4)), (18, (3, 6))]
)
def test_near_square(count, factors):
    assert near_square(count) == factors


@pytest.mark.parametrize(
    ("count", "factors"), [(1, (1, 1, 1)), (8, (2, 2, 2)), (12, (2, 2, 3)), (13, (1, 1, 13))]
)
def test_near_cube(count, factors):
    assert near_cube(count) == factors
