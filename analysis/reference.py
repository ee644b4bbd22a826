"""Is the machine slower than it was known to be? Its own `off` against what its site file expects.

`references` of a site file names cases and the figure of merit, in SI units, that they are known to
reach without writers; `reference_tolerance` is the share by which they may fall short of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from analysis.estimate import Result
from analysis.run import RunHeader

#: First words of the note, by which a row that falls short is known.
SLOWER = "slower than its reference"


def hold_against_references(rows: Iterable[Result], header: RunHeader) -> list[Result]:
    """The rows, with a note on each whose `off` median falls short of the machine's reference."""
    site = header.facts.get("site") or {}
    references: dict[str, float] = site.get("references") or {}
    tolerance = float(site.get("reference_tolerance") or 0.0)
    told = []
    for row in rows:
        note = _shortfall(row, references.get(row.case), tolerance)
        told.append(replace(row, notes=[note, *row.notes]) if note else row)
    return told


def is_slower(row: Result) -> bool:
    """Whether `hold_against_references` found the row's case slower than it should be."""
    return any(note.startswith(SLOWER) for note in row.notes)


def _shortfall(row: Result, reference: float | None, tolerance: float) -> str | None:
    """Times are better lower, all rates higher."""
    if reference is None or row.off_median is None:
        return None
    cost = row.off_median / reference if row.unit == "s" else reference / row.off_median
    if cost <= 1 + tolerance:
        return None
    return (
        f"{SLOWER}: {row.off_median:.4g} {row.unit} without writers; {reference:.4g} {row.unit}"
        f" within {tolerance:.0%} was expected"
    )
