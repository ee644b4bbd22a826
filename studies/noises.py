"""Ten kinds of noise of runs on one node in one night, for simulations of the statistics.

Each has a standard deviation of 1 unless its name says more; times are 1 + scale x noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Draws = NDArray[np.float64]


@dataclass(frozen=True)
class RunNoise:
    """One kind of noise."""

    name: str
    #: (generator, nights, runs a night) -> noise of each run in order of time.
    draw: Callable[[np.random.Generator, int, int], Draws]
    #: How many times as much treated runs scatter as their baselines.
    treated: float = 1.0


def _normal(rng: np.random.Generator, nights: int, runs: int) -> Draws:
    return rng.standard_normal((nights, runs))


def _skewed(rng: np.random.Generator, nights: int, runs: int) -> Draws:
    """Log-normal with a standard deviation of the logarithm of 1: a skewness of 6.2."""
    drawn = np.exp(_normal(rng, nights, runs))
    return np.asarray((drawn - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e))


def _spikes(rng: np.random.Generator, nights: int, runs: int) -> Draws:
    return _normal(rng, nights, runs) + 10 * (rng.random((nights, runs)) < 0.05)


def _contaminated(rng: np.random.Generator, nights: int, runs: int) -> Draws:
    return _normal(rng, nights, runs) * np.where(rng.random((nights, runs)) < 0.1, 5, 1)


def _bimodal(rng: np.random.Generator, nights: int, runs: int) -> Draws:
    level = np.where(rng.random((nights, runs)) < 0.5, -0.95, 0.95)
    return np.asarray(level + np.sqrt(1 - 0.95**2) * _normal(rng, nights, runs))


def _autoregressive(rng: np.random.Generator, nights: int, runs: int) -> Draws:
    found = _normal(rng, nights, runs)
    for run in range(1, runs):
        found[:, run] = 0.9 * found[:, run - 1] + np.sqrt(1 - 0.9**2) * found[:, run]
    return found


NOISES = (
    RunNoise("normal", _normal),
    RunNoise("log-normal, skewed", _skewed),
    RunNoise("5 % one-sided spikes of 10", _spikes),
    RunNoise("contaminated, 10 % five times as wide", _contaminated),
    RunNoise("Student's t, 3 degrees", lambda rng, *shape: rng.standard_t(3, shape) / np.sqrt(3)),
    RunNoise("uniform", lambda rng, *shape: (rng.random(shape) - 0.5) * np.sqrt(12)),
    RunNoise("bimodal", _bimodal),
    RunNoise("autoregressive, 0.9", _autoregressive),
    RunNoise(
        "linear drift over 10",
        lambda rng, nights, runs: _normal(rng, nights, runs) + np.linspace(0, 10, runs),
    ),
    RunNoise("normal, `on` twice as wide", _normal, treated=2.0),
)


def nights(
    noise: RunNoise, rng: np.random.Generator, count: int, pairs: int, scale: float, effect: float
) -> Draws:
    """Natural logarithms of times, shape (count, pairs, 3): `on`, `off` and `aa` of each pair.

    The runs of a pair come in random order. `effect` is the true slowdown.
    """
    drawn = noise.draw(rng, count, 3 * pairs).reshape(count, pairs, 3)
    order = np.argsort(rng.random(drawn.shape), axis=-1)
    runs = np.take_along_axis(drawn, order, axis=-1)
    runs[..., 0] *= noise.treated
    # A run takes at least a tenth of its time, however wide the noise.
    log_times = np.log(np.maximum(1 + scale * runs, 0.1))
    log_times[..., 0] += np.log(effect)
    return np.asarray(log_times)
