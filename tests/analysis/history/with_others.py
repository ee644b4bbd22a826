"""Apache Otava and ruptures on the study's made nights: their table in docs/evidence.md.

In an environment of its own:

    python -m venv others
    others/bin/pip install apache-otava==0.8.0 ruptures==1.1.10 polars scipy
    PYTHONPATH=. others/bin/python -m tests.analysis.history.with_others METHOD THRESHOLD [SERIES]

Each looks at the last 150 nights of a series on every night, as it would on that night. A change
point for the worse that was not reported before, within a week, is an alarm. Thresholds are tried
until false alarms are as many as the project's.
"""

import sys
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from otava.analysis import compute_change_points
from ruptures import KernelCPD

from studies.alarms import LOSSES, NIGHTS, NOISES, PATIENCE, SERIES, SPREAD, made_values

#: Nights that a method is given: more than two of Otava's windows before the last one.
_GIVEN = 150
_SAME_NIGHTS = 7
_FIRST, _BEGIN = 30, 365
_NOISES = ("independent normal", "AR(1) 0.6")


def _otava(values: np.ndarray, threshold: float) -> list[int]:
    given = np.exp(SPREAD * values).tolist()
    found, _ = compute_change_points(given, window_len=50, max_pvalue=threshold)
    return [p.index for p in found if p.stats.mean_2 > p.stats.mean_1]


def _ruptures(values: np.ndarray, threshold: float) -> list[int]:
    """`threshold`: penalty of a change, in squared spreads."""
    ends = [0, *KernelCPD(kernel="linear", min_size=2).fit(values).predict(pen=threshold)]
    means = [values[a:b].mean() for a, b in pairwise(ends)]
    return [at for at, (a, b) in zip(ends[1:], pairwise(means), strict=False) if b > a]


_METHODS = {"otava": _otava, "ruptures": _ruptures}
Points = Callable[[np.ndarray, int], list[int]]


def false_alarms(points: Points, values: np.ndarray) -> int:
    """Alarms of a series without a change."""
    known: list[int] = []
    for night in range(_FIRST, len(values)):
        for point in points(values, night):
            if all(abs(point - before) > _SAME_NIGHTS for before in known):
                known.append(point)
    return len(known)


def nights_to_find(points: Points, values: np.ndarray, at: int) -> int:
    """Nights until a change at `at` is reported; `PATIENCE` if it is not by then."""
    for night in range(at, at + PATIENCE):
        if any(point >= at - _SAME_NIGHTS for point in points(values, night)):
            return night - at + 1
    return PATIENCE


def main(method: str, threshold: float, series: int) -> None:
    """Print a row per noise."""

    def points(values: np.ndarray, night: int) -> list[int]:
        start = max(0, night + 1 - _GIVEN)
        return [start + at for at in _METHODS[method](values[start : night + 1], threshold)]

    for number, noise in enumerate(NOISES):
        if noise.name not in _NOISES:
            continue
        values = np.concatenate(
            [
                made_values(noise, np.random.default_rng([number, history]))[0]
                for history in range(-(-series // SERIES))
            ]
        )[:series]
        alarms = sum(false_alarms(points, each) for each in values)
        years = series / SERIES * (NIGHTS - _FIRST) / 365
        cells = [method, f"{threshold:g}", noise.name, f"{alarms / years:.2f} ({alarms})"]
        for loss in LOSSES:
            changed = np.where(np.arange(NIGHTS) >= _BEGIN, values + loss, values)
            found = [nights_to_find(points, each, _BEGIN) for each in changed]
            cells.append(f"{np.mean(found):.1f}")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else SERIES)
