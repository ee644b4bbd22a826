"""The rules of a sample: what its file must hold, and the line that breaks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import polars as pl
import pydantic
from pydantic_core import from_json

from records.arms import Role
from records.errors import InputError, first_fault
from records.sample import OLDER, SCHEMA_VERSION, Better, Level, Outcome, Sample, WriterRecord


def _required(record: Any) -> list[str]:
    """Required fields: no default, never None."""
    hints = get_type_hints(record, include_extras=True)
    return [
        item.name
        for item in fields(record)
        if item.default is MISSING
        and item.default_factory is MISSING
        and NoneType not in get_args(hints[item.name])
    ]


_REQUIRED = _required(Sample)
#: Those of a writer.
WRITER = _required(WriterRecord)
#: JSON text of an object of numbers.
_NUMBERS = r'^\{(\s*"([^"\\]|\\.)*"\s*:\s*-?[0-9][0-9.eE+-]*\s*,?)*\s*\}$'
_SCHEMA_RULE = f"{SCHEMA_VERSION}; {OLDER}"


def check(frame: pl.DataFrame, path: Path, first_line: int) -> None:
    """Raises InputError for the first row that breaks a rule of the record.

    Its columns are those of `analysis.samples.columns`, with `incomplete` writers.
    """

    def one_of(name: str, allowed: object) -> tuple[str, pl.Expr, str]:
        words = get_args(allowed)
        return name, ~pl.col(name).is_in(words), f"one of {', '.join(words)}"

    other = pl.col("schema").ne_missing(SCHEMA_VERSION)
    rules = [
        ("schema", other, _SCHEMA_RULE),
        *((name, pl.col(name).is_null(), "a value") for name in _REQUIRED),
        one_of("outcome", Outcome),
        one_of("fom_better", Better),
        one_of("role", Role),
        (
            "fom",
            (pl.col("outcome") == "kept") & ~(pl.col("fom") > 0).fill_null(False),
            "a number above 0 if the outcome is 'kept'",
        ),
        ("fom_extra", ~pl.col("fom_extra").str.contains(_NUMBERS), "an object of numbers"),
        ("writers", pl.col("incomplete"), f"a list of objects with {', '.join(WRITER)}"),
    ]
    malformed = [text for text in frame["factors"].unique() if not _are_factors(text)]
    rules.append(("factors", pl.col("factors").is_in(malformed), "an object of levels"))
    refuse_broken(frame, rules, path, first_line)


def refuse_broken(
    frame: pl.DataFrame, rules: Sequence[tuple[str, pl.Expr, str]], path: Path, first_line: int = 1
) -> None:
    """Raises InputError for the first row that breaks one of `rules`.

    A rule: a column, an expression that is true of a broken row, and what is allowed.
    """
    first = [
        broken.arg_true().first().alias(str(place)) for place, (_, broken, _) in enumerate(rules)
    ]
    for (name, _, allowed), row in zip(rules, frame.select(first).row(0), strict=True):
        if row is not None:
            value = frame[name][row]
            at = f"{path}:{first_line + row}"
            raise InputError(f"{at}: {name}: {value!r} found; allowed: {allowed}")


def _are_factors(text: str) -> bool:
    """Whether the text of `factors` maps names to levels."""
    try:
        levels = from_json(text, allow_inf_nan=False)
    except ValueError:
        return False
    return isinstance(levels, dict) and all(isinstance(level, Level) for level in levels.values())


def raise_first_fault(text: bytes, path: Path, first_line: int) -> None:
    """Raises InputError for the first line that is not a sample."""
    of_sample = pydantic.TypeAdapter(Sample)  # takes 50 ms, so only for a fault
    for number, line in enumerate(text.split(b"\n")[:-1], first_line):
        at = f"{path}:{number}"
        try:
            record = from_json(line, allow_inf_nan=False)
        except ValueError as error:
            raise InputError(f"{at}: {error}") from error
        if isinstance(record, dict) and record.get("schema") != SCHEMA_VERSION:
            raise InputError(
                f"{at}: schema: {record.get('schema')!r} found; allowed: {_SCHEMA_RULE}"
            )
        try:
            of_sample.validate_python(record)
        except pydantic.ValidationError as error:
            raise InputError(f"{at}: {first_fault(error)}") from error
