"""Advises whether a campaign should have more allocations, or more pairs in each allocation.

The advice is for an interval that covers the slowdown of the next allocation. The slowdown varies
from pair to pair and from allocation to allocation. Both variances are estimated from earlier runs
on the machine (Kalibera and Jones 2013). A *block* is the pairs of one allocation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.statistics.aligned_ranks import MIN_BLOCKS
from analysis.statistics.interval import UPPER_PROBABILITY
from nimc.campaign.plan import Case
from records.arms import arm_of
from records.units import percentage, plural

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Variation:
    """Standard deviations of the logarithm of the slowdown."""

    #: Standard deviation between allocations, without the part that the variation between pairs
    #: explains.
    between_allocations: float
    #: Standard deviation between the pairs of one allocation.
    between_pairs: float

    def as_dict(self) -> dict[str, float]:
        """Return the variation in the form in which it is printed as JSON."""
        return {"between": self.between_allocations, "within": self.between_pairs}

    def half_width(self, allocations: int, mean_pairs: float) -> float:
        """Return half the width of the interval of the next allocation's slowdown.

        It is a share of the slowdown. The interval is computed from `allocations` allocations,
        which have `mean_pairs` pairs on average.
        """
        from scipy import special

        variance = self.between_allocations**2 + self.between_pairs**2 / mean_pairs
        t = float(special.stdtrit(allocations - 1, UPPER_PROBABILITY))
        return math.expm1(t * math.sqrt(variance * (1 + 1 / allocations)))


def variation(pairs: pl.DataFrame) -> Variation | None:
    """Estimate the variation from a table of pairs (`analysis.samples.pairs.pair_table`).

    Only pairs with writes are used. Returns None unless at least one effect has two allocations
    with two or more pairs each.
    """
    import polars as pl

    effects = [arm for arm in pairs["arm"].cast(pl.String).unique() if not arm_of(arm).silent]
    log_ratio = pl.col("ratio").log()
    by_block = (
        pairs.filter(pl.col("arm").cast(pl.String).is_in(effects))
        .group_by(pl.col("case", "arm").cast(pl.String), "block")
        .agg(n=pl.len(), mean=log_ratio.mean(), pair_variance=log_ratio.var())
        .filter(pl.col("n") > 1)
    )
    pair_freedom = pl.col("n") - 1
    by_effect = (
        by_block.group_by("case", "arm")
        .agg(
            blocks=pl.len(),
            pair_variance=(pl.col("pair_variance") * pair_freedom).sum() / pair_freedom.sum(),
            mean_variance=pl.col("mean").var(),
            inverse_pairs=(1 / pl.col("n")).mean(),
        )
        .filter(pl.col("blocks") > 1)
    )
    if by_effect.is_empty():
        return None
    weight = pl.col("blocks") - 1
    # `explained` is the part of the variance of the blocks' means that the variation between pairs
    # causes.
    variances = pl.col("pair_variance", "mean_variance", "explained")
    pair_variance, mean_variance, explained = (
        by_effect.with_columns(explained=pl.col("pair_variance") * pl.col("inverse_pairs"))
        .select((variances * weight).sum() / weight.sum())
        .row(0)
    )
    return Variation(
        between_allocations=math.sqrt(max(mean_variance - explained, 0.0)),
        between_pairs=math.sqrt(pair_variance),
    )


def advice(variation: Variation | None, case: Case) -> str:
    """Return advice on how to narrow the interval of the next allocation's slowdown.

    The advice assumes that the case ends at its floor of pairs. `variation` is None if it is not
    known.
    """
    allocations = sum(block.needed == "always" for block in case.blocks)
    mean_pairs = case.pairs_least / allocations
    if allocations < MIN_BLOCKS:
        return (
            f"The pairs up to the floor take {plural(allocations, 'allocation')}. An interval that"
            f" covers the next allocation needs {MIN_BLOCKS}: set pairs.block to"
            f" {case.pairs_least // MIN_BLOCKS}."
        )
    if variation is None:
        return "How much allocations differ is not known: no run here has two for the same case."
    half_width = variation.half_width(allocations, mean_pairs)
    with_allocation = variation.half_width(allocations + 1, mean_pairs)
    more_pairs = mean_pairs * (allocations + 1) / allocations
    with_pairs = variation.half_width(allocations, more_pairs)
    better = "allocations" if with_allocation < with_pairs else "pairs to each"
    return (
        f"The slowdown varies by {_percent(variation.between_allocations)} between allocations and"
        f" by {_percent(variation.between_pairs)} between pairs. With {allocations} allocations the"
        f" interval of the next one is {_percent(half_width)} to either side. One more allocation"
        f" makes it {_percent(with_allocation)}; its pairs, spread over these allocations instead,"
        f" make it {_percent(with_pairs)}: add {better}."
    )


def _percent(share: float) -> str:
    return percentage(share, ".2g")
