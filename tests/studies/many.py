"""Computes verdicts on many nights of one case at once, by the program's tests and rules.

Statistical tests are computed for all nights together. The exact test is computed only for nights
for which the normal distribution does not decide. `tests/analysis/statistics/test_many.py` compares
the results with the program's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.effects.result import Result, Verdict
from analysis.effects.statements import ERROR_LEVELS, UNSTABLE_LEVEL
from analysis.effects.verdict import verdict_of
from analysis.statistics import evidence
from analysis.statistics.aligned_ranks import shifts
from analysis.statistics.carry_over import ALLOWANCE_STANDARD_ERRORS, MIN_PAIRS
from analysis.statistics.interval import MIN_VALUES, Estimate, Interval
from tests.analysis.synthetic import result
from tests.studies.noises import Draws

Nights = NDArray[np.bool_]
#: Function of logarithms of times and the error level of one analysis. It returns for each night
#: whether the test shows the statement.
Test = Callable[[Draws, float], Nights]
#: The exact test is computed if the rank sum is at most `_LESS` below or `_MORE` above the normal
#: quantile, in standard deviations. It is also computed if the error level is at most `_NEARLY`
#: times the least possible p value.
_LESS, _MORE, _NEARLY = 0.5, 0.1, 3.0


def longer(log_times: Draws, error: float, ratio: float = 1.0) -> Nights:
    """Return for each night whether `evidence.p_longer` is at most `error`."""
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
        shown[night] = evidence.p_longer(log_times[night], ratio) <= error
    return np.asarray(shown)


def shorter(log_times: Draws, error: float, ratio: float = 1.0) -> Nights:
    """Return for each night whether `evidence.p_shorter` is at most `error`."""
    return longer(-log_times, error, 1 / ratio)


def faster(log_times: Draws, error: float) -> Nights:
    """Return for each night whether `evidence.p_typical_and_mean_shorter` is at most `error`."""
    shown = shorter(log_times, error)
    for night in np.flatnonzero(shown):
        shown[night] = evidence.p_typical_and_mean_shorter(log_times[night]) <= error
    return shown


def within(log_times: Draws, error: float, margin: float) -> Nights:
    """Return for each night whether `evidence.p_outside_margin_between_bounds` is at most `error`.

    The axes of `log_times` are (night, pair, smallest or largest loss, run).
    """
    shown = shorter(log_times[:, :, 1], error, 1 + margin)
    shown[shown] = longer(log_times[shown, :, 0], error, 1 / (1 + margin))
    return shown


def differs(log_times: Draws, error: float) -> Nights:
    """Return for each night whether an analysis shows a difference in either direction."""
    return longer(log_times, error / 2) | shorter(log_times, error / 2)


def ever(log_times: Draws, test: Test, level: float) -> Nights:
    """Return for each night whether any of its analyses shows the statement of a test."""
    shown = np.zeros(len(log_times), bool)
    for interim in evidence.interim_analyses(log_times.shape[1]):
        shown[~shown] = test(log_times[~shown, : interim.pairs], interim.share * level)
    return shown


def without_carry_over(log_times: Draws, after: Draws, sign: int) -> Draws:
    """Return the times without carry-over, so that the loss is smallest (-1) or largest (1).

    Carry-over is removed by the rule of `analysis.statistics.carry_over`.
    """
    # 1 if only `off` came right after writes, -1 if only `aa` did, else 0.
    sides = after[..., 0] - after[..., 1]
    apart = sides * (log_times[..., 1] - log_times[..., 2])
    pairs = np.abs(sides).sum(1)
    mean = apart.sum(1) / np.maximum(pairs, 1)
    squares = (np.abs(sides) * (apart - mean[:, None]) ** 2).sum(1)
    error = np.sqrt(squares / np.maximum(pairs - 1, 1) / np.maximum(pairs, 1))
    reach = np.where(
        pairs >= MIN_PAIRS,
        np.maximum(sign * mean + ALLOWANCE_STANDARD_ERRORS[sign > 0] * error, 0),
        0,
    )
    allowed = log_times.copy()
    allowed[..., 1:3] -= sign * after * reach[:, None, None]
    return np.asarray(allowed)


@dataclass(frozen=True)
class ManyNights:
    """Nights of one case with runs of `on`, `off`, `aa` and perhaps the control `spin`."""

    #: Logarithms of times, with the axes (night, pair, run).
    log_times: Draws
    #: 1 for runs of `off` and `aa` right after a run with writes, else 0: (night, pair, 2).
    after: Draws
    margin: float = 0.02

    @property
    def controlled(self) -> bool:
        """Return whether there is a control."""
        return bool(self.log_times.shape[2] > 3)

    def shown(self, name: str, hypotheses: int) -> Nights:
        """Return whether each analysis of each night shows a statement: (night, analysis).

        `hypotheses` is the number of hypotheses of the campaign.
        """
        pairs = [interim.pairs for interim in evidence.interim_analyses(self.log_times.shape[1])]
        return np.stack([self.shown_after(first, name, hypotheses) for first in pairs], axis=1)

    def shown_after(self, pairs: int, name: str, hypotheses: int) -> Nights:
        """Return for each night whether its first `pairs` pairs show a statement."""
        every, after = self.log_times[:, :pairs], self.after[:, :pairs]
        times = every[..., :3]
        if name == "unstable":
            return ever(times[..., [2, 1]], differs, UNSTABLE_LEVEL)
        level = ERROR_LEVELS[name] / hypotheses
        if name == "above_control":
            return ever(every[..., [0, 3]], longer, level)
        if name == "slower":
            return ever(without_carry_over(times, after, -1), longer, level)
        if name == "faster":
            return ever(without_carry_over(times, after, 1), faster, level)
        losses = np.stack([without_carry_over(times, after, sign) for sign in (-1, 1)], axis=2)
        return ever(losses, partial(within, margin=self.margin), level)

    def verdicts(
        self, hypotheses: int, floor: int = MIN_VALUES, precision: float | None = None
    ) -> tuple[list[Verdict], Draws]:
        """Return the verdict of each night at its end, and its number of pairs then.

        A night ends when it is decided, or after all pairs. `hypotheses` is the number of
        hypotheses of the campaign. Those of other cases show nothing.
        """
        names = [*ERROR_LEVELS, "unstable"]
        if not self.controlled:
            names.remove("above_control")
        shown = {name: self.shown(name, hypotheses) for name in names}
        count, most = self.log_times.shape[:2]
        verdicts = [Verdict.INCONCLUSIVE] * count
        pairs, is_open = np.full(count, float(most)), np.ones(count, bool)
        for number, interim in enumerate(evidence.interim_analyses(most)):
            if interim.pairs < floor:
                continue
            any_shown = np.any([nights[:, number] for nights in shown.values()], axis=0)
            for night in np.flatnonzero(is_open):
                verdicts[night] = Verdict.INCONCLUSIVE
            left = np.flatnonzero(is_open & any_shown)
            for night, row in zip(left.tolist(), self._rows(left, interim.pairs), strict=True):
                says = {name for name, nights in shown.items() if nights[night, number]}
                verdicts[night] = verdict = verdict_of(row, says, MIN_VALUES)
                half = row.slowdown.relative_half_width if row.slowdown else np.inf
                if not verdict.needs_pairs and (precision is None or half <= precision):
                    pairs[night], is_open[night] = interim.pairs, False
        return verdicts, pairs

    def _rows(self, nights: NDArray[np.intp], pairs: int) -> list[Result]:
        """Return the results of some nights, with estimates from their first `pairs` pairs."""
        if not len(nights):
            return []
        times = self.log_times[nights, :pairs]
        compared = [times[..., :3], times[..., [2, 1]]]
        if self.controlled:
            compared.append(times[..., [0, 3]])
        estimated = [estimates(logs) for logs in compared]
        rows = []
        for number in range(len(nights)):
            typical, repeated, *over = (ratios[number] for ratios in estimated)
            row = replace(
                _ROW,
                pairs=pairs,
                slowdown=typical,
                mean=evidence.mean_ratio(times[number, :, :3]),
                noise_floor=Interval.from_estimate(repeated),
                over_control=over[0] if over else None,
                margin=self.margin,
            )
            rows.append(row)
        return rows


#: The result of a case with proven writes between two hosts; its estimates are replaced.
_ROW = result(pairs=0, writer_rate_b_s=1e9)


def estimates(log_times: Draws) -> list[Estimate]:
    """Return the slowdown of each night, with its interval."""
    return [Estimate(value, low, high) for low, value, high in np.exp(shifts(log_times)).T.tolist()]
