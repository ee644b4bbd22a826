"""Tables of made nights for tests."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, timezone

import polars as pl

from analysis.history.tables import NIGHTS, RUNS

START = date(2025, 1, 6)  # a Monday


def night_rows(values: Sequence[float | None], **fields: object) -> list[dict[str, object]]:
    """One row of NIGHTS per value, one night after the other; None is a night without a run."""
    rows = []
    for index, value in enumerate(values):
        if value is None:
            continue
        night = START + timedelta(index)
        row = {
            "machine": "hpc",
            "campaign": "nightly",
            "run": f"run{index:03}",
            "started_s": started_s(index),
            "night": night,
            "case": "stream",
            "arm": "on",
            "quantity": "fom",
            "unit": "s",
            "better": "lower",
            "value": value,
            "nodes": "n1",
            **fields,
        }
        rows.append({name: row.get(name) for name in NIGHTS})
    return rows


def started_s(index: int) -> float:
    at = datetime.combine(START + timedelta(index), datetime.min.time(), timezone.utc)
    return at.timestamp() + 7200


def nights_table(*rows: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=NIGHTS)


def runs_table(
    made: Mapping[str, str | None], nodes: str = "n1", campaign: str = "nightly"
) -> pl.DataFrame:
    """RUNS with the `made` text of each run, one a night."""
    rows = [
        dict.fromkeys(RUNS)
        | {"machine": "hpc", "campaign": campaign, "run": run, "made": text, "nodes": nodes}
        | {"started_s": started_s(index)}
        for index, (run, text) in enumerate(made.items())
    ]
    return pl.DataFrame(rows, schema=RUNS)
