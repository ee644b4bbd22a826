"""Shows nested facts as labels and texts. The suffix of a fact's key gives the unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from analysis.display.figures import quantity
from analysis.report.words import duration_text, size_text
from analysis.samples.columns import MAX_FIGURE

#: Suffix of a key -> function that makes the text of the key's number. `_b_s` comes before `_s`,
#: which it ends with.
_UNIT_FORMATS: dict[str, Callable[[float], str]] = {
    "_b_s": lambda value: quantity(value, "B/s"),
    "_b": size_text,
    "_hz": lambda value: f"{value / 1e9:.4g} GHz",
    "_mhz": lambda value: f"{value:.4g} MHz",
    "_s": duration_text,
}


def labelled_facts(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Nested facts as (label, text), in their order.

    The last row lists the labels of the facts that are not known (None).
    """
    rows = _flattened(record, "")
    unknown = [label for label, text in rows if text is None]
    known = [(label, text) for label, text in rows if text is not None]
    return [*known, ("not known", ", ".join(unknown))] if unknown else known


def _flattened(record: Mapping[str, Any], prefix: str) -> list[tuple[str, str | None]]:
    """All facts of a record as `_fact` returns them; labels begin with `prefix`."""
    rows: list[tuple[str, str | None]] = []
    for key, value in record.items():
        if isinstance(value, Mapping):
            # The unit is in the outer key: `offsets_s: {a: 1}` is read as `offsets: {a_s: 1}`.
            suffix = _unit_suffix(key)
            inner = {f"{inner_key}{suffix}": item for inner_key, item in value.items()}
            rows += _flattened(inner, _label(prefix, key.removesuffix(suffix)))
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            for index, item in enumerate(value):
                entry = dict(item) if isinstance(item, Mapping) else {"": item}
                # An entry has a name, a number or neither.
                number = entry.pop("number", index)
                name = entry.pop("name", number)
                rows += _flattened(entry, f"{_label(prefix, key)} {name}")
        else:
            rows.append(_fact(prefix, key, value))
    return rows


def _unit_suffix(key: str) -> str:
    return next((suffix for suffix in _UNIT_FORMATS if key.endswith(suffix)), "")


#: Part of a key -> its spelling in labels; other parts are shown unchanged.
_SPELLINGS = {
    **{word: word.upper() for word in ("cpu", "numa", "nic", "rdma", "mpi", "smt", "mtu", "bios")},
    **{"cpus": "CPUs", "llc": "last-level cache", "mtti": "mean time to interrupt"},
}


def _label(prefix: str, key: str) -> str:
    parts = key.replace("_", " ").split()
    return " ".join(filter(None, [prefix, *(_SPELLINGS.get(part, part) for part in parts)]))


def _fact(prefix: str, key: str, value: Any) -> tuple[str, str | None]:
    """The label and the text of one fact. The text is None if the fact is not known."""
    label = _label(prefix, key)
    suffix = _unit_suffix(key)
    label_without_unit = _label(prefix, key.removesuffix(suffix))
    if value is None:
        return label_without_unit, None
    if value in ("", []):
        return label, "none"
    if isinstance(value, bool):
        return label, "yes" if value else "no"
    if isinstance(value, list):
        return label, ranges_text(value)
    # NaN is shown with its unit, too: `not ... >` is true for NaN, whereas `<=` would be false.
    if isinstance(value, (int, float)) and suffix and not abs(value) > MAX_FIGURE:
        return label_without_unit, _UNIT_FORMATS[suffix](value)
    return label, str(value)


def ranges_text(values: Sequence[Any]) -> str:
    """A list as text, with consecutive integers as ranges: `0-3, 8`."""
    ranges: list[tuple[Any, Any]] = []
    for value in values:
        first, last = ranges[-1] if ranges else (None, None)
        if type(value) is int and type(last) is int and value == last + 1:
            ranges[-1] = (first, value)
        else:
            ranges.append((value, value))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
