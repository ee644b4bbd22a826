"""Reads JSON that another user may have written, strictly and within limits of length and depth."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from records.errors import InputError, first_fault
from records.files import read_regular

_T = TypeVar("_T")
#: Maximum length of a line, and of a file with one document, bytes.
MAX_JSON_B = 16 << 20
#: Maximum depth that pydantic's parser allows. A line with at most so many opening brackets cannot
#: be deeper.
_MAX_DEPTH = 200
#: All bytes but brackets and quotation marks.
_OTHER_BYTES = bytes(set(range(256)) - set(b'[]{}"'))
#: Rounds of the quick test, each of which removes a level of brackets.
_BRACKET_ROUNDS = 20


def read_json(path: Path) -> Any:
    """The document in a file. Raises OSError, and InputError if it is invalid or too long."""
    return parse_document(read_document(path), str(path))


def read_document(path: Path, limit_b: int = MAX_JSON_B) -> bytes:
    """The bytes of a file with one document. Raises OSError, and InputError if it is too long."""
    return read_regular(path, limit_b, follow=True)


def parse_document(document: bytes, location: str) -> Any:
    """The value of a document. Raises InputError, beginning with `location`, for an invalid one."""
    try:
        value = from_json(document, allow_inf_nan=False)
    except ValueError as error:
        raise InputError(f"{location}: invalid JSON: {error}") from error
    if not _is_finite(value):
        raise InputError(f"{location}: a number beyond 1.8e308 found; allowed: finite numbers")
    return value


def _is_finite(value: object) -> bool:
    """Return whether all numbers in a value are finite; `1e999` overflows."""
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def validated(record_type: type[_T], record: Any, location: object, *keys: str) -> _T:
    """Return a record as an instance of `record_type`.

    Raises InputError, beginning with `location`, for the first invalid field. `keys` lead to the
    record in its file.
    """
    try:
        checked: _T = _adapter(record_type).validate_python(record)  # type: ignore[arg-type]
    except ValidationError as error:
        raise InputError(f"{location}: {first_fault(error, *keys)}") from error
    return checked


@cache
def _adapter(record_type: Any) -> TypeAdapter[Any]:
    return TypeAdapter(record_type)


def refuse_deep(lines: bytes, path: Path, first_line_number: int) -> None:
    """Raise InputError for a line that is nested too deeply, since it would make polars crash."""
    if _is_shallow(lines):
        return
    for line_number, line in enumerate(lines.split(b"\n"), first_line_number):
        if line.count(b"[") + line.count(b"{") > _MAX_DEPTH:
            parse_document(line, f"{path}:{line_number}")


def _is_shallow(lines: bytes) -> bool:
    """Return whether a quick test shows that no line is deep.

    The parser would take five times as long. Each round removes the innermost pairs of brackets.
    The test fails if a string contains a bracket, since its quotation marks remain, and if there
    may be an escaped quotation mark. Such lines are left to the parser.
    """
    if b"\\" in lines:
        return False
    brackets = lines.translate(None, _OTHER_BYTES).replace(b'""', b"")
    for _ in range(_BRACKET_ROUNDS):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return not brackets


def refuse_long(line: bytes, location: str) -> None:
    """Raise InputError for a line that is too long."""
    if len(line) > MAX_JSON_B:
        raise InputError(f"{location}: is longer than allowed: {MAX_JSON_B >> 20} MiB")
