"""Nodes of a machine, ranked by the figures of merit of one campaign that ran on each alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import polars as pl

from analysis.history.between_nights import ratio_of_nights
from analysis.report.data import RunData
from analysis.samples.pairs import counted
from analysis.statistics.interval import Estimate, flat, holm
from records.groups import grouped

#: Level of all differences that are named.
LEVEL = 0.05


@dataclass(frozen=True)
class NodeFigures:
    """Baseline runs of one case on one node."""

    case: str
    node: str
    unit: str
    better: str
    values: list[float]

    @property
    def times(self) -> list[float]:
        """Values such that larger is slower."""
        return self.values if self.better == "lower" else [1 / value for value in self.values]


@dataclass(frozen=True)
class RankedNode:
    """A node against the others in one case. Ratios are of times: above 1 is slower."""

    case: str
    node: str
    runs: int
    #: Median figure of merit without writers, in `unit`.
    value: float
    unit: str
    #: Null with too few runs or nodes.
    ratio: Estimate | None = None
    #: Of 'the node is like the mean of the others', adjusted over all nodes and cases.
    p_adjusted: float | None = None
    #: Smaller differences are not named: nodes always differ a little.
    margin: float = 0.0

    @property
    def text(self) -> str:
        """`slower by 3.1%`, `faster by ...`; empty if no difference beyond the margin is shown."""
        if self.ratio is None or self.p_adjusted is None or self.p_adjusted > LEVEL:
            return ""
        ratio = self.ratio.value
        if 1 / (1 + self.margin) <= ratio <= 1 + self.margin:
            return ""
        return f"slower by {ratio - 1:.1%}" if ratio > 1 else f"faster by {1 / ratio - 1:.1%}"

    def as_dict(self) -> dict[str, Any]:
        """The row as in JSON."""
        return flat(self) | {"text": self.text}


def figures(node: str, data: RunData) -> list[NodeFigures]:
    """Figures of merit of a run's baseline, by case."""
    runs = counted(data.samples.lazy(), "role", "fom", "fom_unit", "fom_better")
    baseline = runs.filter(pl.col("role").cast(pl.String) == "baseline")
    return [
        NodeFigures(
            str(case), node, part["fom_unit"][0], part["fom_better"][0], part["fom"].to_list()
        )
        for (case,), part in baseline.partition_by("case", as_dict=True).items()
    ]


def ranked(nodes: Iterable[NodeFigures], margin: float = 0.0) -> list[RankedNode]:
    """Every node in every case, the slowest of a case first.

    Differences of at most `margin`, as a share, are not named. A node's runs are compared with one
    median of each other node: with the spread of its own runs and with that between nodes
    (`history.between_nights`).
    """
    by_case = grouped((node.case, node) for node in nodes)
    rows = [row for of_case in by_case.values() for row in _of_case(of_case)]
    adjusted = iter(holm([row.p_adjusted for row in rows if row.p_adjusted is not None]))
    return [
        replace(row, margin=margin, p_adjusted=None if row.p_adjusted is None else next(adjusted))
        for row in rows
    ]


def _of_case(nodes: Sequence[NodeFigures]) -> list[RankedNode]:
    times = {of.node: median(of.times) for of in nodes}
    rows = []
    for of in sorted(nodes, key=lambda of: -times[of.node]):
        row = RankedNode(of.case, of.node, len(of.values), median(of.values), of.unit)
        others = [time for node, time in times.items() if node != of.node]
        if difference := ratio_of_nights(of.times, others):
            row = replace(row, ratio=difference.ratio, p_adjusted=difference.p)
        rows.append(row)
    return rows
