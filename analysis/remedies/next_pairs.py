"""How many more pairs would decide a remedy, and what they cost in node-hours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import polars as pl

from analysis.statistics.aligned_ranks import FEWEST_BLOCKS
from analysis.statistics.interval import CONFIDENCE, FEWEST, Estimate
from analysis.statistics.power import POWER

_LEVEL = 1 - CONFIDENCE
_HOUR_S = 3600.0


@dataclass(frozen=True)
class NextPairs:
    """More pairs of a case, with all treatments that it had."""

    pairs: int
    node_hours: float
    #: Relative net benefit, or loss, that they would show. None below six pairs, when the scatter
    #: is not known and the pairs give an interval only; and if allocations are what is missing.
    finds: float | None
    #: Largest share of node-hours that the remedy may save, by the interval; None below six pairs.
    at_stake: float | None
    #: Allocations of their own in which these pairs are wanted; None if it does not matter.
    allocations: int | None = None

    @property
    def worth(self) -> float:
        """What is at stake per node-hour of measurement."""
        return (self.at_stake or 0.0) / self.node_hours if self.node_hours > 0 else 0.0


def next_pairs(
    pairs: int, net: Estimate | None, tested: int, margin: float, pair_node_hours: float
) -> NextPairs:
    """More pairs that decide a net benefit as large as estimated, or `margin` if that is larger.

    `tested`: remedies that Holm adjusts for, taken at its strictest. Widths are taken to shrink
    with the root of the number of pairs.
    """
    level = _LEVEL / tested
    # Signed ranks of n pairs have no p value below 2 / 2^n.
    least = max(FEWEST, math.ceil(1 - math.log2(level)))
    if net is None:
        more = max(least - pairs, 1)
        return NextPairs(more, more * pair_node_hours, None, None)
    normal = NormalDist().inv_cdf
    error = math.log(net.high / net.low) / 2 / normal(1 - _LEVEL / 2)
    finds = max(abs(math.log(net.value)), math.log1p(margin))
    needed = pairs * ((normal(1 - level / 2) + normal(POWER)) * error / finds) ** 2
    more = max(math.ceil(needed), least, pairs + 1) - pairs
    return NextPairs(more, more * pair_node_hours, math.expm1(finds), max(1 - 1 / net.high, 0.0))


def next_allocations(
    pairs: int, allocations: int, net: Estimate, pair_node_hours: float
) -> NextPairs:
    """More allocations, with as many pairs each as so far: up to the fewest needed, then one."""
    more = max(FEWEST_BLOCKS - allocations, 1)
    wanted, at_stake = math.ceil(pairs / allocations) * more, max(1 - 1 / net.high, 0.0)
    return NextPairs(wanted, wanted * pair_node_hours, None, at_stake, more)


def pair_node_hours(samples: pl.DataFrame, case: str) -> float:
    """Node-hours of one pair of a case as it was run: lead-ins, repetitions and warm-ups included.

    Nodes of origins count as well, once if they are targets too.
    """
    own = samples.filter(pl.col("case").cast(pl.String) == case)
    seconds = (pl.col("elapsed_s") + pl.col("lead_in_s").fill_null(0.0)).sum()
    node_s = sum(
        total_s * len({*nodes.split(","), *origins.split(",")} - {""})
        for nodes, origins, total_s in own.group_by(
            pl.col("nodes").cast(pl.String),
            pl.col("origin_nodes").cast(pl.String),
            maintain_order=True,
        )
        .agg(seconds)
        .iter_rows()
    )
    made = own.filter(pl.col("pair") >= 0).select("block", "pair").n_unique()
    return float(node_s) / _HOUR_S / max(made, 1)
