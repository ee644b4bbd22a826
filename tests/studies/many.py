"""Verdicts on many nights of one case at once, by the program's tests and rules.

Tests are made of all nights together. The exact one is computed where the normal distribution does
not decide it: `tests/analysis/statistics/test_many.py` holds this against the program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.effects.result import Result, Verdict
from analysis.effects.verdict import LEVELS, UNSTABLE_LEVEL, judge
from analysis.statistics import looks
from analysis.statistics.aligned_ranks import shifts
from analysis.statistics.carry_over import _BEYOND, _FEWEST
from analysis.statistics.interval import FEWEST, Estimate, Interval
from tests.analysis.synthetic import result
from tests.studies.noises import Draws

Nights = NDArray[np.bool_]
#: (logarithms of times of nights, error of a look) -> which nights it shows.
Test = Callable[[Draws, float], Nights]
#: The exact test is made of rank sums within these distances of the normal quantile, in standard
#: deviations, and of those whose least p value is nearly the error.
_LESS, _MORE, _NEARLY = 0.5, 0.1, 3.0


def longer(log_times: Draws, error: float, ratio: float = 1.0) -> Nights:
    """Whether `looks.longer` of each night is at most so large."""
    aligned = log_times.copy()
    aligned[..., 0] -= np.log(ratio)
    aligned -= aligned.mean(-1, keepdims=True)
    nights, pairs, runs = aligned.shape
    ranks = aligned.reshape(nights, pairs * runs).argsort(1).argsort(1).reshape(aligned.shape)
    scores = ranks - ranks.mean(-1, keepdims=True)
    treated = scores[..., 0]
    t = treated.mean(1) * np.sqrt(pairs) / np.maximum(treated.std(1, ddof=1), 1e-9)
    by_student = special.stdtr(pairs - 1, -t) <= error
    deviations = treated.sum(1) / np.sqrt((scores**2).mean(-1).sum(1))
    beyond = deviations - special.ndtri(1 - error)
    clear = (beyond > _MORE) & (error > _NEARLY * float(runs) ** -pairs)
    shown = by_student & clear
    for night in np.flatnonzero(by_student & ~clear & (beyond > -_LESS)):
        shown[night] = looks.longer(log_times[night], ratio) <= error
    return np.asarray(shown)


def faster(log_times: Draws, error: float) -> Nights:
    """The same of `looks.shorter_in_both`."""
    shown = longer(-log_times, error)
    for night in np.flatnonzero(shown):
        shown[night] = looks.shorter_in_both(log_times[night]) <= error
    return shown


def within(log_times: Draws, error: float, margin: float) -> Nights:
    """The same of `looks.outside`."""
    shown = longer(-log_times, error, 1 / (1 + margin))
    shown[shown] = longer(log_times[shown], error, 1 / (1 + margin))
    return shown


def differs(log_times: Draws, error: float) -> Nights:
    """Whether a look shows a difference either way."""
    return longer(log_times, error / 2) | longer(-log_times, error / 2)


def at_looks(log_times: Draws, test: Test, level: float) -> Nights:
    """Whether each night shows it at each look, or at one before: (night, look)."""
    seen = list(looks.looks(log_times.shape[1]))
    shown = np.zeros((len(log_times), len(seen)), bool)
    for at, look in enumerate(seen):
        left = ~shown[:, :at].any(1)
        shown[~left, at] = True
        shown[left, at] = test(log_times[left, : look.pairs], look.share * level)
    return shown


def allowed_at_looks(log_times: Draws, after: Draws, test: Test, level: float) -> Nights:
    """The same, which must hold as well without what is carried over, as each look shows it."""
    shown = at_looks(log_times, test, level)
    for at, look in enumerate(looks.looks(log_times.shape[1])):
        nights = np.flatnonzero(shown[:, at])
        if len(nights):
            times, late = (of[nights, : look.pairs] for of in (log_times, after))
            shown[nights, at] = at_looks(without_carry_over(times, late), test, level)[:, -1]
    return shown


def without_carry_over(log_times: Draws, after: Draws) -> Draws:
    """The second of `carry_over.allowing`, or the times as they are."""
    # 1 if `off` came right after writes and `aa` did not, -1 the other way round.
    which = after[..., 0] - after[..., 1]
    apart = which * (log_times[..., 1] - log_times[..., 2])
    pairs = np.abs(which).sum(1)
    mean = apart.sum(1) / np.maximum(pairs, 1)
    squares = (np.abs(which) * (apart - mean[:, None]) ** 2).sum(1)
    error = np.sqrt(squares / np.maximum(pairs - 1, 1) / np.maximum(pairs, 1))
    reach = np.where(pairs >= _FEWEST, np.maximum(mean + _BEYOND * error, 0), 0)
    allowed = log_times.copy()
    allowed[..., 1:3] -= after * reach[:, None, None]
    return np.asarray(allowed)


@dataclass(frozen=True)
class ManyNights:
    """Nights of a case: `on`, `off`, `aa` and perhaps `spin`, (night, pair, run)."""

    #: Logarithms of times.
    log_times: Draws
    #: 1 where `off` and `aa` came right after a run with writes: (night, pair, 2).
    after: Draws
    margin: float = 0.02

    @property
    def controlled(self) -> bool:
        """Whether there is a control."""
        return bool(self.log_times.shape[2] > 3)

    def shown(self, name: str, hypotheses: int) -> Nights:
        """Whether a statement is shown at each look, among so many hypotheses."""
        times = self.log_times[..., :3]
        if name == "unstable":
            return at_looks(times[..., [2, 1]], differs, UNSTABLE_LEVEL)
        level = LEVELS[name] / hypotheses
        if name == "slower":
            return at_looks(times, longer, level)
        if name == "above_control":
            return at_looks(self.log_times[..., [0, 3]], longer, level)
        test = partial(within, margin=self.margin) if name == "within" else faster
        return allowed_at_looks(times, self.after, test, level)

    def verdicts(
        self, hypotheses: int, floor: int = FEWEST, precision: float | None = None
    ) -> tuple[list[Verdict], Draws]:
        """The verdict of each night when it ends, and its pairs then: after all, or when decided.

        `hypotheses`: of the campaign, whose others show nothing.
        """
        names = [*LEVELS, "unstable"]
        if not self.controlled:
            names.remove("above_control")
        shown = {name: self.shown(name, hypotheses) for name in names}
        count, most = self.log_times.shape[:2]
        verdicts = [Verdict.INCONCLUSIVE] * count
        pairs, is_open = np.full(count, float(most)), np.ones(count, bool)
        for at, look in enumerate(looks.looks(most)):
            if look.pairs < floor:
                continue
            any_shown = np.any([of[:, at] for of in shown.values()], axis=0)
            for night in np.flatnonzero(is_open):
                verdicts[night] = Verdict.INCONCLUSIVE
            left = np.flatnonzero(is_open & any_shown)
            for night, row in zip(left.tolist(), self._rows(left, look.pairs), strict=True):
                says = {name for name, of in shown.items() if of[night, at]}
                verdicts[night] = verdict = judge(row, says, FEWEST)
                half = row.slowdown.half_width if row.slowdown else np.inf
                if not verdict.needs_pairs and (precision is None or half <= precision):
                    pairs[night], is_open[night] = look.pairs, False
        return verdicts, pairs

    def _rows(self, nights: NDArray[np.intp], pairs: int) -> list[Result]:
        """The estimates of some nights, from their first pairs."""
        if not len(nights):
            return []
        times = self.log_times[nights, :pairs]
        compared = [times[..., :3], times[..., [2, 1]]]
        if self.controlled:
            compared.append(times[..., [0, 3]])
        of_each = [estimates(of) for of in compared]
        rows = []
        for at in range(len(nights)):
            typical, repeated, *over = (of[at] for of in of_each)
            row = replace(
                _ROW,
                pairs=pairs,
                slowdown=typical,
                mean=looks.mean_ratio(times[at, :, :3]),
                noise_floor=Interval.from_estimate(repeated),
                over_control=over[0] if over else None,
                margin=self.margin,
            )
            rows.append(row)
        return rows


#: A case with proven writes between two hosts.
_ROW = result(pairs=0, writer_rate_b_s=1e9)


def estimates(log_times: Draws) -> list[Estimate]:
    """The slowdown of each night."""
    return [Estimate(value, low, high) for low, value, high in np.exp(shifts(log_times)).T.tolist()]
