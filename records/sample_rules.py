"""Checks stored samples against the types of their record (`records.sample`) and further rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

import polars as pl
import pydantic
from pydantic_core import from_json

from records.errors import InputError, first_fault
from records.sample import OLDER_SCHEMAS, Outcome, Sample

#: The largest whole number that columns of tables hold.
_MAX_INTEGER = 2**63 - 1
#: Schemas of samples that are read.
_READABLE_SCHEMAS = (6, 7)


@dataclass(frozen=True)
class _StoredSample(Sample):
    """A sample as stored in a file, which always states its schema."""

    schema: Literal[6, 7] = field(kw_only=True)
    #: Schema 6 says `kept` where schema 7 says `accepted`.
    outcome: Literal["kept", Outcome]  # type: ignore[assignment]


@cache
def _adapter() -> pydantic.TypeAdapter[_StoredSample]:
    return pydantic.TypeAdapter(_StoredSample)  # takes 50 ms


def check_samples(lines: bytes, path: Path, first_line_number: int) -> None:
    """Raise InputError for the first line that is not a sample; `lines` are complete lines."""
    adapter = _adapter()
    # Pydantic accepts these words as numbers, although JSON does not have such numbers. Since they
    # may also be part of texts, the lines are parsed once more then.
    has_number_words = b"NaN" in lines or b"Infinity" in lines
    for line_number, line in enumerate(lines.split(b"\n")[:-1], first_line_number):
        try:
            sample = adapter.validate_json(line, strict=True)
            if has_number_words:
                from_json(line, allow_inf_nan=False)
        except pydantic.ValidationError as error:
            raise InputError(f"{path}:{line_number}: {_fault(line, error)}") from error
        except ValueError as error:
            raise InputError(f"{path}:{line_number}: {error}") from error
        if broken_rule := _broken_rule(sample):
            raise InputError(f"{path}:{line_number}: {broken_rule}")


def _broken_rule(sample: _StoredSample) -> str | None:
    """Return which rule a sample breaks, apart from the types of fields; None if it is valid."""
    accepted, wrong = ("kept", "accepted") if sample.schema == 6 else ("accepted", "kept")
    if sample.outcome == wrong:
        return f"outcome: '{wrong}' found; allowed: '{accepted}' in schema {sample.schema}"
    if sample.outcome == accepted and not (sample.fom or 0.0) > 0:
        return f"fom: {sample.fom!r} found; allowed: a number above 0 if the run was accepted"
    for index, writer in enumerate(sample.writers):
        if writer.message_b > _MAX_INTEGER:
            return f"writers.{index}.message_b: {writer.message_b} found; allowed: less than 2^63"
    return None


def _fault(line: bytes, error: pydantic.ValidationError) -> str:
    """The first fault of a line; another schema comes before all other faults."""
    try:
        record = from_json(line, allow_inf_nan=False)
    except ValueError as invalid:
        return str(invalid)
    if isinstance(record, dict) and record.get("schema") not in _READABLE_SCHEMAS:
        return f"schema: {record.get('schema')!r} found; allowed: 6, 7; {OLDER_SCHEMAS}"
    return first_fault(error)


def refuse_broken(
    frame: pl.DataFrame, rules: Sequence[tuple[str, pl.Expr, str]], path: Path
) -> None:
    """Raise InputError for the first row that breaks one of `rules`; row 0 is line 1 of `path`.

    A rule is a column, an expression that is true for a row that breaks it, and what is allowed.
    """
    first_broken_rows = [
        is_broken.arg_true().first().alias(str(index))
        for index, (_, is_broken, _) in enumerate(rules)
    ]
    rows = frame.select(first_broken_rows).row(0)
    for (name, _, allowed), row in zip(rules, rows, strict=True):
        if row is not None:
            value = frame[name][row]
            raise InputError(f"{path}:{row + 1}: {name}: {value!r} found; allowed: {allowed}")
