"""Made nights: histories with known noise and known changes, for the study and tests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from analysis.history.series import Series

Values = NDArray[np.float64]

#: Series of a machine: 12 workloads with 3 quantities each; nights of a history.
WORKLOADS = 12
QUANTITIES = ("fom", "slowdown", "writer_rate")
NIGHTS = 365
#: Night-to-night spread of the logarithms.
SPREAD = 0.01
_START = date(2025, 1, 1)


@dataclass(frozen=True)
class Noise:
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
    Noise("independent"),
    Noise("gaps", gaps=0.15),
    Noise("outliers", outliers=0.01),
    Noise("drift", drift=1.0),
    Noise("autocorrelated", correlation=0.2),
)


def made_values(noise: Noise, rng: np.random.Generator) -> Values:
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


def made_series(values: Values) -> list[Series]:
    """The series of a machine from values in spreads."""
    names = [(f"workload{w}", quantity) for w in range(WORKLOADS) for quantity in QUANTITIES]
    return [
        _series(case, quantity, each) for (case, quantity), each in zip(names, values, strict=True)
    ]


def _series(case: str, quantity: str, values: Values) -> Series:
    measured = np.flatnonzero(~np.isnan(values)).tolist()
    return Series(
        machine="made",
        campaign="nightly",
        case=case,
        arm="on",
        quantity=quantity,
        unit="1",
        better="lower",
        nights=[_START + timedelta(night) for night in measured],
        worse=SPREAD * values[measured],
        runs=[[f"run{night}"] for night in measured],
        nodes=[["n1"] for _ in measured],
    )
