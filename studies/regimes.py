"""Made curves of the loss of both sides over cores: how often their regime is named.

    python -m studies.regimes

Prints the figures of docs/evidence.md: shares of points that are right, unknown, and wrong.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.statistics.aligned_ranks import shifts
from analysis.statistics.interval import CONFIDENCE, Estimate
from analysis.subjects.regimes import Regime, classify, loses
from studies import row

SEEDS = 200
MARGIN = 0.02
PAIRS = 10
#: Standard deviations of the logarithms of a run of the application and of a writer's rate.
NOISE = 0.015
CORES = np.arange(1, 7)


@dataclass(frozen=True)
class Curve:
    """True losses at 1 to 6 cores, and the regime that they are."""

    name: str
    regime: Regime
    application: NDArray[np.float64]
    device: NDArray[np.float64]


def _rising(first: float, last: float) -> NDArray[np.float64]:
    return np.linspace(first, last, len(CORES))


#: Losses as in Understanding the Host Network: 1.2 to 1.7 in the blue regime. At the edge, the
#: application loses exactly the margin, which is not more than it.
CURVES = (
    Curve("blue", Regime.BLUE, _rising(1.2, 1.7), _rising(1.0, 1.0)),
    Curve("red", Regime.RED, _rising(1.1, 1.5), _rising(1.08, 2.0)),
    Curve("network alone", Regime.NETWORK, _rising(1.0, 1.0), _rising(1.1, 2.0)),
    Curve("none", Regime.NONE, _rising(1.0, 1.0), _rising(1.0, 1.0)),
    Curve("weak blue", Regime.BLUE, _rising(1.03, 1.06), _rising(1.0, 1.0)),
    Curve("edge", Regime.NETWORK, _rising(1.02, 1.02), _rising(1.5, 1.5)),
)


def found(curve: Curve, noise: float = NOISE, seeds: int = SEEDS) -> list[Regime]:
    """The regime of every point of so many made curves, each from `PAIRS` noisy pairs."""
    shape = (len(CORES), PAIRS)
    runs = np.stack(
        [np.random.default_rng(seed).normal(0, noise, (*shape, 5)) for seed in range(seeds)]
    )
    # Time with writers, without, and without again; time of a byte during the run, and before.
    runs[..., 0] += np.log(curve.application)[:, None]
    runs[..., 3] += np.log(curve.device)[:, None]
    application, device = (np.exp(shifts(runs[..., each])) for each in (range(3), range(3, 5)))
    ends = zip(application.reshape(3, -1).T, device.reshape(3, -1).T, strict=True)
    return [classify(*(loses(_estimate(side), MARGIN) for side in sides)) for sides in ends]


def _estimate(ends: NDArray[np.float64]) -> Estimate:
    low, value, high = map(float, ends)
    return Estimate(value, low, high, CONFIDENCE)


def shares(curve: Curve, noise: float = NOISE) -> tuple[float, float, float]:
    """Shares of points that are right, unknown, and wrong."""
    points = found(curve, noise)
    right, unknown = (points.count(each) / len(points) for each in (curve.regime, Regime.UNKNOWN))
    wrong = sum(each not in (curve.regime, Regime.UNKNOWN) for each in points)
    return right, unknown, wrong / len(points)


if __name__ == "__main__":
    for each in CURVES:
        for sd in (NOISE, 2 * NOISE):
            print(row([each.name, f"{sd:.1%}", *(f"{share:.1%}" for share in shares(each, sd))]))
