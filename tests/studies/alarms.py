"""Simulates alarms of nightly measurements: the table of docs/evidence.md.

It has the rate of false alarms, and the nights until a loss is found.

    python -m tests.studies.alarms [HISTORIES]

Every row comes from HISTORIES (default 12) histories with fixed seeds. A history has two years of
nights of a machine with 18 series. From one night of each history on, losses of 2 and 3 spreads
are planted, into one series, a third of the series, or all. A loss is found by an alarm of one of
these series or of the whole machine. A loss of the whole machine beside a weekly pattern is planted
into 20 times as many shorter histories.
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

#: Number of series of a machine, and of nights of a history.
SERIES, NIGHTS = 18, 730
#: Planted losses: size in spreads, and 1 / the share of series that have it (18: one of 18 series).
PLANTED = ((2.0, SERIES), (3.0, SERIES), (2.0, 3), (2.0, 1), (3.0, 1))
#: Number of histories with a weekly pattern for each history of the table, and the loss that is
#: planted into all of their series, spreads.
_WEEKLY, _LOSS = 20, 2.0
#: A loss that is not found within this many nights counts as found after them.
PATIENCE = 30
HISTORIES = 12

# Noises: deviations of nights from the usual value, with the shape (series, nights). A larger value
# is worse. NaN stands for a night without a run.

_SIGMA = 0.6
_MEAN = np.exp(_SIGMA**2 / 2)
_DEVIATION = _MEAN * np.sqrt(np.exp(_SIGMA**2) - 1)
#: Difference between two types of nodes, spreads.
_BETWEEN = 3.0
#: There are no runs on the last 30 days of each period of this many days.
_STOPS = 120


def _days(shape: tuple[int, ...]) -> Values:
    return np.arange(float(shape[1]))


def _where(condition: NDArray[np.bool_], factor: float) -> Values:
    """Return the factor if the condition holds, else 1."""
    return np.where(condition, factor, 1.0)


def _log_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    return np.asarray((np.exp(_SIGMA * normal(rng, shape)) - _MEAN) / _DEVIATION)


def _yearly(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    size, phase = rng.uniform(0.5, 2, (shape[0], 1)), rng.uniform(0, 2 * np.pi, (shape[0], 1))
    return normal(rng, shape) + size * np.sin(2 * np.pi * np.arange(shape[1]) / 365.25 + phase)


def _node_types(stay: float) -> Draw:
    """Return noise of nights on one of two types of nodes.

    With the probability `stay`, a night runs on the same type as the night before.
    """

    def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
        slower = np.cumsum(rng.random(shape) > stay, axis=1) % 2
        return normal(rng, shape) + _BETWEEN * slower

    return drawn


def _in_common(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    """Return noise of which 60 % of the variance is the same in all series.

    This part has a correlation of 0.8 between neighbouring nights.
    """
    common = correlated(0.8)(rng, (1, shape[1]))
    return np.asarray(np.sqrt(0.6) * common + np.sqrt(0.4) * normal(rng, shape))


def _weekly(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    """Return noise that is worse by two spreads in all series on two days a week."""
    return normal(rng, shape) + 2.0 * (_days(shape) % 7 > 4)


#: Name of a noise -> function that draws it, in spreads (with two types of nodes: in spreads of one
#: type).
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
    """Nights of one machine, watched for alarms until one night.

    The nights after it can be judged with and without a loss.
    """

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
        """Return the number of alarms about a loss if there is no loss."""
        watch = deepcopy(self._watch)
        self._look(watch, range(self.first, len(self._values)))
        return sum(change.worse for change in watch.changes)

    def nights_to_find(self, loss: float, one_in: int) -> int:
        """Return how many measured nights it takes to find a loss.

        Every `one_in`-th series has the loss, from the first night that was not watched before.
        """
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
    """Return false alarms for each machine and year, with the 95 % interval of a Poisson count."""
    years = histories * (NIGHTS - MIN_NIGHTS_BEFORE) / 365
    low = special.gammaincinv(false_alarms, 0.025) if false_alarms else 0.0
    high = special.gammaincinv(false_alarms + 1, 0.975)
    return false_alarms / years, float(low) / years, float(high) / years


def cells(draw: Draw, number: int, histories: int) -> Iterator[str]:
    """Yield the cells of a noise: rate of false alarms, then for each loss the median of nights."""
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
    """Return for each history the nights until a loss is found beside a weekly pattern.

    All series have the loss.
    """
    until = []
    for seed in range(histories):
        rng = np.random.default_rng([FRESH, seed])
        night = int(rng.integers(120, 220))
        values = _weekly(rng, (SERIES, night + PATIENCE)).T
        until.append(History(values, night).nights_to_find(_LOSS, 1))
    return until


def table(histories: int) -> Iterator[str]:
    """Yield the lines of the tables, as Markdown."""
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
