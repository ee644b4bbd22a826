"""Is the machine slower than it was known to be? Its own `off` against what its site file expects.

`references` of a site file names cases and the figure of merit, in SI units, that they are known to
reach without writers; `reference_tolerance` is the share by which they may fall short of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from analysis.arms import BASELINE
from analysis.estimate import Result
from analysis.run import RunHeader
from analysis.sample import Better


def hold_against_references(rows: Iterable[Result], header: RunHeader) -> list[Result]:
    """The rows, flagged and with a note where the baseline falls short of the machine's reference.

    A reference is for the case as it is at its first levels: other baselines are held against none.
    """
    site = header.facts.get("site") or {}
    references: dict[str, float] = site.get("references") or {}
    tolerance = float(site.get("reference_tolerance") or 0.0)
    told = []
    for row in rows:
        reference = references.get(row.case) if row.baseline == BASELINE else None
        if reference is not None and _falls_short(row, reference, tolerance):
            note = (
                f"slower than its reference: {row.off_median:.4g} {row.unit} without writers;"
                f" {reference:.4g} {row.unit} within {tolerance:.0%} was expected"
            )
            row = replace(row, slower_than_reference=True, notes=[note, *row.notes])
        told.append(row)
    return told


def bounds(better: Better, tolerance: float) -> tuple[float | None, float | None]:
    """Lower and upper bound of a reference as ReFrame takes them, in shares of it.

    A figure may be better than its reference by any share, and worse by the tolerance only.
    """
    return (None, tolerance) if better == "lower" else (-tolerance, None)


def _falls_short(row: Result, reference: float, tolerance: float) -> bool:
    if row.off_median is None:
        return False
    lower = row.better == "lower"
    cost = row.off_median / reference if lower else reference / row.off_median
    return cost > 1 + tolerance
