"""Were the samples of a case made in one way? Their provenance tells, block by block.

A run is resumed under the same campaign and machine, but maybe by another version of this project,
of ReFrame or of the workload: such samples still count, and the figure made from them says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from analysis.estimate import Result

#: What belongs to an allocation and differs between blocks: the nodes themselves, their clocks.
_OF_A_BLOCK = ("nodes", "clock_offsets_s")


def hold_against_provenance(
    rows: Iterable[Result], samples: pl.DataFrame, provenance: Mapping[str, Any]
) -> list[Result]:
    """The rows, with a note on each case whose samples that count were not all made in one way.

    `samples` as of `analysis.pairs.judged`; `provenance`: SHA-256 -> what its file tells.
    """
    counted = samples.filter(status="counts").group_by("case").agg(pl.col("provenance").unique())
    notes = {
        str(case): _note([provenance[sha] for sha in shas if sha in provenance])
        for case, shas in counted.select("case", "provenance").iter_rows()
    }
    return [
        replace(row, notes=[note, *row.notes]) if (note := notes.get(row.case)) else row
        for row in rows
    ]


def _note(records: list[dict[str, Any]]) -> str | None:
    names = sorted({name for record in records for name in record}.difference(_OF_A_BLOCK))
    differ = [
        name
        for name in names
        if len({json.dumps(record.get(name), sort_keys=True) for record in records}) > 1
    ]
    if not differ:
        return None
    return f"provenance differs between blocks: {', '.join(differ)}"
