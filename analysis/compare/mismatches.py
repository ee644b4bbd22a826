"""The dose of a treatment: what its writers do. Sides are comparable only if their doses agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import polars as pl

from analysis.report.words import binary
from records.units import plural, quantity

#: Rates vary from night to night; those that differ by more than this share are another dose.
RATE_TOLERANCE = 0.1


@dataclass(frozen=True)
class DoseDifference:
    """What differs between the sides' writes of one case and treatment."""

    case: str
    arm: str
    #: `64 KiB against 1 MiB`, and so on.
    text: str


#: Column -> its text, and whether it is a rate. Others must be the same in all runs of both sides.
_DOSE: dict[str, tuple[Callable[[Any], str], bool]] = {
    "writers": (lambda value: plural(value, "writer"), False),
    "message_b": (lambda value: binary(value) if value else "none", False),
    "transport": (lambda value: value or "none", False),
    "injector": (lambda value: value or "none", False),
    "direction": (lambda value: value or "write", False),
    "asked_b_s": (lambda rate: "full rate" if rate is None else f"{_rate(rate)} requested", True),
    "writer_rate_alone_b_s": (lambda rate: f"{_rate(rate)} alone", True),
}


def dose_differences(reference: pl.DataFrame, this: pl.DataFrame) -> list[DoseDifference]:
    """One entry for each case and treatment of both sides whose doses differ, from their effects.

    Of rates, the medians over the nights are compared.
    """
    names = ["case", "arm"]
    old, new = (
        effects.filter(pl.col("runs") > 0).group_by(names, maintain_order=True).agg(*_DOSE)
        for effects in (reference, this)
    )
    both = new.join(old, on=names, suffix="_reference", maintain_order="left")
    texts = ((row, "; ".join(_of_dose(row))) for row in both.iter_rows(named=True))
    return [DoseDifference(row["case"], row["arm"], text) for row, text in texts if text]


def _of_dose(row: Mapping[str, Any]) -> Iterator[str]:
    for name, (text, is_rate) in _DOSE.items():
        nights = [row[f"{name}_reference"], row[name]]
        if is_rate:
            # Full rate, which is null, if any night was at full rate.
            rates = [None if None in rates else median(rates) for rates in nights]
            alike, nights = _about_as_fast(*rates), [[rate] for rate in rates]
        else:
            alike = len({text(value) for side in nights for value in side}) == 1
        if not alike:
            yield " against ".join(", ".join(dict.fromkeys(map(text, side))) for side in nights)


def _about_as_fast(rate: float | None, other: float | None) -> bool:
    if rate is None or other is None:
        return rate is other
    return max(rate, other) <= min(rate, other) * (1 + RATE_TOLERANCE)


def _rate(value: float | None) -> str:
    return quantity(value, "B/s", 3)
