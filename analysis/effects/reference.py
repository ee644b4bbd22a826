"""Is the machine slower than it should be? Compares `off` with the references of its site file.

`references` of a site file holds the figure of merit, in SI units, that each case should reach
without writers; `reference_tolerance` is the share by which it may fall short.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from analysis.effects.estimate import Result
from nimc.records.arms import BASELINE
from nimc.records.notes import Note
from nimc.records.run import RunHeader
from nimc.records.sample import Better


def compare_with_references(rows: Iterable[Result], header: RunHeader) -> list[Result]:
    """The rows; those whose baseline falls short of the machine's reference have a flag and a note.

    A reference applies to the case at its first levels; other baselines have none.
    """
    site = header.facts.get("site") or {}
    references: dict[str, float] = site.get("references") or {}
    tolerance = float(site.get("reference_tolerance") or 0.0)
    found = []
    for row in rows:
        reference = references.get(row.case) if row.baseline == BASELINE else None
        if reference is not None and _falls_short(row, reference, tolerance):
            note = Note.REFERENCE(
                off=row.off_median, unit=row.unit, reference=reference, tolerance=tolerance
            )
            row = replace(row, slower_than_reference=True, notes=[note, *row.notes])
        found.append(row)
    return found


def bounds(better: Better, tolerance: float) -> tuple[float | None, float | None]:
    """Lower and upper bound of a reference as ReFrame takes them, in shares of it.

    A figure may be better than its reference by any share, and worse by the tolerance only.
    """
    return (None, tolerance) if better == "lower" else (-tolerance, None)


def _falls_short(row: Result, reference: float, tolerance: float) -> bool:
    if row.off_median is None:
        return False
    if row.better == "lower":
        return row.off_median > reference * (1 + tolerance)
    return row.off_median < reference * (1 - tolerance)
