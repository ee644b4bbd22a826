"""Tests the simulation of an application under writes.

It is compared with a simple simulation that follows each rank separately, and with results that are
worked out by hand.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.simulate import Application, NodeWrites, finishing_times, grid_shape
from records.errors import InputError


def writes(*nodes_and_times: tuple[int, float, float]) -> NodeWrites:
    node, start_s, end_s = zip(*nodes_and_times, strict=True)
    return NodeWrites(np.array(node), np.array(start_s), np.array(end_s))


def work_until(
    now_s: float, left_s: float, node_writes: list[tuple[float, float]], slow: float
) -> float:
    """Return when `left_s` of work that begins at `now_s` is done.

    The node's speed is 1 / `slow` during its writes. Time advances from one change of speed to the
    next.
    """
    changes = sorted({edge for window in node_writes for edge in window if edge > now_s})
    for change_s in [*changes, math.inf]:
        middle_s = now_s if math.isinf(change_s) else (now_s + change_s) / 2
        hit = any(start_s <= middle_s < end_s for start_s, end_s in node_writes)
        speed = 1 / slow if hit else 1.0
        if now_s + left_s / speed <= change_s:
            return now_s + left_s / speed
        left_s -= (change_s - now_s) * speed
        now_s = change_s
    raise AssertionError


def neighbours(lengths: tuple[int, ...]) -> list[list[int]]:
    cells = list(itertools.product(*map(range, lengths)))
    number = {cell: i for i, cell in enumerate(cells)}
    adjacent = []
    for cell in cells:
        near = [number[cell]]
        for axis, step in itertools.product(range(len(lengths)), (-1, 1)):
            index = (cell[axis] + step) % lengths[axis]
            near.append(number[(*cell[:axis], index, *cell[axis + 1 :])])
        adjacent.append(near)
    return adjacent


@st.composite
def cases(draw: st.DrawFn) -> tuple[Application, list[tuple[int, float, float]], list[float]]:
    per_node = draw(st.integers(1, 3))
    nodes = draw(st.integers(1, 8))
    application = Application(
        ranks=per_node * nodes,
        ranks_per_node=per_node,
        steps=draw(st.integers(1, 6)),
        step_s=draw(st.floats(0.1, 3.0)),
    )
    length_s = draw(st.floats(0.05, 4.0))
    busy_until_s = [-math.inf] * nodes
    hits = []
    for start_s in sorted(draw(st.lists(st.floats(-2.0, 12.0), min_size=1, max_size=12))):
        node = draw(st.integers(0, nodes - 1))
        if start_s >= busy_until_s[node]:
            busy_until_s[node] = start_s + length_s
            hits.append((node, start_s, start_s + length_s))
    slow = st.lists(st.floats(1.0, 5.0), min_size=per_node, max_size=per_node)
    return application, hits, draw(slow)


@given(cases())
@settings(max_examples=60, deadline=None)
def test_every_rank_finishes_when_the_simple_simulation_says(case) -> None:
    application, hits, slow = case
    node_writes = writes(*hits)
    computed_s = finishing_times(application, node_writes, np.array(slow))

    near = neighbours(grid_shape(application.ranks))
    finish_s = [0.0] * application.ranks
    for _ in range(application.steps):
        ready_s = [max(finish_s[other] for other in near[i]) for i in range(application.ranks)]
        finish_s = [
            work_until(
                ready_s[rank],
                application.step_s,
                [(a, b) for node, a, b in hits if node == rank // application.ranks_per_node],
                slow[rank % application.ranks_per_node],
            )
            for rank in range(application.ranks)
        ]
    assert computed_s == pytest.approx(finish_s, rel=1e-12)


@pytest.mark.parametrize(
    ("ranks", "lengths"),
    [(8192, (32, 16, 16)), (1_000_000, (100, 100, 100)), (18, (3, 3, 2)), (13, (13, 1, 1))],
)
def test_grids_are_as_cubic_as_possible(ranks: int, lengths: tuple[int, ...]) -> None:
    assert grid_shape(ranks) == lengths


@pytest.mark.parametrize("ranks", [0, 10, 20_000_004])
def test_ranks_that_do_not_fill_nodes_or_are_too_many_are_refused(ranks: int) -> None:
    with pytest.raises(InputError):
        Application(ranks, 4, 1, 1.0)


def test_a_delay_spreads_by_one_neighbour_in_each_step() -> None:
    """64 nodes have one rank each, on a grid of 4 x 4 x 4. Rank 0 is hit by writes for 2 s.

    Meanwhile it has a third of its speed and does 2/3 s of work, so it ends its first step 4/3 s
    late. Its six neighbours are late from the second step on. After as many steps as the grid is
    wide, which is six, all ranks are late.
    """
    hit, slow = writes((0, 0.0, 2.0)), np.array([3.0])
    late = [
        finishing_times(Application(64, 1, steps, 1.0), hit, slow) - steps for steps in (1, 2, 9)
    ]
    assert [int((delays > 0.1).sum()) for delays in late] == [1, 7, 64]
    assert late[-1] == pytest.approx([4 / 3] * 64)
