"""What a first-run effect does to the slowdown over several blocks: figures of docs/evidence.md.

    python -m studies.order [RUNS]

A pair's first run takes 2 % longer, other noise is 1 %. The error that this makes is the estimate
less that from the same runs without the effect. `begun anew` draws the order of every block for
itself, as the first version did; `continued` is the order in use. Every figure comes from RUNS
(default 2000) runs of a campaign with fixed seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from analysis.statistics.aligned_ranks import shifts
from nimc.records.order import pair_order
from studies import head, row

RUNS = 2000
#: Pairs of each block: planned ones, those after rejected pairs, and those of a resumed run.
BLOCKS = ([6], [10], [6, 2, 2], [4, 4], [3] * 5, [6, 1, 1, 1])
#: The arms of a case: without repeated baseline, between two hosts, on one host.
ARMS = (["off", "on"], ["off", "on", "aa"], ["off", "on", "aa", "spin"])
NOISE = 0.01
FIRST = 0.02

Draws = NDArray[np.float64]


@dataclass(frozen=True)
class FirstRuns:
    """What the first-run effect does to runs of a campaign."""

    #: By how many first runs `on` and `off` differ at most.
    apart: int
    #: Mean and root mean square of the error of the slowdown, relative.
    bias: float
    error: float


def first_runs(arms: list[str], blocks: list[int], count: int, *, continued: bool) -> Draws:
    """Whether an arm's run is the first of its pair (0 or 1), shape (count, pairs, arms)."""
    baselines = {arm: None if arm == "off" else "off" for arm in arms}
    before = [0, *accumulate(blocks)]
    found = np.zeros((count, sum(blocks), len(arms)))
    for seed in range(count):
        for block, size in enumerate(blocks):
            for pair in range(size):
                at = before[block] + pair
                number, begun = (at, 0) if continued else (pair, block)
                order = pair_order(baselines, seed, "stream", number, begun)
                found[seed, at, arms.index(order[0])] = 1
    return found


def cell(arms: list[str], blocks: list[int], count: int, *, continued: bool) -> FirstRuns:
    """The effect in `count` runs of a campaign."""
    first = first_runs(arms, blocks, count, continued=continued)
    noise = np.random.default_rng(1).normal(0, NOISE, first.shape)
    used = [arms.index(arm) for arm in ("on", "off", "aa") if arm in arms]
    _, without, _ = shifts(noise[..., used])
    _, with_it, _ = shifts((noise + np.log1p(FIRST) * first)[..., used])
    errors = np.expm1(with_it - without)
    apart = (first[..., arms.index("on")] - first[..., arms.index("off")]).sum(axis=-1)
    return FirstRuns(
        int(np.abs(apart).max()), float(errors.mean()), float(np.sqrt((errors**2).mean()))
    )


def table(count: int) -> Iterator[str]:
    """The lines of the table, as Markdown; each cell is that of `begun anew`, and `continued`."""
    yield from head(
        ["arms", "blocks", "first runs apart, at most", "mean error", "error of one run"]
    )
    for arms in ARMS:
        for blocks in BLOCKS:
            both = [cell(arms, blocks, count, continued=each) for each in (False, True)]
            apart = ", ".join(str(each.apart) for each in both)
            bias = ", ".join(f"{each.bias:+.3%}" for each in both)
            error = ", ".join(f"{each.error:.2%}" for each in both)
            pairs = "+".join(map(str, blocks))
            yield row([str(len(arms)), pairs, apart, bias, error])


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS):
        print(line, flush=True)
