"""Coverage, false positives and power of the verdicts, simulated: the tables of docs/evidence.md.

    python -m studies.verdicts [NIGHTS]

`before` is the method of the first version: the median of the ratios on/off with the interval of
order statistics, 'slower' where the whole interval lies above 1 and above that of aa/off. `after`
is the method in use. Every figure comes from NIGHTS (default 2000) nights with fixed seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.effects.verdict import Verdict, judge
from analysis.statistics.aligned_ranks import shifts
from analysis.statistics.blocks import FEWEST_BLOCKS, next_allocation
from analysis.statistics.interval import CONFIDENCE, FEWEST, Estimate, median_interval, order_rank
from studies.noises import NOISES, RunNoise, nights

NIGHTS = 2000
PAIRS = (6, 10, 20, 30)
#: Coefficient of variation of one run, and the effect to be found with a probability of `_POWER`.
EFFECTS = ((0.01, 1.02), (0.03, 1.05))
_POWER = 0.9
_MOST_PAIRS = 60
#: Standard deviations between allocations, and how many are measured, of `_PAIRS_A_BLOCK` each.
SPREADS = (0.005, 0.01, 0.02)
BLOCKS = (3, 5, 8)
_PAIRS_A_BLOCK = 6

Draws = NDArray[np.float64]
#: (log times of nights) -> low end, estimate, high end of the slowdown and of aa/off, (3, nights).
_Method = Callable[[Draws], tuple[Draws, Draws]]


@dataclass(frozen=True)
class ErrorRates:
    """What a method makes of nights without any effect, as shares of nights."""

    #: Intervals that enclose the truth.
    coverage: float
    #: Verdicts that name a slowdown, or a speed-up; the greater of the two.
    false_positives: float


def before(log_times: Draws) -> tuple[Draws, Draws]:
    """The medians of on/off and of aa/off with their intervals of order statistics."""
    on, off, aa = np.moveaxis(log_times, -1, 0)
    return _median(on - off), _median(aa - off)


def after(log_times: Draws) -> tuple[Draws, Draws]:
    """The estimates in use."""
    return np.exp(shifts(log_times)), np.exp(shifts(log_times[..., [2, 1]]))


def _median(log_ratios: Draws) -> Draws:
    pairs = log_ratios.shape[-1]
    rank = order_rank(pairs) or 1
    ordered = np.sort(log_ratios, axis=-1)
    return np.exp([ordered[:, rank - 1], np.median(ordered, axis=-1), ordered[:, pairs - rank]])


def verdicts(effect: Draws, repeated: Draws) -> list[Verdict]:
    """The verdict of every night, between two hosts and without a required precision."""
    return [
        judge(
            Estimate(value, low, high, CONFIDENCE),
            Estimate(again, again_low, again_high, CONFIDENCE),
            None,
            pairs=FEWEST,
            pairs_floor=FEWEST,
            precision=None,
            margin=0.02,
            wrote=True,
            same_host=False,
            emulated=False,
        )
        for low, value, high, again_low, again, again_high in np.concatenate([effect, repeated]).T
    ]


def _shares(effect: Draws, repeated: Draws, method: _Method) -> tuple[float, float]:
    """Shares of nights said to be slower, and faster."""
    if method is before:
        slower = effect[0] > np.maximum(1, repeated[2])
        faster = effect[2] < np.minimum(1, repeated[0])
        return float(slower.mean()), float(faster.mean())
    found = verdicts(effect, repeated)
    return found.count(Verdict.CONTENTION) / len(found), found.count(Verdict.SPEED_UP) / len(found)


def cell(noise: RunNoise, pairs: int, scale: float, method: _Method, count: int) -> ErrorRates:
    """Coverage and false positives of `count` nights without an effect."""
    drawn = nights(noise, np.random.default_rng(pairs), count, pairs, scale, 1.0)
    effect, repeated = method(drawn)
    covered = (effect[0] <= 1) & (effect[2] >= 1)
    return ErrorRates(float(covered.mean()), max(_shares(effect, repeated, method)))


def power(
    noise: RunNoise, pairs: int, scale: float, effect: float, method: _Method, count: int
) -> float:
    """Share of nights with this true slowdown that are said to be slower."""
    drawn = nights(noise, np.random.default_rng(pairs), count, pairs, scale, effect)
    return _shares(*method(drawn), method)[0]


def pairs_for_power(
    noise: RunNoise, scale: float, effect: float, method: _Method, count: int
) -> int | None:
    """Fewest pairs with a power of 90 %; None above 60. Found by halving."""
    low, high = FEWEST, _MOST_PAIRS + 1
    while low < high:
        middle = (low + high) // 2
        if power(noise, middle, scale, effect, method, count) >= _POWER:
            high = middle
        else:
            low = middle + 1
    return low if low <= _MOST_PAIRS else None


def covers_next(spread: float, blocks: int, count: int) -> tuple[float, float]:
    """Shares of nights whose interval covers the next allocation's slowdown, before and after."""
    rng = np.random.default_rng(blocks)
    hits = np.zeros(2)
    for _ in range(count):
        own = rng.normal(0, spread, blocks + 1)
        drawn = nights(NOISES[0], rng, blocks, _PAIRS_A_BLOCK, 0.01, 1.0)
        drawn[..., 0] += own[:-1, None]
        ratios = np.exp(drawn[..., 0] - drawn[..., 1])
        values = np.median(ratios, axis=-1) if blocks >= FEWEST else ratios.ravel()
        old = median_interval(values.tolist())
        new = next_allocation(list(drawn)) if blocks >= FEWEST_BLOCKS else None
        truth = np.exp(own[-1])
        hits += [
            old is not None and old.low <= truth <= old.high,
            new is not None and new[0] <= truth <= new[1],
        ]
    return float(hits[0] / count), float(hits[1] / count)


def tables(count: int) -> Iterator[str]:
    """The lines of all tables, as Markdown."""
    head = [f"{pairs} pairs" for pairs in PAIRS]
    yield from _head(["noise of 1 %, coverage", *head])
    cells = {
        (noise, pairs): [cell(noise, pairs, 0.01, method, count) for method in (before, after)]
        for noise in NOISES
        for pairs in PAIRS
    }
    for noise in NOISES:
        found = [cells[noise, pairs] for pairs in PAIRS]
        yield _row([noise.name, *(f"{b.coverage:.3f}, {a.coverage:.3f}" for b, a in found)])
    yield from _head(["noise of 1 %, false positives", *head])
    for noise in NOISES:
        found = [cells[noise, pairs] for pairs in PAIRS]
        yield _row(
            [
                noise.name,
                *(f"{b.false_positives:.4f}, {a.false_positives:.4f}" for b, a in found),
            ]
        )
    yield from _head(["pairs for 90 % power", *(f"{s:.0%} noise, {e:.2f}" for s, e in EFFECTS)])
    for noise in NOISES:
        needed = [
            [pairs_for_power(noise, *of, method, count) for method in (before, after)]
            for of in EFFECTS
        ]
        yield _row([noise.name, *(", ".join(map(_pairs, each)) for each in needed)])
    yield from _head(["spread of allocations", *(f"{blocks} allocations" for blocks in BLOCKS)])
    for spread in SPREADS:
        shares = [covers_next(spread, blocks, count) for blocks in BLOCKS]
        yield _row([f"{spread:.1%}", *(f"{old:.3f}, {new:.3f}" for old, new in shares)])


def _pairs(needed: int | None) -> str:
    return f"over {_MOST_PAIRS}" if needed is None else str(needed)


def _head(names: Sequence[str]) -> list[str]:
    return ["", _row(names), _row(["---"] * len(names))]


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


if __name__ == "__main__":
    for line in tables(int(sys.argv[1]) if len(sys.argv) > 1 else NIGHTS):
        print(line, flush=True)
