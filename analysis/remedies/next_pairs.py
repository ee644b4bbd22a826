"""How many more pairs would decide a remedy, and what they cost in node-hours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import polars as pl

from analysis.remedies.net import Remedy
from analysis.remedies.standing import Standing
from analysis.statistics.aligned_ranks import FEWEST_BLOCKS
from analysis.statistics.interval import CONFIDENCE, FEWEST
from analysis.statistics.looks import POWER

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


def following(row: Remedy, tested: int, samples: pl.DataFrame) -> NextPairs | None:
    """The pairs that would decide a remedy; None if it is decided, or if pairs cannot.

    `tested`: remedies that Holm adjusts for. `samples`: those of its run.
    """
    if not row["standing"].is_open or not row["paired"]:
        return None
    per_pair = pair_node_hours(samples, row["case"])
    if row["standing"] is Standing.HERE:
        return next_allocations(row, per_pair)
    return next_pairs(row, max(tested, 1), per_pair)


def next_pairs(row: Remedy, tested: int, pair_node_hours: float) -> NextPairs:
    """More pairs that decide a net benefit as large as estimated, or the margin if that is larger.

    Holm is taken at its strictest. Widths are taken to shrink with the root of the number of pairs.
    """
    pairs, level = row["n"], _LEVEL / tested
    # Signed ranks of n pairs have no p value below 2 / 2^n.
    least = max(FEWEST, math.ceil(1 - math.log2(level)))
    if row["net"] is None:
        more = max(least - pairs, 1)
        return NextPairs(more, more * pair_node_hours, None, None)
    normal = NormalDist().inv_cdf
    error = math.log(row["net_high"] / row["net_low"]) / 2 / normal(1 - _LEVEL / 2)
    finds = max(abs(math.log(row["net"])), math.log1p(row["margin"]))
    needed = pairs * ((normal(1 - level / 2) + normal(POWER)) * error / finds) ** 2
    more = max(math.ceil(needed), least, pairs + 1) - pairs
    return NextPairs(more, more * pair_node_hours, math.expm1(finds), _at_stake(row))


def next_allocations(row: Remedy, pair_node_hours: float) -> NextPairs:
    """More allocations, with as many pairs each as so far: up to the fewest needed, then one."""
    allocations = row["allocations"]
    more = max(FEWEST_BLOCKS - allocations, 1)
    wanted = math.ceil(row["n"] / allocations) * more
    return NextPairs(wanted, wanted * pair_node_hours, None, _at_stake(row), more)


def _at_stake(row: Remedy) -> float:
    return float(max(1 - 1 / row["net_high"], 0.0))


def pair_node_hours(samples: pl.DataFrame, case: str) -> float:
    """Node-hours of one pair of a case as it was run: lead-ins, repetitions and warm-ups included.

    Nodes of origins count as well, once if they are targets too.
    """
    runs = samples.filter(pl.col("case").cast(pl.String) == case)
    seconds = (pl.col("elapsed_s") + pl.col("lead_in_s").fill_null(0.0)).sum()
    node_s = sum(
        total_s * len({*nodes.split(","), *origins.split(",")} - {""})
        for nodes, origins, total_s in runs.group_by(
            pl.col("nodes").cast(pl.String),
            pl.col("origin_nodes").cast(pl.String),
            maintain_order=True,
        )
        .agg(seconds)
        .iter_rows()
    )
    pairs = runs.filter(pl.col("pair") >= 0).select("block", "pair").n_unique()
    return float(node_s) / _HOUR_S / max(pairs, 1)
