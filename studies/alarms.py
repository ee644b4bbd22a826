"""False alarms and nights until a shift is found, on made nights: the tables of docs/evidence.md.

    python -m studies.alarms [HISTORIES]

Every figure comes from HISTORIES (default 200) histories of a year, in turn of each machine of
`made.MACHINES`, with fixed seeds. A shift is planted into all series on one night, and found where
a series reports it; series that have no baseline on that night are not counted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.history.monitor import WITHIN_NIGHTS, Followed, advance
from analysis.history.series import Series
from studies import head, row

# Made nights: histories without a change, with known noise. Needs NumPy only.


Values = NDArray[np.float64]

#: Series of a machine: 12 workloads with 3 quantities each; nights of a history.
WORKLOADS = 12
QUANTITIES = ("fom", "slowdown", "writer_rate")
NIGHTS = 365
#: Night-to-night spread of the logarithms.
SPREAD = 0.01
#: Shifts that are planted, spreads; and the night from which on false alarms are counted.
SHIFTS = (2.0, 3.0)
FIRST_WATCHED = 30


@dataclass(frozen=True)
class NightNoise:
    """How the nights of a machine differ although nothing changes; sizes are in spreads."""

    name: str
    #: Correlation of neighbouring nights.
    correlation: float = 0.0
    #: Drift over a year, towards the worse.
    drift: float = 0.0
    #: Share of nights that are worse by an exponential number of spreads, and its mean.
    outliers: float = 0.0
    outlier_size: float = 5.0
    #: Share of nights that were not run.
    gaps: float = 0.0


#: The five machines of the study.
MACHINES = (
    NightNoise("independent"),
    NightNoise("gaps", gaps=0.15),
    NightNoise("outliers", outliers=0.01),
    NightNoise("drift", drift=0.5),
    NightNoise("autocorrelated", correlation=0.2),
)


def made_values(noise: NightNoise, rng: np.random.Generator) -> Values:
    """A history of one machine in spreads, (series, nights); larger is worse, gaps are NaN."""
    count = WORKLOADS * len(QUANTITIES)
    steps = rng.standard_normal((count, NIGHTS))
    values = np.empty_like(steps)
    values[:, 0] = steps[:, 0]
    share = np.sqrt(1 - noise.correlation**2)
    for night in range(1, NIGHTS):
        values[:, night] = noise.correlation * values[:, night - 1] + share * steps[:, night]
    values += np.linspace(0, noise.drift, NIGHTS)
    hit = rng.random(values.shape) < noise.outliers
    values += np.where(hit, rng.exponential(noise.outlier_size, values.shape), 0.0)
    values[:, rng.random(NIGHTS) < noise.gaps] = np.nan
    return values


def shifted_night(history: int, row: int) -> int:
    """The night on which a shift is planted into a series."""
    return 215 + (7 * history + 3 * row) % 100


HISTORIES = 200
_START = date(2025, 1, 6)
#: A shift that is not found after so many nights counts as found then.
_PATIENCE = 30


@dataclass
class StudiedMachine:
    """What histories of one machine showed."""

    noise: NightNoise
    histories: int = 0
    false_alarms: int = 0
    #: Shift -> nights until it was found, of each series.
    nights: dict[float, list[int]] = field(default_factory=lambda: {shift: [] for shift in SHIFTS})

    @property
    def rate(self) -> tuple[float, float, float]:
        """False alarms a year with the 95 % interval of a Poisson count (Garwood 1936)."""
        years = self.histories * (NIGHTS - FIRST_WATCHED) / NIGHTS
        low = special.gammaincinv(self.false_alarms, 0.025) if self.false_alarms else 0.0
        high = special.gammaincinv(self.false_alarms + 1, 0.975)
        return self.false_alarms / years, float(low) / years, float(high) / years


def look(seen: StudiedMachine, values: Values, history: int) -> None:
    """Add one history, (series, nights) in spreads."""
    at = shifted_night(history, 0)
    first, shifted = _START.toordinal(), _START.toordinal() + at
    followed = [Followed(each) for each in _series(values)]
    advance(followed, first, shifted - 1)
    for shift in SHIFTS:
        changed = np.where(np.arange(values.shape[1]) >= at, values + shift, values)
        seen.nights[shift] += _nights_to_find(followed, _series(changed), shifted)
    advance(followed, shifted, first + NIGHTS - 1)
    seen.histories += 1
    seen.false_alarms += sum(found.worse for each in followed for found in each.found)


def _nights_to_find(before: Sequence[Followed], series: Sequence[Series], day: int) -> list[int]:
    """Nights from the shift on `day` until each series that is watched then reports it."""
    watched = [
        replace(old, series=new, found=[])
        for old, new in zip(before, series, strict=True)
        if old.baseline
    ]
    advance(watched, day, day + _PATIENCE)
    return [_measured(each, day) for each in watched]


def _measured(each: Followed, day: int) -> int:
    """Measured nights from `day` until a change for the worse is reported."""
    before = sum(night.toordinal() < day for night in each.series.nights)
    noticed = (found.noticed for found in each.found if found.worse)
    return min(next(noticed, before + _PATIENCE - 1) - before + 1, _PATIENCE)


def _series(values: Values) -> list[Series]:
    names = [(f"workload{number}", name) for number in range(WORKLOADS) for name in QUANTITIES]
    return [_one(case, name, each) for (case, name), each in zip(names, values, strict=True)]


def _one(case: str, quantity: str, values: Values) -> Series:
    measured = np.flatnonzero(~np.isnan(values))
    return Series(
        machine="made",
        campaign="nightly",
        case=case,
        arm="on",
        quantity=quantity,
        unit="1",
        better="lower",
        nights=[_START + timedelta(int(night)) for night in measured],
        worse=SPREAD * values[measured],
        runs=[f"run{night}" for night in measured],
        nodes=[["n1"] for _ in measured],
    )


def study(histories: int) -> list[StudiedMachine]:
    """What so many histories show, in turn of each machine."""
    found = [StudiedMachine(noise) for noise in MACHINES]
    for number in range(histories):
        machine, history = number % len(MACHINES), number // len(MACHINES)
        values = made_values(MACHINES[machine], np.random.default_rng([machine, history]))
        look(found[machine], values, history)
    return found


def table(found: Sequence[StudiedMachine]) -> Iterator[str]:
    """The lines of the table, as Markdown."""
    names = [f"nights to find {shift:g} spreads (within {WITHIN_NIGHTS})" for shift in SHIFTS]
    yield from head(["nights", "histories", "false alarms a machine and year", *names])[1:]
    for seen in found:
        rate, low, high = seen.rate
        nights = [_mean(each) for each in seen.nights.values()]
        rates = f"{rate:.2f} ({low:.2f}-{high:.2f})"
        yield row([seen.noise.name, str(seen.histories), rates, *nights])


def _mean(nights: Sequence[int]) -> str:
    soon = np.mean(np.array(nights) <= WITHIN_NIGHTS)
    return f"{np.mean(nights):.2f} ({soon:.0%})"


if __name__ == "__main__":
    for line in table(study(int(sys.argv[1]) if len(sys.argv) > 1 else HISTORIES)):
        print(line, flush=True)
