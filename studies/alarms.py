"""False alarms and nights until a loss is found, on made nights: the table of docs/evidence.md.

    python -m studies.alarms [HISTORIES]

Every row comes from HISTORIES (default 30) histories of two years of a machine with 18 series, with
fixed seeds. Losses of 1, 2 and 3 spreads are planted into all series of every third, on one night,
and found where a series reports them; series that have no baseline on that night are not counted.

Lorden (1971): with one false alarm in N nights, no method that knows the noise and the loss finds
it, at the worst, sooner than in ln(N) / I nights as N grows; I is the information of a night, the
Kullback-Leibler divergence of nights with the loss from those without. That of log-normal nights is
finite since their longer tail is worse: nights with a loss are possible without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.history.monitor import FEWEST_NIGHTS, Followed, advance
from analysis.history.tables import Series
from studies import head, row, show
from studies.noises import Draw, correlated, normal
from studies.noises import Draws as Values

#: Series of a machine, nights of a history, and night-to-night spread of the logarithms.
SERIES, NIGHTS, SPREAD = 18, 730, 0.01
#: Losses that are planted, spreads.
LOSSES = (1.0, 2.0, 3.0)
#: They are planted into one in so many histories.
_PLANTED = 3
#: A loss that is not found after so many nights counts as found then.
PATIENCE = 30
HISTORIES = 30
_START = date(2025, 1, 6)

# Noises: deviations of nights, (series, nights), larger is worse; what a night without a run has
# is NaN. Where nights run on two types of nodes, a spread is that of one type.


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


#: Nights stop for 30 of so many days.
_STOPS = 120


def _stopping(draw: Draw) -> Draw:
    def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
        stopped = np.arange(shape[1]) % _STOPS >= _STOPS - 30
        return np.where(stopped, np.nan, draw(rng, shape))

    return drawn


# Logarithms of densities, for the information of a night.

_SIGMA = 0.6
_MEAN = np.exp(_SIGMA**2 / 2)
_DEVIATION = _MEAN * np.sqrt(np.exp(_SIGMA**2) - 1)


def _log_density(values: Values, spread: float = 1.0) -> Values:
    return np.asarray(-((values / spread) ** 2) / 2 - np.log(spread * np.sqrt(2 * np.pi)))


def _log_density_of_log_normal(values: Values) -> Values:
    logs = np.log(np.maximum(values * _DEVIATION + _MEAN, 1e-300))
    return np.asarray(_log_density(logs, _SIGMA) - logs + np.log(_DEVIATION))


def _log_density_with_outliers(values: Values) -> Values:
    usual, outlier = np.log(0.98) + _log_density(values), np.log(0.02) + _log_density(values - 5)
    return np.asarray(np.logaddexp(usual, outlier))


@dataclass(frozen=True)
class NightNoise:
    """How the nights of a machine differ although nothing changes; sizes are in spreads."""

    name: str
    draw: Draw = normal
    #: Logarithm of the density of a night.
    log_density: Callable[[Values], Values] = _log_density
    #: Correlation of neighbouring nights.
    correlation: float = 0.0
    #: Probability that a night runs on the type of nodes of the night before, of two types that
    #: differ by `_BETWEEN`; None if there is one.
    stay: float | None = None
    #: On one of these nights losses begin.
    begin: range = range(200, 680)

    def information(self, loss: float) -> float:
        """That of a night, for a loss in spreads."""
        values = np.linspace(-10, 60, 700_001)
        with_loss, without = self.log_density(values - loss), self.log_density(values)
        found = np.exp(with_loss) * np.where(with_loss > -600, with_loss - without, 0.0)
        by_correlation = (1 - self.correlation) / (1 + self.correlation)
        return float(found.sum() * (values[1] - values[0])) * by_correlation


_BETWEEN = 3.0
#: The first nights after stops.
_AFTER = range(2 * _STOPS, 680, _STOPS)


def _log_density_of_weekends(values: Values) -> Values:
    """Such that its information is the mean over a week: normal, with the mean precision."""
    return _log_density(values, ((5 + 2 / 0.5**2) / 7) ** -0.5)


NOISES = (
    NightNoise("independent normal"),
    NightNoise("log-normal, 0.6", _log_normal, _log_density_of_log_normal),
    NightNoise("quieter weekends", _weekends, _log_density_of_weekends),
    NightNoise("a fifth missing", _gaps),
    NightNoise("two node types, random", stay=0.5),
    NightNoise("AR(1) 0.3", correlated(0.3), correlation=0.3),
    NightNoise("AR(1) 0.6", correlated(0.6), correlation=0.6),
    NightNoise("two node types, stay 0.9", stay=0.9),
    NightNoise("2 % outliers of 5 spreads", _outliers, _log_density_with_outliers),
    NightNoise("yearly sine of 0.5 to 2 spreads", _yearly),
    # The first night after a stop is the first with the loss.
    NightNoise("30 of 120 days missing", _stopping(normal), begin=_AFTER),
    NightNoise("30 of 120 days missing, yearly sine", _stopping(_yearly), begin=_AFTER),
)


def made_values(noise: NightNoise, rng: np.random.Generator) -> tuple[Values, NDArray[np.bool_]]:
    """A history in spreads, (series, nights), and whether a night ran on the slower nodes."""
    shape = (SERIES, NIGHTS)
    values, slower = noise.draw(rng, shape), np.zeros(shape, bool)
    if noise.stay is not None:
        slower = np.cumsum(rng.random(shape) > noise.stay, axis=1) % 2 == 1
    return values + _BETWEEN * slower, slower


@dataclass
class StudiedNoise:
    """What histories of one noise showed."""

    noise: NightNoise
    histories: int = 0
    false_alarms: int = 0
    #: Loss -> nights until it was found, of each series.
    nights: dict[float, list[int]] = field(default_factory=lambda: {loss: [] for loss in LOSSES})

    @property
    def rate(self) -> tuple[float, float, float]:
        """False alarms a machine and year with the 95 % interval of a Poisson count."""
        years = self.histories * (NIGHTS - FEWEST_NIGHTS) / 365
        low = special.gammaincinv(self.false_alarms, 0.025) if self.false_alarms else 0.0
        high = special.gammaincinv(self.false_alarms + 1, 0.975)
        return self.false_alarms / years, float(low) / years, float(high) / years


def look(seen: StudiedNoise, rng: np.random.Generator) -> None:
    """Add one history."""
    values, slower = made_values(seen.noise, rng)
    at = int(rng.choice(seen.noise.begin))
    first, begin = _START.toordinal(), _START.toordinal() + at
    followed = [Followed(each) for each in made_series(values, slower)]
    advance(followed, first, begin - 1)
    for loss in LOSSES if seen.histories % _PLANTED == 0 else ():
        changed = np.where(np.arange(NIGHTS) >= at, values + loss, values)
        seen.nights[loss] += _nights_to_find(followed, made_series(changed, slower), begin)
    advance(followed, begin, first + NIGHTS - 1)
    seen.histories += 1
    seen.false_alarms += sum(found.worse for each in followed for found in each.found)


def _nights_to_find(before: Sequence[Followed], series: Sequence[Series], day: int) -> list[int]:
    """Nights from the loss on `day` until each series that is watched then reports it."""
    watched = [
        replace(old, series=new, found=[], scores=list(old.scores))
        for old, new in zip(before, series, strict=True)
        if old.baseline
    ]
    advance(watched, day, day + 2 * PATIENCE)
    return [_measured(each, day) for each in watched]


def _measured(each: Followed, day: int) -> int:
    """Measured nights from `day` until a change for the worse is reported."""
    before = sum(night.toordinal() < day for night in each.series.nights)
    noticed = (found.noticed for found in each.found if found.worse)
    return min(next(noticed, before + PATIENCE - 1) - before + 1, PATIENCE)


def made_series(values: Values, slower: NDArray[np.bool_]) -> list[Series]:
    """The series of a machine."""
    both = zip(values, slower, strict=True)
    return [_one(f"case{number}", *each) for number, each in enumerate(both)]


def _one(case: str, values: Values, slower: NDArray[np.bool_]) -> Series:
    measured = np.flatnonzero(~np.isnan(values))
    return Series(
        machine="made",
        campaign="nightly",
        case=case,
        arm="on",
        quantity="fom",
        unit="1",
        better="lower",
        nights=[_START + timedelta(int(night)) for night in measured],
        worse=SPREAD * values[measured],
        runs=[f"run{night}" for night in measured],
        nodes=[["n2"] if slower[night] else ["n1"] for night in measured],
    )


def table(histories: int) -> Iterator[str]:
    """The lines of the table, as Markdown: what so many histories of each noise show."""
    names = [f"nights to find {loss:g}" for loss in LOSSES]
    yield from head(["nights", "false alarms a machine and year", *names, "Lorden's bound for 2"])
    for number, noise in enumerate(NOISES):
        seen = StudiedNoise(noise)
        for history in range(histories):
            look(seen, np.random.default_rng([number, history]))
        rate, low, high = seen.rate
        bound = np.log(SERIES * 365) / noise.information(2.0)
        means = [f"{np.mean(each):.1f}" for each in seen.nights.values()]
        rates = f"{rate:.2f} ({low:.2f} to {high:.2f})"
        yield row([noise.name, rates, *means, f"{bound:.1f}"])


if __name__ == "__main__":
    show(table, HISTORIES)
