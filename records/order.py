"""The order of the treatments of each pair: balanced, and random by the run's seed.

Treatments that share a baseline are adjacent in time: they are a group. The k treatments of a group
follow a Williams design (Williams 1949): over its rows, one row a pair, each treatment is at each
position equally often, and so is each ordered pair of neighbours. It takes k rows for even k; for
odd k two squares of k rows, each balanced in positions, and both together in neighbours. The order
of the groups is balanced the same way.

The design number `pair // rows` of a group is drawn from `random.Random(TEXT)`, where TEXT is
`SEED/CASE/0/NAME/NUMBER` and NAME is the group's baseline (empty for the order of the groups):
first which treatment each number stands for, then the order of the squares, then the order of the
rows of each.

Pairs are numbered across all blocks of a case: a block continues the design where the one before
stopped, whether that block was planned, stopped or resumed. Every pair with a run counts, whatever
its outcome. So the order can be computed again from what is stored.

Standard library only, because the conductor imports it.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from functools import lru_cache

from records.groups import grouped


def run_seed(digest: str, run: str) -> int:
    """Seed of a run from its header: the campaign's and machine's digest, and the run's own name.

    The digest covers the campaign's `seed`. The first 63 bits of SHA-256, so that it fits a signed
    integer.
    """
    return int.from_bytes(hashlib.sha256(f"{digest}/{run}".encode()).digest()[:8], "big") >> 1


def pair_order(baselines: Mapping[str, str | None], seed: int, case: str, pair: int) -> list[str]:
    """The names of the treatments of a pair, in the order of their runs.

    `baselines` gives each treatment's baseline, in the plan's order; `pair` is the number of the
    pair in its case.
    """
    groups = grouped((baseline or name, name) for name, baseline in baselines.items())
    text = f"{seed}/{case}/0"
    order = _row(list(groups), pair, f"{text}/")
    return [name for group in order for name in _row(groups[group], pair, f"{text}/{group}")]


def williams(k: int) -> list[list[list[int]]]:
    """The squares of a Williams design for `k` treatments: one for even k, two for odd k."""
    zigzag = [(i + 1) // 2 if i % 2 else -i // 2 % k for i in range(k)]
    square = [[(number + shift) % k for number in zigzag] for shift in range(k)]
    return [square] if k % 2 == 0 or k == 1 else [square, [row[::-1] for row in square]]


def _row(names: Sequence[str], pair: int, text: str) -> list[str]:
    """The row of a pair; a new design is drawn each time one is used up."""
    if len(names) < 2:
        return list(names)
    number, row = divmod(pair, sum(map(len, williams(len(names)))))
    return _design(tuple(names), f"{text}/{number}")[row]


@lru_cache(maxsize=64)
def _design(names: tuple[str, ...], text: str) -> list[list[str]]:
    """The rows of a design, in the order in which they are used; not to be changed."""
    rng = random.Random(text)
    labels = rng.sample(names, len(names))
    squares = williams(len(names))
    rng.shuffle(squares)
    return [
        [labels[number] for number in row]
        for square in squares
        for row in rng.sample(square, len(square))
    ]
