"""False alarms and nights until a loss is found, on made nights: the table of docs/evidence.md.

    python -m tests.studies.alarms [HISTORIES]

Every row comes from HISTORIES (default 12) histories of two years of a machine with 18 series, with
fixed seeds. Losses of 2 and 3 spreads are planted, on one night of each, into one series, a third
of them, or all, and found by an alarm of one of these series or of the machine. A loss of the whole
machine beside a weekly pattern is planted into 20 times as many shorter histories.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.history.alarms import MIN_NIGHTS_BEFORE, AlarmWatch
from tests.studies import FRESH, head, row, show
from tests.studies.noises import Draw, correlated, normal
from tests.studies.noises import Draws as Values

#: Series of a machine, and nights of a history.
SERIES, NIGHTS = 18, 730
#: What is planted: loss in spreads, and one in so many series has it.
PLANTED = ((2.0, SERIES), (3.0, SERIES), (2.0, 3), (2.0, 1), (3.0, 1))
#: Histories with a weekly pattern for one of the table, and the loss of all series in them.
_WEEKLY, _LOSS = 20, 2.0
#: A loss that is not found after so many nights counts as found then.
PATIENCE = 30
HISTORIES = 12

# Noises: deviations of nights, (series, nights). A larger one is worse; NaN: a night without a run.

_SIGMA = 0.6
_MEAN = np.exp(_SIGMA**2 / 2)
_DEVIATION = _MEAN * np.sqrt(np.exp(_SIGMA**2) - 1)
#: Distance of two types of nodes, spreads.
_BETWEEN = 3.0
#: Nights stop for 30 of so many days.
_STOPS = 120


def _days(shape: tuple[int, ...]) -> Values:
    return np.arange(float(shape[1]))


def _where(is_so: NDArray[np.bool_], factor: float) -> Values:
    """Return the factor if the condition holds, else 1."""
    return np.where(is_so, factor, 1.0)


def _log_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    return np.asarray((np.exp(_SIGMA * normal(rng, shape)) - _MEAN) / _DEVIATION)


def _yearly(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    size, phase = rng.uniform(0.5, 2, (shape[0], 1)), rng.uniform(0, 2 * np.pi, (shape[0], 1))
    return normal(rng, shape) + size * np.sin(2 * np.pi * np.arange(shape[1]) / 365.25 + phase)


def _node_types(stay: float) -> Draw:
    """A night runs on the type of nodes of the night before with the probability `stay`."""

    def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
        slower = np.cumsum(rng.random(shape) > stay, axis=1) % 2
        return normal(rng, shape) + _BETWEEN * slower

    return drawn


def _in_common(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    """60 % of the variance is the same in all series, and correlates from night to night by 0.8."""
    common = correlated(0.8)(rng, (1, shape[1]))
    return np.asarray(np.sqrt(0.6) * common + np.sqrt(0.4) * normal(rng, shape))


def _weekly(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    """On two days a week all series are worse by two spreads."""
    return normal(rng, shape) + 2.0 * (_days(shape) % 7 > 4)


#: Name of a noise -> its deviations, in spreads (of one type of nodes).
NOISES: dict[str, Draw] = {
    "independent normal": normal,
    "log-normal, 0.6": _log_normal,
    "quieter weekends": lambda rng, shape: normal(rng, shape) * _where(_days(shape) % 7 > 4, 0.5),
    "a fifth missing": lambda rng, shape: np.where(
        rng.random(shape[1]) < 0.2, np.nan, normal(rng, shape)
    ),
    "30 of 120 days missing": lambda rng, shape: np.where(
        _days(shape) % _STOPS >= _STOPS - 30, np.nan, normal(rng, shape)
    ),
    "2 % outliers of 5 spreads": lambda rng, shape: (
        normal(rng, shape) + 5.0 * (rng.random(shape) < 0.02)
    ),
    "AR(1) 0.3": correlated(0.3),
    "AR(1) 0.6": correlated(0.6),
    "yearly sine of 0.5 to 2 spreads": _yearly,
    "whole machine correlated": _in_common,
    "whole machine, weekly": _weekly,
    "spread doubles once": lambda rng, shape: normal(rng, shape) * _where(_days(shape) >= 365, 2.0),
    "random walk of 0.05 a night": lambda rng, shape: (
        normal(rng, shape) + np.cumsum(0.05 * normal(rng, shape), axis=1)
    ),
    "two node types, random": _node_types(0.5),
    "two node types, stay 0.9": _node_types(0.9),
}


class History:
    """Nights that are watched until one night; those after it may differ."""

    def __init__(self, values: Values, night: int) -> None:
        has_run = np.asarray(np.isfinite(values).any(1))
        self.first = int(has_run[:night].sum())
        self._values = values[has_run]
        self._watch = AlarmWatch(self._values, np.flatnonzero(has_run).tolist())
        self._look(self._watch, range(MIN_NIGHTS_BEFORE, self.first))

    @staticmethod
    def _look(watch: AlarmWatch, nights: Iterable[int]) -> None:
        for night in nights:
            watch.judge(night)

    def false_alarms(self) -> int:
        """Alarms if nothing is lost."""
        watch = deepcopy(self._watch)
        self._look(watch, range(self.first, len(self._values)))
        return sum(change.worse for change in watch.changes)

    def nights_to_find(self, loss: float, one_in: int) -> int:
        """Measured nights from a loss on that night until it is found."""
        values = self._values.copy()
        values[self.first :, ::one_in] += loss
        watch = deepcopy(self._watch)
        for series, nights in zip(watch.series, values.T, strict=True):
            series.log_values = nights
        having = {None, *range(0, SERIES, one_in)}
        for night in range(self.first, min(self.first + PATIENCE, len(values))):
            known = len(watch.changes)
            self._look(watch, [night])
            if any(change.worse and change.column in having for change in watch.changes[known:]):
                return night + 1 - self.first
        return PATIENCE


def rate(false_alarms: int, histories: int) -> tuple[float, float, float]:
    """False alarms a machine and year with the 95 % interval of a Poisson count."""
    years = histories * (NIGHTS - MIN_NIGHTS_BEFORE) / 365
    low = special.gammaincinv(false_alarms, 0.025) if false_alarms else 0.0
    high = special.gammaincinv(false_alarms + 1, 0.975)
    return false_alarms / years, float(low) / years, float(high) / years


def cells(draw: Draw, number: int, histories: int) -> Iterator[str]:
    """What so many histories of a noise show: false alarms, and nights until losses were found."""
    false_alarms = 0
    nights: dict[tuple[float, int], list[int]] = {planted: [] for planted in PLANTED}
    for seed in range(histories):
        rng = np.random.default_rng([FRESH, number, seed])
        values = draw(rng, (SERIES, NIGHTS)).T
        history = History(values, int(rng.integers(200, 680)))
        false_alarms += history.false_alarms()
        for planted, until in nights.items():
            until.append(history.nights_to_find(*planted))
    yield "{:.2f} ({:.2f} to {:.2f})".format(*rate(false_alarms, histories))
    for until in nights.values():
        yield f"{np.median(until):.0f}"


def beside_weekly(histories: int) -> list[int]:
    """Nights until a loss of the whole machine is found beside a weekly pattern."""
    until = []
    for seed in range(histories):
        rng = np.random.default_rng([FRESH, seed])
        night = int(rng.integers(120, 220))
        values = _weekly(rng, (SERIES, night + PATIENCE)).T
        until.append(History(values, night).nights_to_find(_LOSS, 1))
    return until


def table(histories: int) -> Iterator[str]:
    """The lines of the tables, as Markdown."""
    yield from head(["whole machine, weekly", "within 6 nights", "within 15", "within 30"])
    until = beside_weekly(_WEEKLY * histories)
    shares = [sum(nights <= most for nights in until) / len(until) for most in (6, 15, 29)]
    yield row([f"{_LOSS:g} in all, {len(until)}", *(f"{share:.3f}" for share in shares)])
    names = [f"{loss:g} in {SERIES // one_in} of {SERIES}" for loss, one_in in PLANTED]
    yield from head(["nights", "false alarms a machine and year", *names])
    for number, (name, draw) in enumerate(NOISES.items()):
        yield row([name, *cells(draw, number, histories)])


if __name__ == "__main__":
    show(table, HISTORIES)
