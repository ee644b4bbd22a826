"""The slowdown of an application under writers, predicted from its run next to other loads.

An application's loss (slowdown - 1) is taken as that of a mixture of two kernels of membench: one
stores past the caches, the other loads and stores through them. Its two shares are those for which
the mixture loses what the application loses next to each of the kernels on other cores (the factor
`tool`, levels `membench:KERNEL:N`). What each kernel loses, next to both and under the writers, was
measured in the same run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from analysis.report.data import RunData
from analysis.samples.pairs import of_treatment
from analysis.statistics.interval import CONFIDENCE, Estimate, bracketed
from analysis.subjects.regimes import WORKLOAD
from nimc.base.units import NONE
from nimc.records.arms import parts_of
from nimc.records.sample import Level

#: The kernels that measure, and load memory next to an application.
MEASURES = ("nt_write", "mix")
_BESIDE = re.compile(rf"{WORKLOAD}:\w+:([0-9]{{1,4}})", re.ASCII)
#: Draws of the measured losses, from which the intervals of shares and prediction follow.
_DRAWS = 2000
_SEED = 32
_QUANTILE = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
_TAILS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)


@dataclass(frozen=True)
class SlowdownRow:
    """One case of a run: what is predicted, and what was measured."""

    run: str
    case: str
    workload: str
    #: Shares of `MEASURES` in its loss, and the slowdown that follows; None if not known.
    share_nt_write: Estimate | None
    share_mix: Estimate | None
    predicted: Estimate | None
    measured: Estimate | None
    #: Loss predicted - loss measured; None without both.
    error: float | None
    #: Standard deviation of the logarithm of the ratio of two baseline runs; None below two.
    spread: float | None
    #: Why nothing is predicted; empty otherwise.
    reason: str


@dataclass(frozen=True)
class Mixture:
    """Shares of `MEASURES` in what a case loses, and the slowdown under writers that follows."""

    #: None for a measure without a shown loss, and if the two cannot be distinguished.
    shares: tuple[Estimate | None, Estimate | None]
    slowdown: Estimate


#: Column of the writers in what a case loses, next to the tool's levels.
_WRITERS = "writers"
#: (Case, or membench and its kernel; neighbour) -> slowdown.
_Slowdowns = dict[tuple[str, str | None, str], Estimate]


def rows(runs: Iterable[RunData]) -> list[SlowdownRow]:
    """Predicted and measured slowdown of every case of `runs` but those of membench."""
    made = []
    for run in runs:
        found = _measured(run)
        for case, workload in {row.case: row.workload for row in run.results}.items():
            if workload == WORKLOAD:
                continue
            measured = found.get((case, None, _WRITERS))
            guess = _predict(case, found)
            known = None if isinstance(guess, str) else guess
            own = of_treatment(run.pairs, case, "aa")
            spread = float(np.log(own["ratio"].to_numpy()).std(ddof=1)) if own.height > 1 else None
            made.append(
                SlowdownRow(
                    run=run.header.run,
                    case=case,
                    workload=workload,
                    share_nt_write=known.shares[0] if known else None,
                    share_mix=known.shares[1] if known else None,
                    predicted=known.slowdown if known else None,
                    measured=measured,
                    error=known.slowdown.value - measured.value if known and measured else None,
                    spread=spread,
                    reason=guess if isinstance(guess, str) else "",
                )
            )
    return made


def _measured(run: RunData) -> _Slowdowns:
    """What every case loses; of membench with each kernel."""
    membench = {row.case for row in run.results if row.workload == WORKLOAD}
    first = {
        row.case: str(row.factors.get("kernel", MEASURES[0]))
        for row in run.results
        if "kernel" not in parts_of(row.arm)[1]
    }

    def key(case: str, kernel: Level | None, neighbour: str) -> tuple[str, str | None, str]:
        if case in membench:
            return WORKLOAD, str(kernel or first[case]), neighbour
        return case, None, neighbour

    found: _Slowdowns = {}
    for row in run.results:
        levels = parts_of(row.arm)[1]
        # The effect of writes at full rate; of other levels only the kernel varies.
        plain = row.role == "effect" and row.direction in (None, "write") and row.at_full_rate
        if row.slowdown and plain and levels.keys() <= {"rate", "kernel"}:
            found[key(row.case, levels.get("kernel"), _WRITERS)] = row.slowdown
    for each in run.contrasts:
        beside = (each.kind, each.factor) == ("price", "tool") and each.at.keys() <= {"kernel"}
        if each.ratio and beside:
            found[key(each.case, each.at.get("kernel"), str(each.level))] = each.ratio
    return found


def _predict(case: str, found: _Slowdowns) -> Mixture | str:
    """The mixture that loses as the case does; or why there is none."""
    subjects = [*((WORKLOAD, kernel) for kernel in MEASURES), (case, None)]
    cores = sorted({int(match[1]) for key in found if (match := _BESIDE.fullmatch(key[2]))})
    for n in reversed(cores):  # the most neighbours have the clearest effect
        levels = [f"{WORKLOAD}:{kernel}:{n}" for kernel in MEASURES]
        beside = [found.get((*subject, level)) for subject in subjects for level in levels]
        writers = [found.get((*subject, _WRITERS)) for subject in subjects[:2]]
        known = [each for each in (*beside, *writers) if each]
        if len(known) == len(beside) + len(writers):
            return mixture(known[:4], known[4:6], known[6:])
    return (
        f"without six pairs of the case and of {WORKLOAD} with {' and '.join(MEASURES)},"
        " each next to both, and of these under writers"
    )


def draws_of(slowdowns: Sequence[Estimate]) -> NDArray[np.float64]:
    """Losses as measured and `_DRAWS` times within their errors, shape (draws, losses).

    Each is drawn for itself, log-normal on both sides: its interval holds 95 % of its draws.
    """
    value, low, high = (
        np.log([getattr(each, part) for each in slowdowns]) for part in ("value", "low", "high")
    )
    normal = np.random.default_rng(_SEED).standard_normal((_DRAWS, len(slowdowns)))
    normal = np.vstack([np.zeros(len(slowdowns)), normal]) / _QUANTILE
    error = np.where(normal < 0, normal * (value - low), normal * (high - value))
    drawn: NDArray[np.float64] = np.expm1(value + error)
    return drawn


def mixture(
    measures: Sequence[Estimate], own: Sequence[Estimate], writers: Sequence[Estimate]
) -> Mixture | str:
    """What the slowdowns of a case next to both measures say of it under writers.

    `measures`: the first next to both, then the second next to both; `own`: the case next to both;
    `writers`: both under writers. A measure that is not shown to be slower next to either says
    nothing of a case, and gets no share.
    """
    shown = [i for i in range(2) if max(each.low for each in measures[2 * i : 2 * i + 2]) > 1]
    if not shown:
        return f"{WORKLOAD} is not shown to be slower next to itself; use more cores"
    losses = draws_of([*measures, *own, *writers])
    of_measures = losses[:, :4].reshape(-1, 2, 2)
    shares = np.array(
        [shares_of(*each) for each in zip(of_measures[:, shown], losses[:, 4:6], strict=True)]
    )
    slowdown = _estimate(np.maximum(0, 1 + (shares * losses[:, 6:][:, shown]).sum(axis=1)))
    known: list[Estimate | None] = [None, None]
    # Two can be distinguished if their losses are shown not to be proportional.
    signs = np.sign(np.linalg.det(of_measures))
    if len(shown) == 1 or np.mean(signs == signs[0]) >= _TAILS[1]:
        for column, measure in enumerate(shown):
            known[measure] = _estimate(shares[:, column])
    return Mixture((known[0], known[1]), slowdown)


def shares_of(measures: NDArray[np.float64], own: NDArray[np.float64]) -> NDArray[np.float64]:
    """The shares of the measures, not below 0, whose sum loses nearest to `own` next to each.

    `measures[i, j]` is the loss of measure i next to neighbour j, `own[j]` that of the case.
    """
    return np.asarray(nnls(measures.T, own)[0])


def _estimate(draws: NDArray[np.float64]) -> Estimate:
    low, high = np.quantile(draws, _TAILS)
    value = float(draws[0])
    return Estimate(value, min(value, float(low)), max(value, float(high)), CONFIDENCE)


@dataclass(frozen=True)
class Errors:
    """Mean errors of losses without sign: of the prediction, and of 'no loss'; and coverage."""

    mean: float
    null: float
    #: Cases whose measured slowdown lies within the predicted interval, of all.
    covered: int
    cases: int


def errors(found: Sequence[SlowdownRow]) -> Errors | None:
    """Over the cases with a prediction and a measurement; None without one."""
    both = [(row.predicted, row.measured) for row in found if row.predicted and row.measured]
    if not both:
        return None
    return Errors(
        mean=fmean(abs(guess.value - true.value) for guess, true in both),
        null=fmean(abs(true.value - 1) for _, true in both),
        covered=sum(guess.low <= true.value <= guess.high for guess, true in both),
        cases=len(both),
    )


def sentence(of: Errors) -> str:
    """How good the predictions were, in one line."""
    return (
        f"mean error of the loss: {of.mean:.3f}; if none were predicted: {of.null:.3f};"
        f" {of.covered} of {of.cases} measured slowdowns within the predicted interval"
    )


def table(found: Sequence[SlowdownRow]) -> tuple[list[str], list[list[str]]]:
    """Header and cells of the table that people read."""
    shares = [f"share {kernel}" for kernel in MEASURES]
    header = ["case", *shares, "predicted", "measured", "error of loss"]
    return header, [
        [
            row.case,
            *map(bracketed, (row.share_nt_write, row.share_mix, row.predicted, row.measured)),
            NONE if row.error is None else f"{row.error:+.3f}",
        ]
        for row in found
    ]
