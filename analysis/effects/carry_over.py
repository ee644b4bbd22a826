"""Whether a run depends on its place in the pair, or on the run before it.

Two effects are estimated in each case, from the pairs in which every treatment counts: that of
being the first run of its pair, and that of following a run with writers. Logarithms of times are
centred by pair and by treatment, and so are the two indicators; each effect is the slope of the
times on its indicator, with the other one taken out (Frisch and Waugh 1933).

Of the two permutation tests, exchanges within pairs hold for independent runs of any distribution,
changes of sign for symmetric ones however the runs of a pair depend on each other. The interval
holds all slopes that neither test rejects, and the p-value is the larger of both, adjusted after
Holm (1979) for the two effects of a case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.effects.estimate import Result
from analysis.effects.verdict import within
from analysis.statistics.interval import CONFIDENCE, FEWEST, Estimate, holm

Kind = Literal["first run", "after writers"]
_WHO: dict[Kind, str] = {
    "first run": "a pair's first run",
    "after writers": "a run that follows one with writers",
}
#: Draws of each test. Of more pairs, this many evenly spaced ones are looked at.
_DRAWS = 999
_MOST_PAIRS = 500
#: Largest logarithm of a ratio; JSON has no infinity.
_MOST_LOG = 690.0

_COLUMNS = ["case", "block", "pair", "arm", "role", "position", "status", "fom", "fom_better"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OrderEffect:
    """One effect of the order of runs on the runs of a case."""

    #: Name of the case.
    case: str
    #: Of the first run of a pair, or of a run after one with writers.
    kind: Kind
    #: Pairs in which every treatment counts.
    pairs: int
    #: Time with the effect / without; above 1 is slower.
    ratio: Estimate
    #: Two-sided, adjusted for both effects of the case.
    p: float
    #: `p` is small enough. One neither found nor within the margin is not decided.
    found: bool
    #: The whole interval lies within the campaign's margin.
    within_margin: bool

    @property
    def verdict(self) -> str:
        """What may be said of it."""
        return "found" if self.found else "none found" if self.within_margin else "not decided"

    @property
    def sentence(self) -> str:
        """In words."""
        word, sign = ("slower", 100) if self.ratio.value >= 1 else ("faster", -100)
        low, high = sorted(sign * (end - 1) for end in (self.ratio.low, self.ratio.high))
        by = sign * (self.ratio.value - 1)
        return f"{_WHO[self.kind]} is {by:.1f} % {word} [{low:.1f}, {high:.1f}]"


def order_effects(marked: pl.DataFrame, margin: float) -> list[OrderEffect]:
    """The effects of each case, from `analysis.samples.pairs.judged` samples in order of time.

    `margin` is the share below which an effect is none.
    None of a case with fewer than six complete pairs, or whose two effects cannot be separated.
    """
    cases = marked.select(_COLUMNS).group_by("case", maintain_order=True)
    return [each for (case,), own in cases for each in _of_case(str(case), own, margin)]


def with_notes(rows: Sequence[Result], effects: Sequence[OrderEffect]) -> list[Result]:
    """The rows, with a note on each effect that was found in their case."""
    return [
        replace(
            row,
            notes=[*row.notes, *(e.sentence for e in effects if e.found and e.case == row.case)],
        )
        for row in rows
    ]


def _of_case(case: str, samples: pl.DataFrame, margin: float) -> list[OrderEffect]:
    times, first, after = _complete_pairs(samples)
    if len(times) < FEWEST:
        return []
    y, x, z = map(_centred, (times, first, after))
    kinds: dict[Kind, tuple[Floats, Floats]] = {"first run": (x, z), "after writers": (z, x)}
    known = {
        kind: slope
        for kind, (own, other) in kinds.items()
        if (slope := _slope(_without(y, other), _without(own, other)))
    }
    adjusted = holm([p for _, p in known.values()])
    return [
        OrderEffect(
            *(case, kind, len(times), ratio, p),
            found=p <= 1 - CONFIDENCE,
            within_margin=within(ratio.low, ratio.high, margin),
        )
        for (kind, (ratio, _)), p in zip(known.items(), adjusted, strict=True)
    ]


def _complete_pairs(samples: pl.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Log times and both indicators, each of shape (pairs, treatments)."""
    followed = pl.col("role").shift(1).over("block") == "effect"
    marked = samples.with_columns(
        at=pl.col("block").cast(pl.Int64) * 2**31 + pl.col("pair"), after=followed.fill_null(False)
    ).filter(pl.col("fom") > 0, status="counts")
    every = marked["at"].unique().sort()
    chosen = np.unique(np.linspace(0, len(every) - 1, min(len(every), _MOST_PAIRS)).astype(int))
    sign = pl.when(pl.col("fom_better") == "higher").then(-1).otherwise(1)
    runs = (
        marked.filter(pl.col("at").is_in(every[chosen].implode()))
        .unique(["at", "arm"], keep="last", maintain_order=True)
        .select(
            *("at", "arm", "after"),
            time=sign * pl.col("fom").log(),
            first=pl.col("position") == 0,
        )
    )
    treatments = runs["arm"].n_unique()
    complete = runs.filter(pl.len().over("at") == treatments)
    ordered = complete.sort("at", pl.col("arm").cast(pl.String))

    def matrix(name: str) -> Floats:
        values = ordered[name].cast(pl.Float64).to_numpy()
        return np.asarray(values.reshape(-1, max(treatments, 1)))

    return matrix("time"), matrix("first"), matrix("after")


def _centred(values: Floats) -> Floats:
    """Without the means of rows and of columns."""
    rows, columns = values.mean(axis=1, keepdims=True), values.mean(axis=0, keepdims=True)
    return np.asarray(values - rows - columns + values.mean())


def _without(values: Floats, other: Floats) -> Floats:
    """What is left of `values` once their slope on `other` is taken out."""
    size = float((other**2).sum())
    return values - other * float((values * other).sum()) / size if size > 1e-9 else values


def _slope(y: Floats, x: Floats) -> tuple[Estimate, float] | None:
    """exp(slope of y on x) with its interval, and its two-sided p-value; None if x does not vary.

    With the slope b taken out of y, a draw's statistic is A - b C, and the observed one A0 - b C0,
    where C <= C0. So the draw exceeds the observed one for all b above (A0 - A) / (C0 - C).
    """
    c0, a0 = float((x * x).sum()), float((x * y).sum())
    if c0 < 1e-9:
        return None
    rng = np.random.default_rng(1)
    tail = (1 - CONFIDENCE) / 2
    lows, highs, ps = [], [], []
    for a, c in (_exchanged(y, x, rng), _flipped(y, x, rng)):
        apart = c0 - c
        same = apart < 1e-9 * c0  # a draw that changes nothing speaks for every slope
        crossing = (a0 - a) / np.where(same, 1.0, apart)
        below = np.sort(np.append(np.where(same, -np.inf, crossing), -np.inf))
        above = np.sort(np.append(np.where(same, np.inf, crossing), np.inf))
        rank = math.floor(tail * len(below))
        lows.append(float(below[rank]))
        highs.append(float(above[-1 - rank]))
        ps.append(min(1.0, 2 * float(min((below <= 0).mean(), (above >= 0).mean()))))
    if not math.isfinite(min(lows)) or not math.isfinite(max(highs)):
        return None
    slope = a0 / c0
    logs = np.array([slope, min(*lows, slope), max(*highs, slope)])
    value, low, high = np.exp(np.clip(logs, -_MOST_LOG, _MOST_LOG)).tolist()
    return Estimate(value, low, high, CONFIDENCE), max(ps)


def _exchanged(y: Floats, x: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """A and C of draws that exchange the runs within each pair."""
    a, c = np.empty(_DRAWS), np.empty(_DRAWS)
    for draw in range(_DRAWS):
        order = rng.random(y.shape).argsort(axis=1)
        a[draw] = (x * np.take_along_axis(y, order, axis=1)).sum()
        c[draw] = (x * np.take_along_axis(x, order, axis=1)).sum()
    return a, c


def _flipped(y: Floats, x: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """A and C of draws that change the sign of whole pairs."""
    signs = rng.choice([-1.0, 1.0], (_DRAWS, len(y)))
    return signs @ (x * y).sum(axis=1), signs @ (x * x).sum(axis=1)
