"""Made nights: histories without a change, with known noise. Needs NumPy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
