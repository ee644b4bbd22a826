"""Limits for JSON that another user may have written: lengths and depths that no record needs.

Deeper nesting ends some parsers with a segmentation fault, longer lines take time and memory.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from nimc.base.errors import InputError, first_fault
from nimc.base.files import read_regular

_T = TypeVar("_T")
#: Longest line, and largest file with one document, bytes.
LONGEST_B = 16 << 20
#: Deepest nesting of lists and objects.
DEEPEST = 64
_NEITHER_OPENING_NOR_NEWLINE = bytes(set(range(256)) - set(b"[{\n"))
_NEWLINE = 10


def read_json(path: Path) -> Any:
    """The document in a file. Raises InputError if it is invalid or exceeds the limits."""
    return parsed(read_text(path), str(path))


def read_text(path: Path, longest_b: int = LONGEST_B) -> bytes:
    """The file with one document. Raises InputError if it is larger than `longest_b`."""
    return read_regular(path, longest_b, follow=True)


def parsed(text: bytes, at: str) -> Any:
    """The value of a document. Raises InputError, beginning with `at`, for one that is invalid."""
    refuse_deep(text, at)
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise InputError(f"{at}: {error}") from error


def validated(kind: type[_T], record: Any, path: Path, *within: str) -> _T:
    """A record as a `kind`. Raises InputError with the first field that is invalid.

    `within`: where in the file the record is.
    """
    try:
        found: _T = _adapter(kind).validate_python(record)  # type: ignore[arg-type]
    except ValidationError as error:
        raise InputError(f"{path}: {first_fault(error, *within)}") from error
    return found


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def refuse_long(text: bytes, at: str, longest_b: int = LONGEST_B) -> None:
    """Raises InputError for a line or document that is too long."""
    if len(text) > longest_b:
        raise InputError(f"{at}: is longer than allowed: {longest_b >> 20} MiB")


def refuse_deep(text: bytes, at: str) -> None:
    """Raises InputError for a document that is nested too deeply."""
    if text.count(b"[") + text.count(b"{") > DEEPEST and _is_deep(text):
        raise InputError(f"{at}: is nested deeper than allowed: {DEEPEST} levels")


def may_have_deep_line(text: bytes) -> bool:
    """Whether a line of `text` has so many opening brackets that it may be too deep.

    Closing ones are not counted, since those in strings close nothing.
    """
    kept = np.frombuffer(text.translate(None, _NEITHER_OPENING_NOR_NEWLINE), np.uint8)
    ends = np.flatnonzero(kept == _NEWLINE)
    return int(np.diff(ends, prepend=-1, append=len(kept)).max()) > DEEPEST + 1


def _is_deep(text: bytes) -> bool:
    try:
        level = [from_json(text)]
    except ValueError as error:
        return "recursion limit" in str(error)
    for _ in range(DEEPEST):
        level = [inner for each in level for inner in _children(each)]
    return bool(level)


def _children(value: Any) -> list[Any]:
    """The lists and objects directly within one."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in inner if isinstance(each, (dict, list))]
