"""Apache Otava on the study's made nights: its part of the table in docs/evidence.md.

In an environment of its own, with the defaults of `otava analyze` (window 50, p 0.001):

    python -m venv otava && otava/bin/pip install apache-otava==0.8.0
    PYTHONPATH=. otava/bin/python -m tests.analysis.history.with_otava [HISTORIES]

Otava looks at the series of every night as `otava analyze` would on that night. A change point for
the worse that was not reported before, within a week, is an alarm. One quantity of each workload is
given to it, and false alarms are counted for all three.
"""

import sys

import numpy as np
from otava.analysis import compute_change_points

from studies.alarms import FIRST_WATCHED, MACHINES, SHIFTS, SPREAD, made_values, shifted_night

#: Nights that Otava is given: more than two of its windows before the last one.
_GIVEN = 150
_SAME_NIGHTS = 7
_PATIENCE = 30
#: One in three series.
_EVERY = 3


def worse_points(values: np.ndarray, until: int) -> list[int]:
    """Nights of change points for the worse, as known after night `until`."""
    start = max(0, until + 1 - _GIVEN)
    nights = np.flatnonzero(~np.isnan(values[: until + 1]))
    nights = nights[nights >= start]
    given = np.exp(SPREAD * values[nights]).tolist()
    found, _ = compute_change_points(given, window_len=50, max_pvalue=0.001)
    return [int(nights[p.index]) for p in found if p.stats.mean_2 > p.stats.mean_1]


def false_alarms(values: np.ndarray) -> int:
    """Alarms of a series without a change."""
    known: list[int] = []
    for night in range(FIRST_WATCHED, len(values)):
        for point in worse_points(values, night):
            if all(abs(point - before) > _SAME_NIGHTS for before in known):
                known.append(point)
    return len(known)


def nights_to_find(values: np.ndarray, at: int) -> int:
    """Nights until a change at `at` is reported; `_PATIENCE` if it is not by then."""
    for night in range(at, at + _PATIENCE):
        if any(point >= at - _SAME_NIGHTS for point in worse_points(values, night)):
            return night - at + 1
    return _PATIENCE


def _mean(nights: list[int]) -> str:
    return f"{np.mean(nights):.2f} ({np.mean(np.array(nights) <= 5):.0%})"


def main(histories: int) -> None:
    """Print a row per machine."""
    for number, noise in enumerate(MACHINES):
        alarms, nights = 0, {shift: [] for shift in SHIFTS}
        for history in range(histories):
            values = made_values(noise, np.random.default_rng([number, history]))
            alarms += _EVERY * sum(map(false_alarms, values[::_EVERY]))
            for row, series in list(enumerate(values))[::_EVERY]:
                at = shifted_night(history, row)
                for shift in SHIFTS:
                    changed = np.where(np.arange(len(series)) >= at, series + shift, series)
                    nights[shift].append(nights_to_find(changed, at))
        share = (len(values[0]) - FIRST_WATCHED) / len(values[0])
        found = [_mean(each) for each in nights.values()]
        cells = [noise.name, f"{alarms / histories / share:.1f}", *found]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
