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
from records.measured import COMMAND_CHECK
from records.notes import Note
from records.run import RunHeader, entries_of
from records.units import plural

#: Largest share by which the rates of the sides may differ, since rates vary from night to night.
RATE_TOLERANCE = 0.1
#: Pattern of the beginning of a note on lengthened runs, of this version or an earlier one. Its
#: group says how much longer they are.
_LENGTHENED = Note.LENGTHENED.text.partition("{")[0] + r"(\S+ times \d+)"


@dataclass(frozen=True)
class Mismatch:
    """A difference between the sides' runs of a case."""

    case: str
    #: The treatment whose writers differ. None if the application's settings differ. Then no figure
    #: of the case can be compared.
    arm: str | None
    #: The values of both sides, such as `array_most: 128MiB -> 32MiB`, the reference first.
    text: str

    @property
    def sentence(self) -> str:
        """The line of the page that says what differs, and that the figures are not comparable."""
        name = self.case if self.arm is None else f"{self.case} {self.arm}"
        return f"{name}: {self.text}: not comparable"


#: Column about the writes -> a function that returns a value as text, and whether the column is a
#: rate. Columns that are no rates must have the same value in all runs of both sides.
_WRITE_COLUMNS: dict[str, tuple[Callable[[Any], str], bool]] = {
    "writers": (lambda value: plural(value, "writer"), False),
    "message_b": (lambda value: size_text(value) if value else "none", False),
    "transport": (lambda value: value or "none", False),
    "injector": (lambda value: value or "none", False),
    "direction": (lambda value: value or "write", False),
    "asked_b_s": (
        lambda rate: "full rate" if rate is None else f"{_rate_text(rate)} requested",
        True,
    ),
    "writer_rate_alone_b_s": (lambda rate: f"{_rate_text(rate)} alone", True),
}


def write_mismatches(reference: pl.DataFrame, current: pl.DataFrame) -> list[Mismatch]:
    """Return an entry for each case and treatment of both sides whose writes differ.

    The arguments are `Side.effects`. Medians of rates over the nights are compared. A night without
    a complete pair has no uncontended rate, so the other nights give it.
    """
    names = ["case", "arm"]
    reference_writes, current_writes = (
        effects.filter(pl.col("runs") > 0)
        .group_by(names, maintain_order=True)
        .agg(*_WRITE_COLUMNS)
        .with_columns(pl.col("writer_rate_alone_b_s").list.drop_nulls())
        for effects in (reference, current)
    )
    joined = current_writes.join(
        reference_writes, on=names, suffix="_reference", maintain_order="left"
    )
    texts = ((row, "; ".join(_differing_writes(row))) for row in joined.iter_rows(named=True))
    return [Mismatch(row["case"], row["arm"], text) for row, text in texts if text]


def _differing_writes(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values of both sides for each column of the writes that differs."""
    for name, (value_text, is_rate) in _WRITE_COLUMNS.items():
        reference_values, current_values = row[f"{name}_reference"], row[name]
        if is_rate:
            reference_rate = _typical_rate(reference_values)
            current_rate = _typical_rate(current_values)
            are_alike = _are_similar(reference_rate, current_rate)
            reference_values, current_values = [reference_rate], [current_rate]
        else:
            are_alike = len({*map(value_text, [*reference_values, *current_values])}) == 1
        if not are_alike:
            yield _values_of_sides(
                map(value_text, reference_values), map(value_text, current_values)
            )


def _values_of_sides(reference: Iterable[str], current: Iterable[str]) -> str:
    """Return the distinct values of each side as text, the reference first: `A, B -> C`."""
    return f"{', '.join(dict.fromkeys(reference))} -> {', '.join(dict.fromkeys(current))}"


def _typical_rate(rates: Sequence[float | None]) -> float | None:
    """Return the median rate; None without rates, or if the rate of any night is None.

    A requested rate of None means full rate.
    """
    known_rates = [rate for rate in rates if rate is not None]
    return median(known_rates) if rates and len(known_rates) == len(rates) else None


def _are_similar(rate: float | None, other_rate: float | None) -> bool:
    if rate is None or other_rate is None:
        return rate is other_rate
    return max(rate, other_rate) <= min(rate, other_rate) * (1 + RATE_TOLERANCE)


def _rate_text(rate_b_s: float | None) -> str:
    return quantity(rate_b_s, "B/s", 3)


def setting_mismatches(reference: Sequence[RunData], current: Sequence[RunData]) -> list[Mismatch]:
    """Return an entry for each case of both sides whose application has different settings."""
    has_settings = all(run.header.resolved is not None for run in (*reference, *current))
    campaign_settings = _settings_in_campaign if has_settings else _digest_of_campaign
    reference_settings, current_settings = (
        grouped(
            case_and_settings
            for run in runs
            for case_and_settings in _settings(run, campaign_settings).items()
        )
        for runs in (reference, current)
    )
    mismatches = []
    for case, settings in current_settings.items():
        differing = _differing_settings(reference_settings.get(case, []), settings)
        if case in reference_settings and (text := "; ".join(differing)):
            mismatches.append(Mismatch(case, None, text))
    return mismatches


def _differing_settings(
    reference: Sequence[Mapping[str, str]], current: Sequence[Mapping[str, str]]
) -> Iterator[str]:
    """Yield the values of both sides for each setting that differs, given one mapping per night."""
    names = dict.fromkeys(name for settings in (*reference, *current) for name in settings)
    for name in names:
        reference_values, current_values = (
            [settings.get(name, "default") for settings in nights]
            for nights in (reference, current)
        )
        if len({*reference_values, *current_values}) > 1:
            yield f"{name}: {_values_of_sides(reference_values, current_values)}"


def _settings(
    run: RunData, campaign_settings: Callable[[RunHeader, str], Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Return case -> the application's workload, the campaign's settings, and the first levels.

    The length of the runs is a setting, too, if the conductor lengthened runs of a case.
    """
    rows = run.samples.lazy().select("case", "workload", "arm", "factors").unique()
    lengths = _lengths(run.samples)
    settings_by_case = {}
    for case, workload, arm, factors in rows.cast(pl.String).collect().iter_rows():
        if arm == BASELINE:
            settings = {"workload": workload, **campaign_settings(run.header, case)}
            if factors != "{}":
                settings["levels"] = factors
            if case in lengths:
                settings["length"] = lengths[case]
            settings_by_case[case] = settings
    return settings_by_case


def _lengths(samples: pl.DataFrame) -> dict[str, str]:
    """Return case -> how its runs that count were lengthened, such as `steps times 4`.

    Cases without such runs are left out. So are figures that do not grow with the length: rates,
    and the time of a command, which is the mean of its repetitions.
    """
    runs = samples.lazy().filter(
        pl.col("status") == "counts",
        pl.col("fom_better").cast(pl.String) == "lower",
        pl.col("workload").cast(pl.String) != COMMAND_CHECK,
    )
    notes = runs.select("case", "notes").explode("notes", empty_as_null=False).cast(pl.String)
    length = pl.col("notes").str.extract(_LENGTHENED)
    lengths = notes.group_by("case").agg(length.drop_nulls().unique().sort().str.join(", "))
    return {case: text for case, text in lengths.collect().iter_rows() if text}


def _settings_in_campaign(header: RunHeader, case: str) -> dict[str, str]:
    """Return the variables of the check that the campaign sets in a case."""
    entries = [
        entry for entry in entries_of(header) or () if f"{case}@".startswith(f"{entry.name}@")
    ]
    if not entries:
        return {}
    # The name of the case `lammps@4@8` begins with the names of the entries `lammps` and
    # `lammps@4`. The longest name is that of the case's entry.
    longest = max(entries, key=lambda entry: len(entry.name))
    return {name: str(value) for name, value in longest.set.items()}


def _digest_of_campaign(header: RunHeader, _case: str) -> dict[str, str]:
    """Return a digest of the campaign's text, for runs that did not store its settings."""
    return {"campaign file": hashlib.sha256(header.campaign_text.encode()).hexdigest()[:12]}
