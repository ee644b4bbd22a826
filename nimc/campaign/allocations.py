"""Advice on more allocations or more pairs in each, for the interval of the next allocation.

The slowdown varies from pair to pair, and from allocation to allocation: both variances follow from
the machine's runs (Kalibera and Jones 2013).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.statistics.aligned_ranks import MIN_BLOCKS
from analysis.statistics.interval import UPPER_PROBABILITY
from nimc.campaign.plan import Case
from records.arms import arm_of
from records.units import plural

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Variation:
    """Standard deviations of the logarithm of the slowdown."""

    #: Of allocations, beyond what their pairs explain; and of the pairs of one allocation.
    between: float
    within: float

    def half_width(self, allocations: int, pairs: float) -> float:
        """Half the interval of the next allocation, relative to the slowdown."""
        from scipy import special

        variance = self.between**2 + self.within**2 / pairs
        t = float(special.stdtrit(allocations - 1, UPPER_PROBABILITY))
        return math.expm1(t * math.sqrt(variance * (1 + 1 / allocations)))


def variation(pairs: pl.DataFrame) -> Variation | None:
    """Estimate the variation from a `pair_table`.

    None unless an effect has two allocations of two pairs or more.
    """
    import polars as pl

    effects = [arm for arm in pairs["arm"].cast(pl.String).unique() if not arm_of(arm).silent]
    ratio = pl.col("ratio").log()
    block_ratios = (
        pairs.filter(pl.col("arm").cast(pl.String).is_in(effects))
        .group_by(pl.col("case", "arm").cast(pl.String), "block")
        .agg(n=pl.len(), mean=ratio.mean(), within=ratio.var())
        .filter(pl.col("n") > 1)
    )
    effect_ratios = (
        block_ratios.group_by("case", "arm")
        .agg(
            blocks=pl.len(),
            within=(pl.col("within") * (pl.col("n") - 1)).sum() / (pl.col("n") - 1).sum(),
            mean_variance=pl.col("mean").var(),
            inverse_pairs=(1 / pl.col("n")).mean(),
        )
        .filter(pl.col("blocks") > 1)
    )
    if effect_ratios.is_empty():
        return None
    weight = pl.col("blocks") - 1
    variances = pl.col("within", "mean_variance", "explained")
    # The pairs alone explain this much of the variance of means.
    within, mean_variance, explained = (
        effect_ratios.with_columns(explained=pl.col("within") * pl.col("inverse_pairs"))
        .select((variances * weight).sum() / weight.sum())
        .row(0)
    )
    return Variation(math.sqrt(max(mean_variance - explained, 0.0)), math.sqrt(within))


def advice(variation: Variation | None, case: Case) -> str:
    """Return what would narrow the interval of the next allocation, for a case at its floor."""
    allocations = sum(block.needed == "always" for block in case.blocks)
    pairs = case.pairs_least / allocations
    if allocations < MIN_BLOCKS:
        return (
            f"The fewest pairs of a case take {plural(allocations, 'allocation')}. An interval that"
            f" covers the next allocation takes {MIN_BLOCKS}: set pairs.block to"
            f" {case.pairs_least // MIN_BLOCKS}."
        )
    if variation is None:
        return "How much allocations differ is not known: no run here has two of a case."
    half_width = variation.half_width(allocations, pairs)
    with_allocation = variation.half_width(allocations + 1, pairs)
    with_pairs = variation.half_width(allocations, pairs * (allocations + 1) / allocations)
    better = "allocations" if with_allocation < with_pairs else "pairs in each"
    percent = [f"{100 * half:.2g} %" for half in (half_width, with_allocation, with_pairs)]
    return (
        f"The slowdown varies by {100 * variation.between:.2g} % between allocations and by"
        f" {100 * variation.within:.2g} % between pairs. With {allocations} allocations the"
        f" interval of the next one is {percent[0]} to either side. One more makes it {percent[1]},"
        f" as many pairs more in these {percent[2]}: more {better} pay."
    )
