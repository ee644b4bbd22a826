"""Simulates the slowdown of a synchronised application at scales that cannot be measured.

Every rank is followed step by step. Meanwhile, writes hit nodes according to the timetable that
real runs follow. Ranks lie on a periodic grid, and wait for their neighbours before each step.
docs/scale.md#simulate describes the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.subjects.paper import figure_3_rows, paper
from records.errors import InputError
from records.timetable import staggered_writes

Times = npt.NDArray[np.float64]
#: Maximum number of ranks. More ranks would fill the memory, and are probably a mistake in a unit.
MAX_RANKS = 20_000_000


@dataclass(frozen=True)
class NodeWrites:
    """The node, start and end of each write. Writes are sorted by start, and also by end.

    The application starts at time 0 and ends before the last write ends. No two writes hit the same
    node at the same time.
    """

    node: npt.NDArray[np.int64]
    start_s: Times
    end_s: Times


@dataclass(frozen=True)
class Application:
    """The application. Every rank does the same work in each step, and waits for its neighbours."""

    ranks: int
    ranks_per_node: int
    steps: int
    #: Work of one rank in one step, seconds without any slowdown.
    step_s: float

    def __post_init__(self) -> None:
        """Raises InputError for ranks that do not fill nodes, or are too many."""
        if self.ranks < 1 or self.ranks % self.ranks_per_node:
            raise InputError(
                f"ranks: {self.ranks} do not fill nodes of {self.ranks_per_node}; allowed: a"
                " multiple of the ranks per node"
            )
        if self.ranks > MAX_RANKS:
            raise InputError(f"ranks: {self.ranks} found; allowed: up to {MAX_RANKS}")

    @property
    def nodes(self) -> int:
        """Number of nodes. Ranks fill the nodes in order."""
        return self.ranks // self.ranks_per_node

    @property
    def off_s(self) -> float:
        """Its time without writes, summed step by step in the same way as the simulated time."""
        return float(np.cumsum(np.full(self.steps, self.step_s))[-1])


def finishing_times(application: Application, node_writes: NodeWrites, slowdowns: Times) -> Times:
    """Time at which each rank ends, in seconds.

    `slowdowns` has the slowdown of each rank of a node while a write hits this node. The simulation
    takes time in proportion to ranks and steps, and memory for a few numbers per rank.
    """
    ready_s, finish_s = np.zeros(application.ranks), np.zeros(application.ranks)
    for _ in range(application.steps):
        wait_for_neighbours(finish_s, ready_s, grid_shape(application.ranks))
        np.add(ready_s, application.step_s, out=finish_s)
        delay_hit_ranks(ready_s, finish_s, application.step_s, node_writes, slowdowns)
    return finish_s


@cache
def grid_shape(ranks: int) -> tuple[int, ...]:
    """Lengths of a grid of ranks that is as close to a cube as possible.

    The last dimension varies fastest with the rank's number.
    """
    lengths = []
    remaining_ranks = ranks
    for dimensions in (3, 2):  # a length is the largest divisor up to the root
        root = round(remaining_ranks ** (1 / dimensions))
        divisors = (length for length in range(root, 0, -1) if remaining_ranks % length == 0)
        lengths.append(next(divisors))
        remaining_ranks //= lengths[-1]
    return tuple(sorted((*lengths, remaining_ranks), reverse=True))


def wait_for_neighbours(finish_s: Times, ready_s: Times, lengths: tuple[int, ...]) -> None:
    """Set `ready_s` to the time when each rank and all its neighbours have finished.

    The two arrays have one entry per rank. `lengths` are the lengths of the grid. Neighbours share
    a face. The ranks at opposite ends of the grid are neighbours, too.
    """
    finish_grid, ready_grid = finish_s.reshape(lengths), ready_s.reshape(lengths)
    np.copyto(ready_grid, finish_grid)
    for axis in range(len(lengths)):
        for side in (-1, 1):
            np.maximum(ready_grid, np.roll(finish_grid, side, axis), out=ready_grid)


def delay_hit_ranks(
    ready_s: Times, finish_s: Times, step_s: float, node_writes: NodeWrites, slowdowns: Times
) -> None:
    """Correct `finish_s` of the ranks whose node is hit. Before, it is `ready_s + step_s`.

    A rank works at speed 1, but at 1 / slowdown while its node is hit.
    """
    slowed_ranks = np.flatnonzero(slowdowns > 1)  # numbered within a node
    last_s = float(ready_s.max()) + step_s * float(slowdowns.max())
    first_write = int(np.searchsorted(node_writes.end_s, float(ready_s.min()), side="right"))
    writes = np.arange(first_write, np.searchsorted(node_writes.start_s, last_s, side="left"))
    if not writes.size or not slowed_ranks.size:
        return
    # For each slowed rank: the time up to which its work is known, and the work that then remains.
    nodes = np.unique(node_writes.node[writes])
    ranks = nodes[:, None] * slowdowns.size + slowed_ranks
    now_s, work_s = ready_s[ranks], np.full(ranks.shape, step_s)
    while writes.size:  # the first write to each node, then the second write to each node, ...
        hit_nodes, earliest = np.unique(node_writes.node[writes], return_index=True)
        rows, next_writes = np.searchsorted(nodes, hit_nodes), writes[earliest]
        before_write_s = np.clip(
            node_writes.start_s[next_writes, None] - now_s[rows], 0.0, work_s[rows]
        )
        now_s[rows] += before_write_s
        work_s[rows] -= before_write_s
        during_write_s = np.clip(
            node_writes.end_s[next_writes, None] - now_s[rows],
            0.0,
            work_s[rows] * slowdowns[slowed_ranks],
        )
        now_s[rows] += during_write_s
        work_s[rows] -= during_write_s / slowdowns[slowed_ranks]
        writes = np.delete(writes, earliest)
    finish_s[ranks] = now_s + work_s


#: Seed of the random choice of the node that each write hits.
_SEED = 1
#: Cores of a Sandy Bridge-X2 node (Table I of the paper).
RANKS_PER_NODE = 16
#: Length of a write (section VI).
WRITE_S = 1.0
#: The paper does not give the length of a time step. For 32,000 atoms on such a core a few
#: hundredths of a second are likely.
STEP_S = 0.025
STEPS = 1000


def run_s(application: Application, writers: int, worst_slowdown: float) -> float:
    """Time in seconds of an application under `writers` concurrent writes, each `WRITE_S` long.

    On a node that is hit, only the first rank is slowed, by `worst_slowdown`.
    """
    slowdowns = np.ones(application.ranks_per_node)
    slowdowns[0] = worst_slowdown
    # The time of a rank that is always hit. One more step is added for rounding errors.
    longest_s = (application.steps + 1) * application.step_s * worst_slowdown
    names = list(map(str, range(application.nodes)))
    table = staggered_writes(names, ["origin"], writers, WRITE_S, longest_s, _SEED)
    starts_s = np.array([table.start_s(number) for number in range(len(table) + writers)])
    starts_s -= table.steady_from_s  # time 0 is when all writers are active
    hits = np.array(table.hits, dtype=np.int64)
    node_writes = NodeWrites(hits, starts_s[: len(table)], starts_s[writers:])
    return float(finishing_times(application, node_writes, slowdowns).max())


def explain_published_slowdown() -> dict[str, Any]:
    """Return the share of the published slowdown at scale that figures of single nodes explain.

    The rows have the scales of Table V (docs/scale.md#the-published-slowdown-at-scale). All figures
    that are used are published. They are of different kinds: on one node, means of 10 runs; at
    scale, minima of 5 runs.
    """
    worst_slowdown = figure_3_rows()["lammps"].slowdown
    table = paper()["table_5_concurrent_writers"]
    rows = []
    for column in ("constant_0.2_percent", "daly_qdr_onload"):
        for ranks, writers in zip(table["node_count"], table[column], strict=True):
            application = Application(ranks, RANKS_PER_NODE, STEPS, STEP_S)
            size = {"ranks": ranks, "nodes": application.nodes, "writers_published": writers}
            slowdown = run_s(application, writers, worst_slowdown) / application.off_s
            rows.append({"column": column, **size, "slowdown_modelled_worst_rank": slowdown})
    up_to = paper()["headlines"]["lammps_slowdown_8192_up_to"]
    percent = paper()["headlines"]["lammps_increase_8192_percent"]
    readings = {
        f"up to {up_to:g} times": float(up_to),
        f"{percent} % of the time without writers": percent / 100,
        f"{percent} % more than the time without writers": 1 + percent / 100,
    }
    largest_scale = rows[-1]
    explained_excess = largest_scale["slowdown_modelled_worst_rank"] - 1
    return {
        "source": "Groves, Grant and Arnold 2016: abstract, Tables III and V, sections V to VII",
        "step_s_assumed": STEP_S,
        "write_s": WRITE_S,
        "single_node_slowdown_published": worst_slowdown,
        "rows": rows,
        "readings": [
            {
                "meaning": meaning,
                "slowdown": slowdown,
                "explained_share_of_excess": explained_excess / (slowdown - 1),
            }
            for meaning, slowdown in readings.items()
        ],
    }
