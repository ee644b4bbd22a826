"""The dose of a treatment: what its writers do. Sides are comparable only if their doses agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import polars as pl

from analysis.compare.side import Side
from analysis.numbers import count, quantity
from analysis.report.words import binary

#: Rates vary from night to night; those that differ by more than this share are another dose.
RATE_TOLERANCE = 0.1


@dataclass(frozen=True)
class DoseDifference:
    """What differs between the sides' writes of one case and treatment."""

    case: str
    arm: str
    #: `64 KiB against 1 MiB`, and so on.
    text: str


#: Column -> its text; each must be the same in all runs of both sides.
_EXACT: dict[str, Callable[[Any], str]] = {
    "writers": lambda value: count(value, "writer"),
    "message_b": lambda value: binary(value) if value else "none",
    "transport": lambda value: value or "none",
    "injector": lambda value: value or "none",
    "direction": lambda value: value or "write",
}
#: Rate -> its text; the medians of the sides must agree within `RATE_TOLERANCE`.
_RATES: dict[str, Callable[[float | None], str]] = {
    "asked_b_s": lambda value: "full rate" if value is None else f"{_rate(value)} requested",
    "writer_rate_alone_b_s": lambda value: f"{_rate(value)} alone",
}


def dose_differences(reference: Side, this: Side) -> list[DoseDifference]:
    """One entry for each case and treatment of both sides whose doses differ."""
    old, new = _doses(reference), _doses(this)
    return [
        DoseDifference(*key, text)
        for key in new
        if key in old and (text := "; ".join(_differ(old[key], new[key])))
    ]


def _doses(side: Side) -> dict[tuple[str, str], dict[str, list[Any]]]:
    """(Case, treatment) -> column -> its distinct values, of rates each night's median."""
    found: dict[tuple[str, str], dict[str, list[Any]]] = {}
    for run in side.runs:
        made = run.samples.filter(pl.col("role") == "effect", pl.col("status") == "counts")
        each = made.group_by("case", "arm", maintain_order=True).agg(
            *(pl.col(name).unique(maintain_order=True) for name in _EXACT),
            *(pl.col(name).median() for name in _RATES),
        )
        for row in each.iter_rows(named=True):
            dose = found.setdefault((row["case"], row["arm"]), {n: [] for n in (*_EXACT, *_RATES)})
            for name in _EXACT:
                dose[name] += [value for value in row[name] if value not in dose[name]]
            for name in _RATES:
                dose[name].append(row[name])
    return found


def _differ(old: dict[str, list[Any]], new: dict[str, list[Any]]) -> list[str]:
    found = [
        f"{_all(text, old[name])} against {_all(text, new[name])}"
        for name, text in _EXACT.items()
        if len({text(value) for value in (*old[name], *new[name])}) > 1
    ]
    for name, show in _RATES.items():
        rates = [_median(side[name]) for side in (old, new)]
        if not _agree(*rates):
            found.append(f"{show(rates[0])} against {show(rates[1])}")
    return found


def _all(text: Callable[[Any], str], values: list[Any]) -> str:
    return ", ".join(dict.fromkeys(text(value) for value in values))


def _median(rates: list[float | None]) -> float | None:
    """The median; None, which is full rate, if any night was at full rate."""
    known = [rate for rate in rates if rate is not None]
    return median(known) if len(known) == len(rates) else None


def _agree(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return max(a, b) <= min(a, b) * (1 + RATE_TOLERANCE)


def _rate(value: float | None) -> str:
    return quantity(value, "B/s", 3)
