"""Nested facts as labels and texts, with units from the suffixes of their keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from analysis.report.words import binary, duration
from analysis.samples.columns import MOST
from records.units import quantity

#: Suffix of a key -> format of its number; longer suffixes come first.
_ENDINGS: dict[str, Callable[[float], str]] = {
    "_b_s": lambda value: quantity(value, "B/s"),
    "_b": binary,
    "_hz": lambda value: f"{value / 1e9:.4g} GHz",
    "_mhz": lambda value: f"{value:.4g} MHz",
    "_s": duration,
}


def facts(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Nested facts as (label, text), in their order; units come from the keys' suffixes.

    Unknown facts (None) are listed in one last row.
    """
    rows = _flat(record, "")
    unknown = [label for label, text in rows if text is None]
    known = [(label, text) for label, text in rows if text is not None]
    return [*known, ("not known", ", ".join(unknown))] if unknown else known


def _flat(record: Mapping[str, Any], prefix: str) -> list[tuple[str, str | None]]:
    rows: list[tuple[str, str | None]] = []
    for key, value in record.items():
        if isinstance(value, Mapping):
            # `offsets_s: {a: 1}` has the unit in the outer key: `offsets a_s`.
            unit = _ending(key)
            within = _label(prefix, key.removesuffix(unit))
            rows += _flat({f"{k}{unit}": v for k, v in value.items()}, within)
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            for index, item in enumerate(value):
                entry = dict(item) if isinstance(item, Mapping) else {"": item}
                name = entry.pop("name", entry.pop("number", index))
                rows += _flat(entry, f"{_label(prefix, key)} {name}")
        else:
            rows.append(_fact(prefix, key, value))
    return rows


def _ending(key: str) -> str:
    return next((ending for ending in _ENDINGS if key.endswith(ending)), "")


#: Part of a key -> how it is written; other parts are words as they are.
_WRITTEN = {
    **{word: word.upper() for word in ("cpu", "numa", "nic", "rdma", "mpi", "smt", "mtu", "bios")},
    **{"cpus": "CPUs", "llc": "last-level cache", "mtti": "mean time to interrupt"},
}


def _label(prefix: str, key: str) -> str:
    parts = key.replace("_", " ").split()
    return " ".join(filter(None, [prefix, *(_WRITTEN.get(part, part) for part in parts)]))


def _fact(prefix: str, key: str, value: Any) -> tuple[str, str | None]:
    label = _label(prefix, key)
    bare = _label(prefix, key.removesuffix(_ending(key)))
    if value is None:
        return bare, None
    if value in ("", []):
        return label, "none"
    if isinstance(value, bool):
        return label, "yes" if value else "no"
    if isinstance(value, list):
        return label, ranges(value)
    if isinstance(value, (int, float)) and _ending(key) and not abs(value) > MOST:
        return bare, _ENDINGS[_ending(key)](value)
    return label, str(value)


def ranges(values: Sequence[Any]) -> str:
    """A list as text, with consecutive integers as ranges: `0-3, 8`."""
    parts: list[tuple[Any, Any]] = []
    for value in values:
        if parts and type(value) is type(parts[-1][1]) is int and value == parts[-1][1] + 1:
            parts[-1] = (parts[-1][0], value)
        else:
            parts.append((value, value))
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
