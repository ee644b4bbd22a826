"""What each byte written costs, from runs under several rates of the writers: figure 6b.

Rates are those that the writers reached, never those requested. Every pair gives one slope, through
the origin: no writes, no loss. Its runs share a baseline, so their errors are not independent;
those of different pairs are, and the slope is the centre of the pairs' slopes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from analysis.effects.estimate import Result, Sweep, by_level
from analysis.samples.pairs import of_treatment
from analysis.statistics.aligned_ranks import few
from analysis.statistics.interval import Estimate
from analysis.statistics.location import Crossing, Values, crossing, location
from records.arms import arm_of, parts_of
from records.sample import Level

RATE, RESERVED = "rate", "reserved_cores"


@dataclass(frozen=True)
class RateLevel:
    """One requested rate of a sweep."""

    rate: Level
    #: Median of the rates reached, bytes per second.
    rate_b_s: float
    #: Loss, and its distance from the line; None below six pairs.
    loss: Estimate | None
    residual: Estimate | None


@dataclass(frozen=True)
class Throttling:
    """A sweep of rates at one set of levels of all other factors."""

    case: str
    arm: str
    #: Levels of all factors but the rate.
    at: dict[str, Level]
    unit: str
    #: Whether a loss is in bytes per second; if not, it is slowdown - 1.
    bandwidth: bool
    #: Pairs with at least two rates that count, and the highest rate reached in them.
    pairs: int
    highest_b_s: float
    #: Bytes per second lost per byte per second written, or slowdown - 1 per byte per second.
    slope: Estimate | None
    #: Part of the loss at the highest rate that is proportional to the square of the rate.
    curvature: Estimate | None
    #: Whether a line fits: the interval of `curvature` holds 0. None below six pairs.
    line_fits: bool | None
    levels: list[RateLevel]
    #: Level of `reserved_cores` that the two crossovers compare with; None if there is none.
    reserved: Level | None = None
    #: Rate at which the loss equals the price of the reserved cores, in bytes per second; and the
    #: rate from which on the application is faster with them at the same rate.
    crossover_b_s: Crossing | None = None
    same_rate_b_s: Crossing | None = None


@dataclass(frozen=True)
class RateSweep:
    """Rates reached and losses: one row per pair, one column per rate, NaN if a run is missing."""

    results: list[Result]
    #: Block and pair of each row, and the baseline's figure of merit.
    keys: list[tuple[int, int]]
    baseline: Values
    rate_b_s: Values
    loss: Values


def throttling(results: Sequence[Result], pairs: pl.DataFrame) -> list[Throttling]:
    """The sweeps of a run, from its results and `analysis.samples.pairs.pair_table`.

    With several levels of `reserved_cores`, each sweep at the first one is compared with the sweep
    at each other level.
    """
    sweeps = _sweeps(results, pairs)
    found: list[Throttling] = []
    for key, sweep in sweeps.items():
        base = _described(sweep)
        others = _reserved(key, sweeps)
        found += [_compared(base, sweep, level, other) for level, other in others] or [base]
    return found


def slopes(rate_b_s: Values, loss: Values) -> Values:
    """Least-squares slope through the origin of each pair; both of shape (..., pairs, rates)."""
    present = ~np.isnan(loss)
    x, y = np.where(present, rate_b_s, 0), np.where(present, loss, 0)
    return np.asarray((x * y).sum(axis=-1) / (x * x).sum(axis=-1))


def curvatures(rate_b_s: Values, loss: Values, highest_b_s: float) -> Values:
    """Coefficient c of loss = b x + c x^2 of each pair, x relative to `highest_b_s`."""
    present = ~np.isnan(loss)
    x, y = np.where(present, rate_b_s / highest_b_s, 0), np.where(present, loss, 0)
    xx, xxx, xxxx = ((x**power).sum(axis=-1) for power in (2, 3, 4))
    xy, xxy = (x * y).sum(axis=-1), (x * x * y).sum(axis=-1)
    return np.asarray((xx * xxy - xxx * xy) / (xx * xxxx - xxx**2))


def crossover(slope: Values, price: Values, highest_b_s: float) -> Crossing:
    """Rate from 0 to `highest_b_s` at which slope x rate exceeds `price`; one value per pair."""
    slope, price = few(slope), few(price)
    return crossing(lambda rate: rate * slope - price, 0.0, highest_b_s)


def _sweeps(results: Sequence[Result], pairs: pl.DataFrame) -> dict[Sweep, RateSweep]:
    """Case, arm and levels -> sweep; those of at least two rates, in the order of the results."""
    writing = [
        row
        for row in results
        if arm_of(row.arm).writing == "continuous" and row.direction in (None, "write")
    ]
    found = {key: _sweep(rows, pairs) for key, rows in by_level(writing, RATE).items()}
    return {key: sweep for key, sweep in found.items() if sweep.keys}


def _sweep(rows: Sequence[Result], pairs: pl.DataFrame) -> RateSweep:
    names = [row.arm for row in rows]
    own = of_treatment(pairs, rows[0].case, *names).filter(pl.col("writer_rate_b_s") > 0)
    lost = pl.col("off") - pl.col("on") if is_bandwidth(rows[0]) else pl.col("ratio") - 1
    cells: dict[tuple[int, int], dict[str, tuple[float, float, float]]] = {}
    for block, pair, arm, off, rate, loss in own.select(
        "block", "pair", pl.col("arm").cast(pl.String), "off", "writer_rate_b_s", loss=lost
    ).iter_rows():
        cells.setdefault((block, pair), {})[arm] = (off, rate, loss)
    # One rate gives no shape.
    kept = {
        key: row
        for key, row in sorted(cells.items())
        if len({rate_b_s for _, rate_b_s, _ in row.values()}) > 1
    }
    missing = (np.nan,) * 3
    table = np.array([[row.get(name, missing) for name in names] for row in kept.values()])
    table = table.reshape(len(kept), len(names), 3)
    off = np.nanmax(table[..., 0], axis=-1) if kept else np.empty(0)
    return RateSweep(list(rows), list(kept), off, table[..., 1], table[..., 2])


def is_bandwidth(row: Result) -> bool:
    """Whether the figure of merit is a bandwidth, so that what is lost can be counted in bytes."""
    return (row.unit, row.better) == ("B/s", "higher")


def _described(sweep: RateSweep) -> Throttling:
    row = sweep.results[0]
    highest_b_s = float(np.nanmax(sweep.rate_b_s))
    slope = location(slopes(sweep.rate_b_s, sweep.loss))
    curvature = location(curvatures(sweep.rate_b_s, sweep.loss, highest_b_s))
    residuals = sweep.loss - (slope.value if slope else np.nan) * sweep.rate_b_s
    return Throttling(
        case=row.case,
        arm=parts_of(row.arm)[0],
        at={name: level for name, level in row.factors.items() if name != RATE},
        unit=row.unit,
        bandwidth=is_bandwidth(row),
        pairs=len(sweep.keys),
        highest_b_s=highest_b_s,
        slope=slope,
        curvature=curvature,
        line_fits=curvature.low <= 0 <= curvature.high if curvature else None,
        levels=[
            RateLevel(
                rate=each.factors[RATE],
                rate_b_s=float(np.nanmedian(sweep.rate_b_s[:, column])),
                loss=_of_column(sweep.loss, column),
                residual=_of_column(residuals, column),
            )
            for column, each in enumerate(sweep.results)
            if not np.isnan(sweep.rate_b_s[:, column]).all()
        ],
    )


def _of_column(values: Values, column: int) -> Estimate | None:
    return location(values[:, column][~np.isnan(values[:, column])])


def _reserved(key: Sweep, sweeps: Mapping[Sweep, RateSweep]) -> list[tuple[Level, RateSweep]]:
    """The sweeps with more reserved cores than that of `key`, if it has the fewest."""

    def others(of: Sweep) -> tuple[object, ...]:
        return (*of[:2], *(pair for pair in of[2] if pair[0] != RESERVED))

    alike = {
        level: sweep
        for other, sweep in sweeps.items()
        if others(other) == others(key)
        and isinstance(level := dict(other[2]).get(RESERVED), int | float)
    }
    own = dict(key[2]).get(RESERVED)
    return [(level, sweep) for level, sweep in alike.items() if own == min(alike) < level]


def _compared(base: Throttling, without: RateSweep, level: Level, with_: RateSweep) -> Throttling:
    """`base` with its crossovers, from the pairs that both sweeps have."""
    first, second = ({key: at for at, key in enumerate(each.keys)} for each in (without, with_))
    common = [key for key in first if key in second]
    one, other = ([places[key] for key in common] for places in (first, second))
    slope = slopes(without.rate_b_s[one], without.loss[one])
    off, off_with = without.baseline[one], with_.baseline[other]
    reserved_slope = slopes(with_.rate_b_s[other], with_.loss[other])
    if base.bandwidth:
        price, factor = off - off_with, np.ones(len(common))
    else:
        lower = without.results[0].better == "lower"
        factor = off_with / off if lower else off / off_with
        price = factor - 1
    # Time at the same rate: 1 + b x without, (1 + price) (1 + b' x) with reserved cores.
    return replace(
        base,
        reserved=level,
        crossover_b_s=crossover(slope, price, base.highest_b_s),
        same_rate_b_s=crossover(slope - factor * reserved_slope, price, base.highest_b_s),
    )
