"""Simulates methods to compare nights: which changes they find, and how often they are wrong.

docs/evidence.md has the results.

    python -m tests.studies.night_methods [COMPARISONS]

A comparison has seven nights on each side (before and after a change), and a history of the same
machine. There are seven cases or one. Each case has three quantities that vary by 1 % from night to
night, as in `tests.studies.nights`. Each method computes p values of the same comparisons, and the
same rule over all quantities judges them. Each figure comes from COMPARISONS (default 2000)
comparisons with fixed seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from scipy import special

from analysis.history.between_nights import (
    CORRELATIONS,
    count_independent_rows,
    decorrelation_matrix,
    variance_of_mean,
)
from tests.studies import FRESH, head, row, show
from tests.studies.nights import (
    CASES,
    CHANGE,
    NightNoise,
    at_most,
    made_logs,
    p_values,
    shown,
)
from tests.studies.noises import Draws, correlated

COMPARISONS = 2000
NIGHTS = 7
HISTORIES = (30, 60, 100, 200)
#: Correlations of neighbouring nights for which wrongly named changes are counted.
RS = (0.0, 0.3, 0.6, 0.8)
#: A correlation that nights hardly have. Its figure is in a separate column.
EXTREME = 0.9
#: The correlation for which found changes are counted.
WANTED = 0.6
#: In one column, the nights scatter by this factor more widely than the history.
WIDER = 1.5
#: Level of the test whether nights scatter more widely than the history.
_WIDER_LEVEL = 0.1


@dataclass(frozen=True)
class Sides:
    """Comparisons of nights: logarithms with the axes (comparison, quantity, night).

    `past` is the machine's history.
    """

    old: Draws
    new: Draws
    past: Draws
    #: The true correlation of neighbouring nights. Only the methods 'correlation known' use it.
    r: float

    @property
    def change(self) -> Draws:
        """Return the absolute difference of the mean logarithms of both sides."""
        return np.asarray(np.abs(self.new.mean(-1) - self.old.mean(-1)))

    @property
    def freedom(self) -> tuple[int, int]:
        """Return the degrees of freedom of the nights (both sides) and of the history."""
        return self.old.shape[-1] + self.new.shape[-1] - 2, self.past.shape[-1] - 1

    @cached_property
    def squares(self) -> dict[float, tuple[Draws, Draws]]:
        """Return correlation of neighbours -> sums of squares of the nights and of the history."""
        return {
            r: (_squares(self.old, r) + _squares(self.new, r), _squares(self.past, r))
            for r in CORRELATIONS
        }

    def student(self, r: float, *, with_history: bool) -> Draws:
        """Return p values of Student's t test for nights whose neighbours correlate by `r`."""
        nights, history = self.squares[r]
        freedom, more = self.freedom
        if with_history:
            nights, freedom = nights + history, freedom + more
        scale = sum(variance_of_mean(side.shape[-1], r) for side in (self.old, self.new))
        t = self.change / np.sqrt(nights / freedom * scale)
        return np.asarray(2 * special.stdtr(float(freedom), -t))

    @cached_property
    def chances(self) -> Draws:
        """Return the posterior probability of each correlation: (correlation, comparison, 1).

        All correlations have the same prior probability. The likelihood is that of the nights and
        the history without their means. Quantities that are correlated count as fewer.
        """
        logs = np.stack([self._log_likelihood(r) for r in CORRELATIONS])
        likelihoods = np.exp(logs - logs.max(0))
        return np.asarray((likelihoods / likelihoods.sum(0))[..., None])

    @cached_property
    def _shares(self) -> tuple[Draws, Draws]:
        return _independent_share([self.old, self.new]), _independent_share([self.past])

    def _log_likelihood(self, r: float) -> Draws:
        volumes = (
            _log_volume(self.old.shape[-1], r) + _log_volume(self.new.shape[-1], r),
            _log_volume(self.past.shape[-1], r),
        )
        parts = zip(self._shares, volumes, self.freedom, self.squares[r], strict=True)
        logs = [
            share * (volume + freedom * np.log(squares)).sum(-1)
            for share, volume, freedom, squares in parts
        ]
        return np.asarray(-sum(logs) / 2)

    def averaged(self, *, with_history: bool) -> Draws:
        """Return p values that are averaged over correlations, with `chances` as weights."""
        p = np.stack([self.student(r, with_history=with_history) for r in CORRELATIONS])
        return np.asarray((self.chances * p).sum(0))


def _squares(nights: Draws, r: float) -> Draws:
    return np.asarray(((nights @ decorrelation_matrix(nights.shape[-1], r).T) ** 2).sum(-1))


def _log_volume(nights: int, r: float) -> float:
    """Return the logarithm of the determinants in the likelihood of a side without its mean."""
    precision = (1 - r**2 + (nights - 1) * (1 - r) ** 2) / (1 - r**2)
    return float((nights - 1) * np.log1p(-(r**2)) + np.log(precision))


def _independent_share(sides: list[Draws]) -> Draws:
    """Return the number of independent rows (quantities) of each comparison, as a share of all."""
    centred = np.concatenate([side - side.mean(-1, keepdims=True) for side in sides], axis=-1)
    lengths = centred / np.linalg.norm(centred, axis=-1, keepdims=True)
    freedom = centred.shape[-1] - len(sides)
    return np.array([count_independent_rows(rows, freedom) / len(rows) for rows in lengths])


def as_compared(sides: Sides) -> Draws:
    """Return the p values that `nimc compare` computes."""
    return p_values(sides.old, sides.new, at_most(sides.old, sides.new, sides.past))


def unless_wider(sides: Sides) -> Draws:
    """Return p values that use the history's spread too.

    The history's spread is left out for a quantity whose nights are shown to scatter more widely.
    """
    (freedom, more), likeliest = sides.freedom, sides.chances.argmax(0)
    ratios = np.stack([nights / history for nights, history in sides.squares.values()])
    ratio = np.take_along_axis(ratios, likeliest[None], 0)[0] * more / freedom
    wider = special.fdtrc(freedom, more, ratio) <= _WIDER_LEVEL
    alone, pooled = (sides.averaged(with_history=pooled) for pooled in (False, True))
    return np.where(wider, alone, pooled)


def from_windows(sides: Sides) -> Draws:
    """Return p values by the spread of changes between all neighbouring windows of the history.

    Windows are as long as the two sides. The degrees of freedom are those of independent nights.
    """
    m, n, past = (side.shape[-1] for side in (sides.old, sides.new, sides.past))
    weights = np.zeros((past - m - n + 1, past))
    for first, window in enumerate(weights):
        window[first : first + m] = -1 / m
        window[first + m : first + m + n] = 1 / n
    form = weights.T @ weights
    freedom = float(np.trace(form) ** 2 / np.trace(form @ form))
    variance = ((sides.past @ weights.T) ** 2).mean(-1)
    return np.asarray(2 * special.stdtr(freedom, -sides.change / np.sqrt(variance)))


#: Name of a method -> function that computes its p values.
METHODS: dict[str, Callable[[Sides], Draws]] = {
    "`nimc compare`": as_compared,
    "correlation by likelihood": lambda sides: sides.averaged(with_history=False),
    "by likelihood, spread of the history too": lambda sides: sides.averaged(with_history=True),
    "the same, unless that is shown to be smaller": unless_wider,
    "neighbouring windows of the history": from_windows,
    "correlation known": lambda sides: sides.student(sides.r, with_history=False),
    "correlation known, spread of the history too": lambda sides: sides.student(
        sides.r, with_history=True
    ),
}


def unchanged_sides(r: float, past: int, cases: int, count: int, wider: float = 1.0) -> Sides:
    """Draw comparisons of nights without a change, with fixed seeds.

    The nights scatter by the factor `wider` more widely than the history.
    """
    rng = np.random.default_rng([FRESH, round(100 * r), past, cases])
    noise = NightNoise("correlated", correlated(r))
    logs = (made_logs(noise, rng, count, nights, cases) for nights in (NIGHTS, NIGHTS, past))
    old, new, history = logs
    return Sides(wider * old, wider * new, history, r)


def names_any(method: Callable[[Sides], Draws], sides: Sides) -> float:
    """Return the share of comparisons in which a method names a change of any quantity."""
    return float(shown(method(sides)).any(1).mean())


def names_first(method: Callable[[Sides], Draws], sides: Sides) -> float:
    """Return the share of comparisons in which a method names a change of the first case.

    The time of this case under writes is made longer.
    """
    changed = sides.new.copy()
    changed[:, 1:3] += np.log1p(CHANGE)
    grown = replace(sides, new=changed)
    return float(shown(method(grown))[:, :3].any(1).mean())


def table(count: int) -> Iterator[str]:
    """Yield the lines of the tables, as Markdown."""
    columns = [
        *(f"{past} nights" for past in HISTORIES),
        "named wrongly, most",
        f"at {EXTREME}",
        f"{WIDER:g} times as wide",
    ]
    for cases in CASES:
        yield from head([f"of {cases}, found at {WANTED}", *columns])
        shares: dict[str, list[float]] = {name: [] for name in METHODS}
        wrong = {name: [0.0, 0.0, 0.0] for name in METHODS}
        for past, r in product(HISTORIES, (*RS, EXTREME)):
            as_past, wider = (
                unchanged_sides(r, past, cases, count, wider) for wider in (1.0, WIDER)
            )
            for name, method in METHODS.items():
                most, column = wrong[name], int(r == EXTREME)
                most[column] = max(most[column], names_any(method, as_past))
                if r < EXTREME:
                    most[2] = max(most[2], names_any(method, wider))
                if r == WANTED:
                    shares[name].append(names_first(method, as_past))
        for name in METHODS:
            figures = (
                *(f"{100 * share:.0f}" for share in shares[name]),
                *(f"{100 * share:.1f}" for share in wrong[name]),
            )
            yield row([name, *figures])


if __name__ == "__main__":
    show(table, COMPARISONS)
