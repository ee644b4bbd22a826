"""Reads counts of tools and nodes (`RUN/counters/CASE.jsonl`) into typed columns, one row a count.

One JSON object per line: `key` (the sample's), `tool`, and the fields of `counter_row.CounterRow`.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import get_args

import polars as pl

from nimc.base.errors import InputError
from nimc.base.json_limits import LONGEST_B, may_have_deep_line, refuse_deep, refuse_long
from nimc.records.sample import State
from nimc.records.sample_rules import refuse_broken

FIELDS: dict[str, pl.DataType] = {
    "key": pl.String(),
    "tool": pl.String(),
    "rank": pl.Int32(),
    "event": pl.String(),
    "value": pl.Float64(),
    "unit": pl.String(),
    "state": pl.String(),
    "running_share": pl.Float64(),
}
_OPTIONAL = ("value", "running_share")
#: States in which a count has a value.
_VALUED = ("counted", "multiplexed")
#: From best to worst.
STATES = get_args(State)


def read_counts(run: Path) -> pl.DataFrame:
    """One row per line of the files of the run in folder `run`, with the columns `FIELDS`.

    A last line that was cut off is ignored. Raises InputError, naming file and line, for any other
    line that is not a count.
    """
    frames = [_read(path) for path in sorted((run / "counters").glob("*.jsonl"))]
    return pl.concat([pl.DataFrame(schema=FIELDS), *frames])


def _read(path: Path) -> pl.DataFrame:
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    if may_have_deep_line(whole) or len(whole) > LONGEST_B:
        for number, line in enumerate(whole.split(b"\n"), 1):
            refuse_long(line, f"{path}:{number}")
            refuse_deep(line, f"{path}:{number}")
    if not whole:
        return pl.DataFrame(schema=FIELDS)
    try:
        frame = pl.read_ndjson(io.BytesIO(whole), schema=FIELDS)
    except pl.exceptions.PolarsError as error:
        _raise_first_fault(path, whole)
        raise InputError(f"{path}: {error}") from error
    if frame.height != whole.count(b"\n"):
        _raise_first_fault(path, whole)
    valued = pl.col("state").is_in(_VALUED)
    either = " or ".join(_VALUED) + ", and none elsewhere"
    rules = [
        *((name, pl.col(name).is_null(), "a value") for name in FIELDS if name not in _OPTIONAL),
        ("state", ~pl.col("state").is_in(STATES), f"one of {', '.join(STATES)}"),
        ("value", pl.col("value").is_null() == valued, f"a number where 'state' is {either}"),
    ]
    refuse_broken(frame, rules, path)
    return frame


def _raise_first_fault(path: Path, text: bytes) -> None:
    """Raises InputError for the first line that is not an object."""
    for number, line in enumerate(text.splitlines(), 1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}") from error
        if not isinstance(record, dict):
            raise InputError(f"{path}:{number}: allowed: an object with {', '.join(FIELDS)}")
