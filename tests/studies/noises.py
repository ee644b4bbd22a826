"""Draws noises for simulations of the statistics, and nights of runs with these noises.

A noise has a standard deviation of 1, unless its name says otherwise. Times are 1 + scale x noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Random numbers, or what is computed from them.
Draws = NDArray[np.float64]
#: Function of a generator and a shape that draws noise. The last axis is in order of time.
Draw = Callable[[np.random.Generator, tuple[int, ...]], Draws]


@dataclass(frozen=True)
class RunNoise:
    """One kind of noise of runs on one node in one night."""

    name: str
    draw: Draw
    #: Noise of treated runs divided by noise of baseline runs.
    treated: float = 1.0


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Return independent normal noise."""
    return rng.standard_normal(shape)


def correlated(correlation: float) -> Draw:
    """Return normal noise whose neighbours correlate: an autoregressive process of first order."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
        noise = normal(rng, shape)
        for index in range(1, shape[-1]):
            noise[..., index] *= np.sqrt(1 - correlation**2)
            noise[..., index] += correlation * noise[..., index - 1]
        return noise

    return draw


def bimodal(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Return noise on one of two levels, with little noise around each."""
    level = np.where(rng.random(shape) < 0.5, -0.95, 0.95)
    return np.asarray(level + np.sqrt(1 - 0.95**2) * normal(rng, shape))


def heavy_tailed(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Return noise of Student's t with 3 degrees of freedom."""
    return np.asarray(rng.standard_t(3, shape) / np.sqrt(3))


def _skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Return log-normal noise: its logarithm has a standard deviation of 1, its skewness is 6.2."""
    drawn = np.exp(normal(rng, shape))
    return np.asarray((drawn - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e))


def _spiked(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Return normal noise; 10 is added to 5 % of the values."""
    return normal(rng, shape) + 10 * (rng.random(shape) < 0.05)


def _rarely_long(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Return normal noise; 500 is added to 1 % of the values.

    At a scale of 1 %, this adds five times the length of a run.
    """
    return normal(rng, shape) + 500 * (rng.random(shape) < 0.01)


def _lopsided(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Return skewed noise with mean and median 0: exponential above 0 and uniform below."""
    above, below = rng.exponential(1, shape), -rng.uniform(0, 2, shape)
    return np.asarray(np.where(rng.random(shape) < 0.5, above, below) / np.sqrt(5 / 3))


def _contaminated(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Return normal noise; 10 % of the values have five times the standard deviation."""
    return normal(rng, shape) * np.where(rng.random(shape) < 0.1, 5, 1)


NOISES = (
    RunNoise("normal", normal),
    RunNoise("log-normal, skewed", _skewed),
    RunNoise("5 % one-sided spikes of 10", _spiked),
    RunNoise("contaminated, 10 % five times as wide", _contaminated),
    RunNoise("Student's t, 3 degrees", heavy_tailed),
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
    RunNoise("1 % of runs six times as long, at 1 %", _rarely_long),
)


def runs_in_order(
    draw: Draw, rng: np.random.Generator, count: int, pairs: int, runs: int = 3
) -> tuple[Draws, Draws]:
    """Return the noise of runs, and 1 for those that come right after a treated run, else 0.

    Both have the shape (count, pairs, runs). The runs of a pair come in random order; the first of
    them is the treated one.
    """
    noise_in_time = draw(rng, (count, pairs * runs)).reshape(count, pairs, runs)
    position_in_pair = np.argsort(rng.random(noise_in_time.shape), axis=-1)
    position = position_in_pair + runs * np.arange(pairs)[:, None]
    follows_treated = np.zeros((count, pairs * runs + 1))
    np.put_along_axis(follows_treated, position[..., 0] + 1, 1.0, axis=-1)
    after_treated = np.take_along_axis(follows_treated, position.reshape(count, -1), axis=-1)
    noise = np.take_along_axis(noise_in_time, position_in_pair, axis=-1)
    return noise, after_treated.reshape(noise.shape)


def nights(
    noise: RunNoise, rng: np.random.Generator, count: int, pairs: int, scale: float, effect: float
) -> tuple[Draws, Draws]:
    """Return times of `on`, `off` and `aa`, and 1 for `off` and `aa` right after `on`, else 0.

    The times are natural logarithms, shape (count, pairs, 3); the second array has the shape
    (count, pairs, 2). The runs of a pair come in random order. `scale` is the standard deviation of
    the noise as a share of a run's time, `effect` the true slowdown.
    """
    runs, after_treated = runs_in_order(noise.draw, rng, count, pairs)
    runs[..., 0] *= noise.treated
    # The noise may be very wide, but a run takes at least a tenth of its usual time.
    log_times = np.log(np.maximum(1 + scale * runs, 0.1))
    log_times[..., 0] += np.log(effect)
    return np.asarray(log_times), after_treated[..., 1:]
