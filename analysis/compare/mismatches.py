"""Settings of the application or of the writers that make two sides incomparable."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import polars as pl

from analysis.display.figures import quantity
from analysis.report.data import RunData
from analysis.report.words import size_text
from records.arms import BASELINE
from records.groups import grouped
from records.run import RunHeader, entries_of
from records.units import plural

#: Rates vary from night to night. Those of two sides may differ by this share.
RATE_TOLERANCE = 0.1


@dataclass(frozen=True)
class Mismatch:
    """A difference between the sides' runs of a case."""

    case: str
    #: The treatment whose writers differ. None if the settings of the application differ: then no
    #: figure of the case can be compared.
    arm: str | None
    #: `array_most: 128MiB against 32MiB`, `64 KiB against 1 MiB`, and so on.
    text: str

    @property
    def sentence(self) -> str:
        """The line that comes first: what differs, and what follows."""
        name = self.case if self.arm is None else f"{self.case} {self.arm}"
        return f"{name}: {self.text}: not comparable"


#: Column of the writes -> its text, and whether it is a rate. Columns that are no rates must be the
#: same in all runs of both sides.
_WRITE_COLUMNS: dict[str, tuple[Callable[[Any], str], bool]] = {
    "writers": (lambda value: plural(value, "writer"), False),
    "message_b": (lambda value: size_text(value) if value else "none", False),
    "transport": (lambda value: value or "none", False),
    "injector": (lambda value: value or "none", False),
    "direction": (lambda value: value or "write", False),
    "asked_b_s": (lambda rate: "full rate" if rate is None else f"{_rate(rate)} requested", True),
    "writer_rate_alone_b_s": (lambda rate: f"{_rate(rate)} alone", True),
}


def write_mismatches(reference: pl.DataFrame, current: pl.DataFrame) -> list[Mismatch]:
    """One entry for each case and treatment of both sides whose writes differ.

    The arguments are `Side.effects`. Medians of rates over the nights are compared.
    """
    names = ["case", "arm"]
    old, new = (
        effects.filter(pl.col("runs") > 0).group_by(names, maintain_order=True).agg(*_WRITE_COLUMNS)
        for effects in (reference, current)
    )
    joined = new.join(old, on=names, suffix="_reference", maintain_order="left")
    texts = ((row, "; ".join(_write_mismatches(row))) for row in joined.iter_rows(named=True))
    return [Mismatch(row["case"], row["arm"], text) for row, text in texts if text]


def _write_mismatches(row: Mapping[str, Any]) -> Iterator[str]:
    for name, (text, is_rate) in _WRITE_COLUMNS.items():
        nights = [row[f"{name}_reference"], row[name]]
        if is_rate:
            # Null is full rate. A side with any night at full rate counts as full rate.
            rates = [None if None in side else median(side) for side in nights]
            are_alike = _have_similar_rates(*rates)
            nights = [[rate] for rate in rates]
        else:
            are_alike = len({text(value) for side in nights for value in side}) == 1
        if not are_alike:
            yield _values_of_sides([map(text, side) for side in nights])


def _values_of_sides(sides: Iterable[Iterable[str]]) -> str:
    """Distinct values of each side as text: `A, B against C`."""
    return " against ".join(", ".join(dict.fromkeys(side)) for side in sides)


def _have_similar_rates(rate: float | None, other: float | None) -> bool:
    if rate is None or other is None:
        return rate is other
    return max(rate, other) <= min(rate, other) * (1 + RATE_TOLERANCE)


def _rate(value: float | None) -> str:
    return quantity(value, "B/s", 3)


def setting_mismatches(reference: Sequence[RunData], current: Sequence[RunData]) -> list[Mismatch]:
    """One entry for each case of both sides whose application had other settings in some run."""
    has_settings = all(run.header.resolved is not None for run in (*reference, *current))
    settings = _settings_in_campaign if has_settings else _digest_of_campaign
    old, new = (
        grouped(
            (case, setting) for run in runs for case, setting in _settings(run, settings).items()
        )
        for runs in (reference, current)
    )
    cases = {case: (old[case], new[case]) for case in new if case in old}
    texts = {case: "; ".join(_setting_mismatches(*sides)) for case, sides in cases.items()}
    return [Mismatch(case, None, text) for case, text in texts.items() if text]


def _setting_mismatches(*sides: Sequence[Mapping[str, str]]) -> Iterator[str]:
    names = dict.fromkeys(name for nights in sides for night in nights for name in night)
    for name in names:
        values = [[night.get(name, "default") for night in nights] for nights in sides]
        if len({value for side in values for value in side}) > 1:
            yield f"{name}: {_values_of_sides(values)}"


def _settings(
    run: RunData, campaign_settings: Callable[[RunHeader, str], Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Case -> settings of its application: workload, what the campaign sets, first levels."""
    rows = run.samples.lazy().select("case", "workload", "arm", "factors").unique()
    settings_by_case = {}
    for case, workload, arm, factors in rows.cast(pl.String).collect().iter_rows():
        if arm == BASELINE:
            settings = {"workload": workload, **campaign_settings(run.header, case)}
            settings_by_case[case] = settings | ({"levels": factors} if factors != "{}" else {})
    return settings_by_case


def _settings_in_campaign(header: RunHeader, case: str) -> dict[str, str]:
    """Variables of the check that the campaign sets in a case."""
    entries = [
        entry for entry in entries_of(header) or () if f"{case}@".startswith(f"{entry.name}@")
    ]
    if not entries:
        return {}
    # The case `lammps@4@8` begins with the entry `lammps` as well as with the entry `lammps@4`.
    longest = max(entries, key=lambda entry: len(entry.name))
    return {name: str(value) for name, value in longest.set.items()}


def _digest_of_campaign(header: RunHeader, _case: str) -> dict[str, str]:
    """The digest of the campaign's text, for runs that did not store what the campaign sets."""
    return {"campaign file": hashlib.sha256(header.campaign_text.encode()).hexdigest()[:12]}
