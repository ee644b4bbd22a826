"""What is expected of a series on a night, from its nights before, and how certain that is.

The logarithm of a night is taken as the sum of

- a level, and a slow swing: a line, and a wave of one year,
- an own level of the set of nodes that it ran on,
- normal noise with outliers, whose neighbouring nights may correlate (AR(1)).

Level and swing are a ridge regression on nights from which the correlation is taken out (Cochrane
and Orcutt 1949). Correlation and size of the swing are those that the nights make likely: means
over a grid, weighted by the marginal likelihood, and by how common each is on the machine
(empirical Bayes; Laird 1978). A set of nodes is a random effect: the fewer its nights, the nearer
its level is to that of all (Henderson 1975).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

_YEAR = 365.25
#: Correlations of neighbouring nights that are tried; and standard deviations of the swing, as
#: change in a year and as amplitude, in spreads.
_CORRELATIONS = np.arange(9) / 10
_SWINGS = np.array([0.2, 0.5, 1.0, 2.0])
#: Nights count up to so many spreads from what is expected.
_CLIP = 3.0
#: Median absolute deviation to standard deviation, for normal values.
_MAD = 1.4826
#: Outliers, node sets and swing each depend on the others: they are found twice in turn, first
#: with one correlation and size of the swing, by index, then with all.
_ONE, _ALL = (slice(0, 1), slice(2, 3)), (slice(None), slice(None))


@dataclass(frozen=True)
class Expectation:
    """What is expected of the nights of a series after those that it was made from."""

    #: The day that it holds for best (ordinal), and the level then.
    day: int
    level: float
    #: Standard deviation of a night.
    spread: float
    #: Of neighbouring nights.
    correlation: float
    #: Of `_columns`, and their covariance in squared spreads.
    swing: Values
    covariance: Values
    #: Set of nodes -> its effect and number of nights; variance of effects in squared spreads.
    nodes: Mapping[str, tuple[float, int]]
    of_nodes: float
    #: What remains of its nights without level, swing, nodes and correlation, in spreads.
    rest: Values
    #: Logarithm of the marginal likelihood of each correlation and size of the swing that is tried.
    likelihood: Values

    def value(self, days: Values, nodes: Sequence[str]) -> Values:
        """The expected logarithms of nights: their days (ordinals) and sets of nodes."""
        effects = np.array([self.nodes.get(each, (0.0, 0))[0] for each in nodes])
        return np.asarray(self.level + _columns(days - self.day) @ self.swing + effects)

    def variance(self, days: Values, nodes: Sequence[str]) -> Values:
        """That of the expected logarithms, in squared spreads."""
        columns = _columns(days - self.day)
        count = np.array([self.nodes.get(each, (0.0, 0))[1] for each in nodes])
        of_nodes = self.of_nodes / (1 + count * self.of_nodes)
        return np.asarray(((columns @ self.covariance) * columns).sum(axis=-1) + of_nodes)

    def swung(self, days: int) -> tuple[float, float]:
        """How far the swing went in the `days` before `day`, and its standard error."""
        columns = _columns(np.array(0)) - _columns(np.array(-days))
        error = np.sqrt(columns @ self.covariance @ columns)
        return float(columns @ self.swing), float(self.spread * error)


#: Nothing is known of how common each correlation and size of the swing is.
UNKNOWN = np.full((len(_CORRELATIONS), len(_SWINGS)), 1 / (len(_CORRELATIONS) * len(_SWINGS)))
#: Share of a series that is like none of its machine's.
_UNLIKE = 0.05
_STEPS = 30


def common(likelihoods: Sequence[Values]) -> Values:
    """How common each correlation and size of the swing is, of the series of a machine.

    The distribution that makes all series likely, by expectation and maximization.
    """
    likely = np.array([np.exp(each - each.max()) for each in likelihoods])
    found = UNKNOWN
    for _ in range(_STEPS):
        each = likely * found
        each /= each.sum(axis=(1, 2), keepdims=True)
        found = (1 - _UNLIKE) * each.mean(axis=0) + _UNLIKE * UNKNOWN
    return found


def expectation(
    values: Values, days: Values, nodes: Sequence[str], day: int, likely: Values = UNKNOWN
) -> Expectation:
    """What so many nights let one expect: their logarithms, days (ordinals) and sets of nodes.

    `likely`: how common each correlation and size of the swing is (`common`).
    """
    level = float(np.median(values))
    columns = _columns(days - day)
    names, sets = np.unique(np.array(nodes), return_inverse=True)
    sets = sets.reshape(-1)
    apart = values - level
    slow = np.zeros_like(apart)
    own = np.zeros(len(names))
    for tried in (_ONE, _ALL):
        usual = slow + own[sets] + clipped(apart - slow - own[sets])
        own, of_nodes = node_effects(usual - slow, sets)
        fit = _regression(usual - own[sets], columns, np.diff(days), likely, tried)
        slow = columns @ fit.swing
    rest = apart - slow - own[sets]
    memory = fit.correlation ** np.diff(days)
    rest[1:] = (rest[1:] - memory * clipped(rest)[:-1]) / np.sqrt(1 - memory**2)
    swing = np.array([0.0, *fit.swing[1:]])
    return Expectation(
        day=day,
        level=level + float(fit.swing[0]),
        spread=fit.spread,
        correlation=fit.correlation,
        swing=swing,
        covariance=fit.covariance,
        nodes={
            name: (float(effect), int(count))
            for name, effect, count in zip(names, own, np.bincount(sets), strict=True)
        },
        of_nodes=of_nodes,
        rest=rest / fit.spread,
        likelihood=fit.likelihood,
    )


def clipped(values: Values) -> Values:
    """At `_CLIP` spreads around 0, by the median absolute deviation."""
    spread = _MAD * float(np.median(np.abs(values))) or float(values.std())
    return np.clip(values, -_CLIP * spread, _CLIP * spread)


def node_effects(values: Values, sets: NDArray[np.intp]) -> tuple[Values, float]:
    """Effect of each set, and the variance of effects / that of nights of one set.

    `sets` are numbers from 0 on. The variances are those of a one-way analysis of variance.
    """
    count = np.bincount(sets)
    mean = np.bincount(sets, values) / count
    total, size = len(values), len(count)
    if not 1 < size < total:
        return np.zeros(size), 0.0
    mean_apart = mean - values.mean()
    within = float(((values - mean[sets]) ** 2).sum()) / (total - size)
    between = float((count * mean_apart**2).sum()) / (size - 1) - within
    each = (total - float((count**2).sum()) / total) / (size - 1)
    share = max(0.0, between / each) / max(within, 1e-18)
    return mean_apart * count * share / (1 + count * share), share


def _columns(days: Values) -> Values:
    """Level, line and wave of nights so many days from one, (..., 4); 1, 0, 0, 0 on that one."""
    years = np.asarray(days / _YEAR)
    turn = 2 * np.pi * years
    return np.stack([np.ones_like(years), years, np.cos(turn) - 1, np.sin(turn)], axis=-1)


@dataclass(frozen=True)
class _Regression:
    swing: Values
    covariance: Values
    spread: float
    correlation: float
    likelihood: Values


def _regression(
    values: Values, columns: Values, gaps: Values, likely: Values, tried: tuple[slice, slice]
) -> _Regression:
    correlations, swings = _CORRELATIONS[tried[0]], _SWINGS[tried[1]]
    likelihood = _fit(values, columns, gaps, correlations, swings)[0]
    weights = np.exp(likelihood - likelihood.max()) * likely[tried]
    weights /= weights.sum()
    correlation = weights.sum(axis=1) @ correlations
    swing = np.exp(weights.sum(axis=0) @ np.log(swings))
    _, found, covariance, variance = _fit(
        values, columns, gaps, np.array([correlation]), np.array([swing])
    )
    spread = max(float(np.sqrt(variance[0, 0])), 1e-9)
    return _Regression(found[0, 0], covariance[0, 0], spread, float(correlation), likelihood)


def _fit(
    values: Values, columns: Values, gaps: Values, correlations: Values, swings: Values
) -> tuple[Values, Values, Values, Values]:
    """Log likelihood, coefficients, covariance and variance of a night, by correlation and swing.

    The likelihood is that of the nights, with the coefficients integrated out and the variance
    that makes them likely; the covariance is in units of the variance.
    """
    memory = correlations[:, None] ** gaps
    both = np.column_stack([columns, values])
    # Without what each night owes to the one before, with the same variance.
    found = both[1:] - memory[..., None] * both[:-1]
    found /= np.sqrt(1 - memory**2)[..., None]
    products = found.swapaxes(1, 2) @ found + np.outer(both[0], both[0])
    precision = np.zeros((len(swings), columns.shape[1]))
    precision[:, 1:] = swings[:, None] ** -2
    prior = precision[:, :, None] * np.eye(columns.shape[1])
    information = products[:, None, :-1, :-1] + prior
    moments = products[:, None, :-1, -1:]
    covariance = np.linalg.inv(information)
    coefficients = (covariance @ moments)[..., 0]
    squares = products[:, None, -1, -1] - (coefficients * moments[..., 0]).sum(axis=-1)
    squares = np.maximum(squares, 1e-18)
    freedom = len(values) - 1
    likelihood = -freedom / 2 * np.log(squares) - np.linalg.slogdet(information)[1] / 2
    likelihood += np.log(precision[:, 1:]).sum(axis=1) / 2
    likelihood -= np.log1p(-(memory**2)).sum(axis=1)[:, None] / 2
    return likelihood, coefficients, covariance, squares / freedom
