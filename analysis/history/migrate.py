"""Tables of older schemas, brought to the present one when they are read; files stay as they are.

Whoever changes a table raises `tables.SCHEMA_VERSION` and adds the step from the number before.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from analysis.history.tables import NIGHTS, RUNS, SCHEMA_VERSION

Step = Callable[[pl.LazyFrame], pl.LazyFrame]
#: (table, schema) -> the step from that schema to the next; none where the table did not change.
STEPS: dict[tuple[str, int], Step] = {}
_COLUMNS = {"runs": RUNS, "nights": NIGHTS}


def migrated(table: str, schema: int, rows: pl.LazyFrame) -> pl.LazyFrame:
    """`rows` of a table of that schema as one of the present schema."""
    for number in range(schema, SCHEMA_VERSION):
        step = STEPS.get((table, number))
        rows = step(rows) if step else rows
    columns = _COLUMNS.get(table)
    return (
        rows.select(pl.col(name).cast(type_) for name, type_ in columns.items())
        if columns
        else rows
    )
