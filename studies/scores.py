"""Other scores of log-normal nights than that of alarms, if their noise were known.

    python -m studies.scores [SERIES]

Page's sum in SERIES (default 40,000) series of independent nights, at the limit that gives the
false alarms of `nimc alarms` if 18 series are watched; nothing is estimated from earlier nights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy import special

from analysis.history.expected import clipped
from analysis.history.monitor import FALSE_ALARMS_A_YEAR, STEP, evidence
from studies import head, row, show
from studies.alarms import LOSSES, NOISES, PATIENCE, SERIES, NightNoise
from studies.noises import Draws as Values

_DRAWN = 40_000
#: Nights until sums have settled, and those whose largest sum is compared with the limit.
_SETTLED, _WATCHED = 40, 120
#: Of a night with an outlier, as in `evidence`: its density is not below this.
_LEAST = 1e-3


def scores(noise: NightNoise) -> dict[str, Callable[[Values], Values]]:
    """Name -> evidence of nights, given in spreads."""
    known = np.sort(noise.draw(np.random.default_rng(0), (200_000,)))
    middle = np.median(known)
    usual = middle + clipped(known - middle)

    def normal(nights: Values) -> Values:
        return np.asarray(special.ndtri((np.searchsorted(known, nights) + 0.5) / (len(known) + 1)))

    def density(nights: Values) -> Values:
        return np.asarray(0.98 * np.exp(noise.log_density(nights)) + _LEAST)

    moved = float(normal(known + STEP).mean())
    return {
        "in use": lambda nights: evidence((nights - usual.mean()) / usual.std(), STEP),
        "normal scores": lambda nights: evidence(normal(nights), moved),
        "likelihood ratio": lambda nights: np.log(density(nights - STEP) / density(nights)),
    }


def nights_to_find(noise: NightNoise, score: Callable[[Values], Values], drawn: int) -> list[float]:
    """Their mean for each loss, which begins at the same sums."""
    rng = np.random.default_rng(1)
    total, most = np.zeros((2, drawn))
    for night in range(_SETTLED + _WATCHED):
        total = np.maximum(0, total + score(noise.draw(rng, (drawn,))))
        most = np.maximum(most, total) if night >= _SETTLED else most
    limit = np.quantile(most, 1 - _WATCHED * FALSE_ALARMS_A_YEAR / (365 * SERIES))
    before = np.where(total < limit, total, 0.0)
    found = []
    for loss in LOSSES:
        total, waited = before, np.ones(drawn)
        waiting = np.ones(drawn, bool)
        for _ in range(PATIENCE - 1):
            total = np.maximum(0, total + score(noise.draw(rng, (drawn,)) + loss))
            waiting &= total < limit
            waited += waiting
        found.append(float(waited.mean()))
    return found


def table(drawn: int) -> Iterator[str]:
    """The lines of the table, as Markdown."""
    yield from head(["nights", "score", *(f"nights to find {loss:g}" for loss in LOSSES)])
    for noise in NOISES[:2]:
        for name, score in scores(noise).items():
            nights = nights_to_find(noise, score, drawn)
            yield row([noise.name, name, *(f"{each:.1f}" for each in nights)])


if __name__ == "__main__":
    show(table, _DRAWN)
