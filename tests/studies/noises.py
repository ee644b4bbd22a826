"""Noises for simulations of the statistics, and nights of runs with them.

Each has a standard deviation of 1 unless its name says more; times are 1 + scale x noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Draws = NDArray[np.float64]
#: (generator, shape whose last axis is in order of time) -> noise.
Draw = Callable[[np.random.Generator, tuple[int, ...]], Draws]


@dataclass(frozen=True)
class RunNoise:
    """One kind of noise of runs on one node in one night."""

    name: str
    draw: Draw
    #: How many times as much treated runs scatter as their baselines.
    treated: float = 1.0


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Independent."""
    return rng.standard_normal(shape)


def correlated(r: float) -> Draw:
    """Neighbours correlate by `r`: an autoregressive process of first order."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
        noise = normal(rng, shape)
        for index in range(1, shape[-1]):
            noise[..., index] *= np.sqrt(1 - r**2)
            noise[..., index] += r * noise[..., index - 1]
        return noise

    return draw


def bimodal(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Two levels, each with little noise."""
    level = np.where(rng.random(shape) < 0.5, -0.95, 0.95)
    return np.asarray(level + np.sqrt(1 - 0.95**2) * normal(rng, shape))


def heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Student's t with 3 degrees of freedom."""
    return np.asarray(rng.standard_t(3, shape) / np.sqrt(3))


def _skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Log-normal with a standard deviation of the logarithm of 1: a skewness of 6.2."""
    drawn = np.exp(normal(rng, shape))
    return np.asarray((drawn - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e))


def _spikes(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    return normal(rng, shape) + 10 * (rng.random(shape) < 0.05)


def _six_times(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    return normal(rng, shape) + 500 * (rng.random(shape) < 0.01)


def _lopsided(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Exponential above 0 and uniform below: skewed, although mean and median are 0."""
    above, below = rng.exponential(1, shape), -rng.uniform(0, 2, shape)
    return np.asarray(np.where(rng.random(shape) < 0.5, above, below) / np.sqrt(5 / 3))


def _contaminated(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    return normal(rng, shape) * np.where(rng.random(shape) < 0.1, 5, 1)


NOISES = (
    RunNoise("normal", normal),
    RunNoise("log-normal, skewed", _skewed),
    RunNoise("5 % one-sided spikes of 10", _spikes),
    RunNoise("contaminated, 10 % five times as wide", _contaminated),
    RunNoise("Student's t, 3 degrees", heavy),
    RunNoise("uniform", lambda rng, shape: (rng.random(shape) - 0.5) * np.sqrt(12)),
    RunNoise("bimodal", bimodal),
    RunNoise("autoregressive, 0.9", correlated(0.9)),
    RunNoise(
        "linear drift over 10",
        lambda rng, shape: normal(rng, shape) + np.linspace(0, 10, shape[-1]),
    ),
    RunNoise("normal, `on` twice as wide", normal, treated=2.0),
    RunNoise("normal, `on` five times as wide", normal, treated=5.0),
    RunNoise("skewed about its mean, `on` three times as wide", _lopsided, treated=3.0),
    RunNoise("bimodal, `on` twice as wide", bimodal, treated=2.0),
    RunNoise("1 % of runs six times as long, at 1 %", _six_times),
)


def runs_in_order(
    draw: Draw, rng: np.random.Generator, count: int, pairs: int, runs: int = 3
) -> tuple[Draws, Draws]:
    """Noise of runs, shape (count, pairs, runs), and 1 for what comes right after a first run.

    The runs of a pair come in random order; the first of them is the treated one.
    """
    drawn = draw(rng, (count, pairs * runs)).reshape(count, pairs, runs)
    position = np.argsort(rng.random(drawn.shape), axis=-1)  # of each run
    places = position + runs * np.arange(pairs)[:, None]
    treated = np.zeros((count, pairs * runs + 1))
    np.put_along_axis(treated, places[..., 0] + 1, 1.0, axis=-1)
    after = np.take_along_axis(treated, places.reshape(count, -1), axis=-1).reshape(drawn.shape)
    return np.take_along_axis(drawn, position, axis=-1), after


def nights(
    noise: RunNoise, rng: np.random.Generator, count: int, pairs: int, scale: float, effect: float
) -> tuple[Draws, Draws]:
    """Natural logarithms of times, shape (count, pairs, 3): `on`, `off` and `aa` of each pair.

    And 1 where `off` and `aa` come right after `on`. The runs of a pair come in random order.
    `effect` is the true slowdown.
    """
    runs, after = runs_in_order(noise.draw, rng, count, pairs)
    runs[..., 0] *= noise.treated
    # A run takes at least a tenth of its time, however wide the noise.
    log_times = np.log(np.maximum(1 + scale * runs, 0.1))
    log_times[..., 0] += np.log(effect)
    return np.asarray(log_times), after[..., 1:]
