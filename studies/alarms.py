"""False alarms and nights until a loss is found, on made nights: the table of docs/evidence.md.

    python -m studies.alarms [HISTORIES]

Every row comes from HISTORIES (default 30) histories of two years of a machine with 18 series, with
fixed seeds. Losses of 2 and 3 spreads are planted, on one night of every third, into one series, a
third of them, or all, and found by an alarm of one of these series or of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from analysis.history.alarms import FEWEST, Watch
from studies import FRESH, head, row, show
from studies.noises import Draw, correlated, normal
from studies.noises import Draws as Values

#: Series of a machine, and nights of a history.
SERIES, NIGHTS = 18, 730
#: What is planted: loss in spreads, and one in so many series has it.
PLANTED = ((2.0, SERIES), (3.0, SERIES), (2.0, 3), (2.0, 1), (3.0, 1))
#: They are planted into one in so many histories.
_EVERY = 3
#: A loss that is not found after so many nights counts as found then.
PATIENCE = 30
HISTORIES = 30

# Noises: deviations of nights, (series, nights), larger is worse; what a night without a run has
# is NaN.

_SIGMA = 0.6
_MEAN = np.exp(_SIGMA**2 / 2)
_DEVIATION = _MEAN * np.sqrt(np.exp(_SIGMA**2) - 1)
#: Distance of two types of nodes, spreads.
_BETWEEN = 3.0
#: Nights stop for 30 of so many days.
_STOPS = 120


def _log_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    return np.asarray((np.exp(_SIGMA * normal(rng, shape)) - _MEAN) / _DEVIATION)


def _weekends(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    weekend = np.arange(shape[1]) % 7 > 4
    return normal(rng, shape) * np.where(weekend, 0.5, 1.0)


def _gaps(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    return np.where(rng.random(shape[1]) < 0.2, np.nan, normal(rng, shape))


def _outliers(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    return normal(rng, shape) + np.where(rng.random(shape) < 0.02, 5.0, 0.0)


def _yearly(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    size, phase = rng.uniform(0.5, 2, (shape[0], 1)), rng.uniform(0, 2 * np.pi, (shape[0], 1))
    return normal(rng, shape) + size * np.sin(2 * np.pi * np.arange(shape[1]) / 365.25 + phase)


def _node_types(stay: float) -> Draw:
    """A night runs on the type of nodes of the night before with the probability `stay`."""

    def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
        slower = np.cumsum(rng.random(shape) > stay, axis=1) % 2
        return normal(rng, shape) + _BETWEEN * slower

    return drawn


def _stopping(draw: Draw) -> Draw:
    def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
        stopped = np.arange(shape[1]) % _STOPS >= _STOPS - 30
        return np.where(stopped, np.nan, draw(rng, shape))

    return drawn


def _in_common(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    """60 % of the variance is the same in all series, and correlates from night to night by 0.8."""
    common = correlated(0.8)(rng, (1, shape[1]))
    return np.asarray(np.sqrt(0.6) * common + np.sqrt(0.4) * normal(rng, shape))


def _doubling(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    """The spread doubles after a year, and stays so."""
    return normal(rng, shape) * np.where(np.arange(shape[1]) < 365, 1.0, 2.0)


def _walk(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    return normal(rng, shape) + np.cumsum(0.05 * normal(rng, shape), axis=1)


#: Name of a noise -> its deviations, in spreads (of one type of nodes).
NOISES: dict[str, Draw] = {
    "independent normal": normal,
    "log-normal, 0.6": _log_normal,
    "quieter weekends": _weekends,
    "a fifth missing": _gaps,
    "30 of 120 days missing": _stopping(normal),
    "2 % outliers of 5 spreads": _outliers,
    "AR(1) 0.3": correlated(0.3),
    "AR(1) 0.6": correlated(0.6),
    "yearly sine of 0.5 to 2 spreads": _yearly,
    "whole machine correlated": _in_common,
    "spread doubles once": _doubling,
    "random walk of 0.05 a night": _walk,
    "two node types, random": _node_types(0.5),
    "two node types, stay 0.9": _node_types(0.9),
}


@dataclass
class StudiedNoise:
    """What histories of one noise showed."""

    draw: Draw
    histories: int = 0
    false_alarms: int = 0
    #: What is planted -> nights until it was found.
    nights: dict[tuple[float, int], list[int]] = field(
        default_factory=lambda: {planted: [] for planted in PLANTED}
    )

    @property
    def rate(self) -> tuple[float, float, float]:
        """False alarms a machine and year with the 95 % interval of a Poisson count."""
        years = self.histories * (NIGHTS - FEWEST) / 365
        low = special.gammaincinv(self.false_alarms, 0.025) if self.false_alarms else 0.0
        high = special.gammaincinv(self.false_alarms + 1, 0.975)
        return self.false_alarms / years, float(low) / years, float(high) / years


def look(noise: StudiedNoise, rng: np.random.Generator) -> None:
    """Add one history."""
    values = noise.draw(rng, (SERIES, NIGHTS)).T
    at = int(rng.integers(200, 680))
    for planted in PLANTED if noise.histories % _EVERY == 0 else ():
        noise.nights[planted].append(_nights_to_find(values, at, *planted))
    noise.histories += 1
    noise.false_alarms += sum(change.worse for change in Watch(measured(values)).all())


def measured(values: Values) -> Values:
    """Only the nights that have a run."""
    return values[np.isfinite(values).any(1)]


def _nights_to_find(values: Values, at: int, loss: float, one_in: int) -> int:
    """Measured nights from a loss on night `at` until it is found."""
    changed = values[: at + 3 * PATIENCE].copy()
    changed[at:, ::one_in] += loss
    first = len(measured(values[:at]))
    having = {None, *range(0, SERIES, one_in)}
    noticed = (
        change.noticed + 1 - first
        for change in Watch(measured(changed)).all()
        if change.worse and change.noticed >= first and change.series in having
    )
    return min(next(noticed, PATIENCE), PATIENCE)


def table(histories: int) -> Iterator[str]:
    """The lines of the table, as Markdown: what so many histories of each noise show."""
    names = [f"{loss:g} in {SERIES // one_in} of {SERIES}" for loss, one_in in PLANTED]
    yield from head(["nights", "false alarms a machine and year", *names])
    for number, (name, draw) in enumerate(NOISES.items()):
        noise = StudiedNoise(draw)
        for history in range(histories):
            look(noise, np.random.default_rng([FRESH, number, history]))
        rate, low, high = noise.rate
        medians = [f"{np.median(nights):.0f}" for nights in noise.nights.values()]
        yield row([name, f"{rate:.2f} ({low:.2f} to {high:.2f})", *medians])


if __name__ == "__main__":
    show(table, HISTORIES)
