"""Computes the order of the treatments in each pair, which is balanced and drawn at random.

A baseline and the treatments that are paired with it are a group, and are adjacent in time. The k
treatments of a group follow a Williams design (Williams 1949). Each pair uses one row of the
design. Over all rows, each treatment is at each position equally often, and each ordered pair of
neighbours occurs equally often. For even k the design is a square of k rows. For odd k it is two
such squares. Each of them is balanced in positions, and the two together are balanced in
neighbours. The order of the groups is balanced in the same way.

The random numbers follow from the run's seed. A group uses one design after another: pair p uses a
row of the design with the index
p // rows_per_design. Each design is drawn with `random.Random(TEXT)`, where TEXT is
`SEED/CASE/0/NAME/INDEX`, and NAME is the group's baseline (empty for the order of the groups). The
0 is a constant: earlier versions put a number there, which was 0 in the runs that are stored. The
following are drawn, in this order: the treatment at each index of the design, the order of the
squares, and the order of the rows of each square.

Here, pairs are numbered across all blocks of a case. (The `pair` of a sample is numbered within its
block.) A block continues the design where the previous block ended, even if that block ended early.
Every pair with a run counts, whatever the outcome of the run. So the order can be computed again
from the stored samples.

This module uses only the standard library, because the conductor imports it.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from functools import lru_cache

from records.groups import grouped


def run_seed(digest: str, run: str) -> int:
    """Seed of a run, from the digest of its campaign and machine, and from its name.

    The digest covers the campaign's own `seed`. The result is the first 63 bits of a SHA-256, so
    that it fits a signed integer.
    """
    return int.from_bytes(hashlib.sha256(f"{digest}/{run}".encode()).digest()[:8], "big") >> 1


def pair_order(baselines: Mapping[str, str | None], seed: int, case: str, pair: int) -> list[str]:
    """The names of the treatments of a pair, in the order of their runs.

    `baselines` gives each treatment's baseline, in the plan's order; `pair` is the number of the
    pair in its case.
    """
    groups = grouped((baseline or name, name) for name, baseline in baselines.items())
    seed_prefix = f"{seed}/{case}/0"
    group_order = _row(list(groups), pair, f"{seed_prefix}/")
    return [
        name
        for group in group_order
        for name in _row(groups[group], pair, f"{seed_prefix}/{group}")
    ]


def williams(k: int) -> list[list[list[int]]]:
    """The squares of a Williams design for `k` treatments: one for even k, two for odd k."""
    # 0, 1, k - 1, 2, k - 2, and so on.
    zigzag = [(i + 1) // 2 if i % 2 else (k - i // 2) % k for i in range(k)]
    square = [[(index + shift) % k for index in zigzag] for shift in range(k)]
    return [square] if k % 2 == 0 or k == 1 else [square, [row[::-1] for row in square]]


def _row(names: Sequence[str], pair: int, seed_prefix: str) -> list[str]:
    """The row of a pair. After the last row of a design, a new design is drawn."""
    if len(names) < 2:
        return list(names)
    rows_per_design = sum(map(len, williams(len(names))))
    design_index, row_index = divmod(pair, rows_per_design)
    return _design(tuple(names), f"{seed_prefix}/{design_index}")[row_index]


@lru_cache(maxsize=64)
def _design(names: tuple[str, ...], seed_text: str) -> list[list[str]]:
    """The rows of a design, in the order in which they are used. Callers must not change them."""
    rng = random.Random(seed_text)
    treatments = rng.sample(names, len(names))
    squares = williams(len(names))
    rng.shuffle(squares)
    return [
        [treatments[index] for index in row]
        for square in squares
        for row in rng.sample(square, len(square))
    ]
