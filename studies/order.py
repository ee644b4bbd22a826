"""What a first-run effect does to the slowdown: figures of docs/evidence.md.

    python -m studies.order [RUNS]

A pair's first run takes 2 % longer, other noise is 1 %. The error that this makes is the estimate
less that from the same runs without the effect. A block continues the order of the one before it,
so that only the number of pairs counts. Every figure comes from RUNS (default 2000) runs of a
campaign with fixed seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from analysis.statistics.aligned_ranks import shifts
from nimc.records.order import pair_order
from studies import head, row, show

RUNS = 2000
PAIRS = (6, 8, 9, 10, 15)
#: The arms of a case: without repeated baseline, between two hosts, on one host.
ARMS = (["off", "on"], ["off", "on", "aa"], ["off", "on", "aa", "spin"])
NOISE = 0.01
FIRST = 0.02


def first_runs(arms: list[str], pairs: int, count: int) -> NDArray[np.float64]:
    """Whether an arm's run is the first of its pair (0 or 1), shape (count, pairs, arms)."""
    baselines = {arm: None if arm == "off" else "off" for arm in arms}
    found = np.zeros((count, pairs, len(arms)))
    for seed, pair in np.ndindex(count, pairs):
        order = pair_order(baselines, seed, "stream", pair, 0)
        found[seed, pair, arms.index(order[0])] = 1
    return found


def table(count: int) -> Iterator[str]:
    """The lines of the table, as Markdown; errors are relative."""
    yield from head(
        ["arms", "pairs", "first runs apart, at most", "mean error", "error of one run"]
    )
    for arms, pairs in product(ARMS, PAIRS):
        first = first_runs(arms, pairs, count)
        noise = np.random.default_rng(1).normal(0, NOISE, first.shape)
        used = [arms.index(arm) for arm in ("on", "off", "aa") if arm in arms]
        _, without, _ = shifts(noise[..., used])
        _, with_it, _ = shifts((noise + np.log1p(FIRST) * first)[..., used])
        errors = np.expm1(with_it - without)
        apart = (first[..., arms.index("on")] - first[..., arms.index("off")]).sum(axis=-1)
        error = np.sqrt((errors**2).mean())
        most = f"{np.abs(apart).max():.0f}"
        yield row([str(len(arms)), str(pairs), most, f"{errors.mean():+.3%}", f"{error:.2%}"])


if __name__ == "__main__":
    show(table, RUNS)
