"""Results of a run from its samples: one row per case and treatment with a baseline.

For example, the results of the run in folder `run`:

    samples = read_run(run)
    rows = results(samples.frame, StoppingRule.from_header(load_header(run)))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl

from analysis.effects.result import PValues, Result, Verdict
from analysis.effects.statements import hypotheses, statements_shown
from analysis.effects.verdict import emulation_caveats, verdict_of
from analysis.samples.pairs import (
    after_writes,
    counted_runs,
    first_attempts,
    judge_samples,
    log_times,
    log_times_between,
    pair_table,
    parsed_levels,
)
from analysis.statistics import evidence
from analysis.statistics.aligned_ranks import MIN_BLOCKS, Values, next_allocation, slowdown
from analysis.statistics.carry_over import CarryOver, carry_over, without_carry_over
from analysis.statistics.interval import (
    MIN_VALUES,
    Estimate,
    Interval,
    ends_text,
    estimate_text,
    flat_record,
)
from analysis.statistics.location import hit_share
from analysis.statistics.scatter import widening
from records.arms import Role, arm_of, in_table_order, natural_key
from records.notes import Note, merged_concurrent_runs
from records.run import MARGIN, RunHeader
from records.sample import Level
from records.units import percentage, plural

#: Columns of a treatment's runs, and then of its rejected runs, from which its row is made.
_RUN_COLUMNS = ("case", "workload", "fom_unit", "fom_better", "notes", "direction", "transport")
_REJECTED_COLUMNS = ("key", "outcome", pl.col("reason").fill_null(""))
#: Verdicts of rows that are not effects. Verdicts on effects are given after all rows are made,
#: since the chance of a wrong verdict is bounded over all requested effects.
_REFERENCE_VERDICTS: dict[Role, Verdict] = {
    "floor": Verdict.NOISE_FLOOR,
    "control": Verdict.CONTROL,
}
#: If more than this share of an arm's runs is rejected, a warning says so.
_MAX_REJECTED_SHARE = 0.2


@dataclass(frozen=True)
class StoppingRule:
    """When a case ends, at run time and in the report.

    From `pairs_floor` pairs on, a case ends at the first interim analysis at which every effect is
    done (docs/method.md#how-many-pairs). At `pairs_cap` pairs, it always ends.
    """

    pairs_floor: int = MIN_VALUES
    pairs_cap: int | None = None
    #: Largest allowed half-width of intervals, relative to the estimate. None if any is allowed.
    precision: float | None = None
    #: 'No effect' means that the typical run changes by less than this share.
    margin: float = MARGIN
    #: Case and name of every requested treatment. The chance of a wrong verdict is bounded over
    #: these and the measured treatments.
    treatments: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def from_header(cls, header: RunHeader) -> StoppingRule:
        """The rule of the run's campaign."""
        requested = header.asked.cases.items()
        return cls(
            pairs_floor=header.pairs_floor,
            pairs_cap=header.max_pairs,
            precision=header.precision,
            margin=header.margin,
            treatments=frozenset((case, name) for case, names in requested for name in names),
        )

    def is_precise(self, row: Result) -> bool:
        """Return whether the interval of the row's slowdown is as narrow as requested."""
        if self.precision is None:
            return True
        return row.slowdown is not None and row.slowdown.relative_half_width <= self.precision

    def depends_on_verdicts(self, pairs: int) -> bool:
        """Return whether the verdicts decide if a case ends at `pairs` pairs.

        The verdicts decide this from the floor on, but not at the cap.
        """
        return self.pairs_floor <= pairs and (self.pairs_cap is None or pairs < self.pairs_cap)

    def is_done(self, row: Result) -> bool:
        """Return whether `row` needs no further pairs. This matters only between floor and cap."""
        return self.is_precise(row) and not row.verdict.needs_pairs


def results(samples: pl.DataFrame, rule: StoppingRule = StoppingRule()) -> list[Result]:
    """One row for each case and each treatment with a baseline, in the order of their names."""
    judged = judge_samples(samples)
    return results_of(judged, pair_table(judged), rule)


def results_of(judged: pl.DataFrame, pairs: pl.DataFrame, rule: StoppingRule) -> list[Result]:
    """Return the same rows as `results`, from samples that are already judged and paired.

    `judged` is what `pairs.judge_samples` returns. `pairs` is the `pair_table` of these samples.
    """
    first_pairs = pair_table(first_attempts(judged))
    rows: list[Result] = []
    for case in sorted(judged["case"].unique(), key=natural_key):
        is_case = pl.col("case") == case
        case_pairs, case_first_pairs = (frame.filter(is_case) for frame in (pairs, first_pairs))
        # A run may have a million samples. They are filtered lazily, so that only the columns in
        # use are copied.
        rows += _case_results(judged.lazy().filter(is_case), case_pairs, case_first_pairs, rule)
    return _with_verdicts(rows, judged, rule)


def _with_verdicts(rows: list[Result], judged: pl.DataFrame, rule: StoppingRule) -> list[Result]:
    """The rows, with verdicts on the effects.

    The chance of a wrong verdict is bounded over all effects that were requested or measured.
    """
    hosts_of_arms = judged.group_by("case", "arm").agg(pl.col("same_host").any())
    is_on_same_host = {(case, arm): same for case, arm, same in hosts_of_arms.iter_rows()}
    effects = [row for row in rows if row.role == "effect"]
    effects_requested = [(case, name) for case, name in rule.treatments if not arm_of(name).silent]
    baseline_count = sum(arm_of(name).role == "floor" for _, name in rule.treatments)
    tested_hypotheses = hypotheses([*((row.case, row.arm) for row in effects), *effects_requested])
    statements = iter(statements_shown(effects, tested_hypotheses, baseline_count))
    with_verdicts = []
    for row in rows:
        if row.role == "effect":
            verdict = verdict_of(
                row,
                next(statements),
                rule.pairs_floor,
                same_host=is_on_same_host[row.case, row.arm],
            )
            row = _with_reason(replace(row, verdict=verdict, family=len(tested_hypotheses)))
        with_verdicts.append(row)
    return with_verdicts


def _with_reason(row: Result) -> Result:
    """The row, with a note if it is not decided although its own interval would decide it."""
    estimate, highest = row.slowdown, 1 + row.margin
    if row.verdict is Verdict.NOT_ABOVE_CONTROL and row.interval_exceeds_control:
        estimate, finding = row.over_control, "against the control excludes 1"
    elif row.verdict is not Verdict.INCONCLUSIVE or estimate is None:
        return row
    elif not estimate.low <= 1 <= estimate.high:
        finding = "excludes 1"
    elif 1 / highest <= estimate.low and estimate.high <= highest:
        finding = f"is within {percentage(row.margin, '.3g')}"
    else:
        return row
    questions = plural(row.family, "question")
    note = Note.PAIRS_ALONE(interval=ends_text(estimate), says=finding, questions=questions)
    return replace(row, notes=[*row.notes, note])


@dataclass(frozen=True, kw_only=True)
class _Treatment:
    """A treatment of a case, with its pairs (block by block) and its slowdown."""

    arm: str
    role: Role
    baseline: str
    factors: dict[str, Level]
    pairs: pl.DataFrame
    #: Pairs of the first attempt of every run, accepted or not.
    first_pairs: pl.DataFrame
    #: Logarithms of the times of `pairs` (`analysis.samples.pairs.log_times`).
    log_times: Values
    slowdown: Estimate | None


def _case_results(
    samples: pl.LazyFrame, pairs: pl.DataFrame, first_pairs: pl.DataFrame, rule: StoppingRule
) -> list[Result]:
    """The rows of one case, from its samples, its pairs and the pairs of first attempts."""
    with_baseline = samples.select("arm", "role", "baseline", "factors").drop_nulls("baseline")
    rows = with_baseline.unique("arm", keep="first", maintain_order=True).collect().iter_rows()
    by_arm = {
        arm: (role, baseline, parsed_levels(str(factors))) for arm, role, baseline, factors in rows
    }
    treatments = []
    for arm in in_table_order(by_arm):
        is_arm = pl.col("arm") == arm
        arm_pairs = pairs.filter(is_arm).sort("block", maintain_order=True)
        arm_log_times = log_times(arm_pairs)
        role, baseline, factors = by_arm[arm]
        treatments.append(
            _Treatment(
                arm=arm,
                role=role,
                baseline=baseline,
                factors=factors,
                pairs=arm_pairs,
                first_pairs=first_pairs.filter(is_arm),
                log_times=arm_log_times,
                slowdown=slowdown(arm_log_times),
            )
        )
    # If several treatments have the same baseline and role, the first one is used.
    by_role = {
        (treatment.baseline, str(treatment.role)): treatment for treatment in reversed(treatments)
    }
    medians = _medians_and_spreads(samples)
    return [_row(treatment, by_role, medians, samples, rule) for treatment in treatments]


def _row(
    treatment: _Treatment,
    by_role: Mapping[tuple[str, str], _Treatment],
    medians: Mapping[str, tuple[float | None, float | None]],
    samples: pl.LazyFrame,
    rule: StoppingRule,
) -> Result:
    """The row of a treatment.

    `by_role`: baseline and role -> treatment of the case. `medians` is what `_medians_and_spreads`
    returns.
    """
    pairs, is_effect = treatment.pairs, treatment.role == "effect"
    floor, control = (by_role.get((treatment.baseline, role)) for role in ("floor", "control"))
    block_starts = np.flatnonzero(pairs["block"].diff().fill_null(0))
    blocks = [block for block in np.split(treatment.log_times, block_starts) if len(block)]
    control_pairs = control.pairs if control and is_effect else pairs.clear()
    over_control = log_times_between(pairs, control_pairs)
    next_interval = next_allocation(blocks) if treatment.slowdown else None
    if next_interval and treatment.slowdown:
        # Estimates of few allocations may agree by chance, and then their interval is too narrow.
        next_interval = next_interval.widened_to(treatment.slowdown)
    carry_over_found = carry_over(treatment.log_times, after_writes(pairs)) if is_effect else None
    runs = samples.filter(pl.col("arm") == treatment.arm).select(_RUN_COLUMNS).collect()
    is_treatment_or_baseline = pl.col("arm").is_in([treatment.arm, treatment.baseline])
    rejected = (
        samples.filter(is_treatment_or_baseline, pl.col("status") == "rejected")
        .select(_REJECTED_COLUMNS)
        .collect()
    )
    off_median, off_spread = medians.get(treatment.baseline, (None, None))
    on_median, on_spread = medians.get(treatment.arm, (None, None))
    p_values = None
    if is_effect:
        p_values = _p_values(treatment, floor, over_control, carry_over_found, rule.margin)
    row = Result(
        case=str(runs["case"][0]),
        workload=str(runs["workload"][0]),
        arm=treatment.arm,
        pairs=pairs.height,
        rejected=rejected.height,
        off_median=off_median,
        on_median=on_median,
        off_spread=off_spread,
        on_spread=on_spread,
        unit=str(runs["fom_unit"][0]),
        slowdown=treatment.slowdown,
        noise_floor=Interval.from_estimate(floor.slowdown if floor else None),
        control=Interval.from_estimate(control.slowdown if control else None),
        verdict=_REFERENCE_VERDICTS.get(treatment.role, Verdict.INCONCLUSIVE),
        rejections=rejected.to_dicts(),
        notes=[],
        direction=next(iter(runs["direction"].drop_nulls()), None),
        role=treatment.role,
        baseline=treatment.baseline,
        factors=treatment.factors,
        better="higher" if runs["fom_better"][0] == "higher" else "lower",
        margin=rule.margin,
        emulated=bool(emulation_caveats(runs["transport"])),
        over_control=slowdown(over_control),
        next=next_interval,
        interval=next_interval or Interval.from_estimate(treatment.slowdown),
        mean=evidence.mean_ratio(treatment.log_times),
        hit=hit_share(treatment.log_times[:, 0], rule.margin),
        carry_over=carry_over_found.ratio if carry_over_found else None,
        p=p_values,
        **_rates(pairs, has_writes=is_effect),
    )
    caveats = _caveats(row, runs, len(blocks), carry_over_found, rule)
    if is_effect and (scatter_ratio := widening(treatment.log_times)):
        caveats.append(Note.WIDER_SCATTER(times=scatter_ratio))
    arms = [treatment.arm, treatment.baseline, *(other.arm for other in (floor, control) if other)]
    attempts = samples.filter(~pl.col("warmup"), pl.col("arm").is_in(arms)).select("arm", "status")
    return replace(row, notes=[*caveats, *_warnings(row, treatment, control, attempts.collect())])


def _p_values(
    treatment: _Treatment,
    floor: _Treatment | None,
    over_control: Values,
    carry_over_found: CarryOver | None,
    margin: float,
) -> PValues | None:
    """Return the p values of a treatment's effect, or None if it has no slowdown."""
    if treatment.slowdown is None:
        return None
    smallest_loss, largest_loss = without_carry_over(
        carry_over_found, treatment.log_times, after_writes(treatment.pairs)
    )
    slower = evidence.p_over_interims(smallest_loss, evidence.p_longer)
    above_control = max(slower, evidence.p_over_interims(over_control, evidence.p_longer))
    losses = np.stack([smallest_loss, largest_loss], 1)
    p_outside_margin = partial(evidence.p_outside_margin_between_bounds, margin=margin)
    return PValues(
        slower=slower,
        faster=evidence.p_over_interims(largest_loss, evidence.p_typical_and_mean_shorter),
        within=evidence.p_over_interims(losses, p_outside_margin),
        above_control=above_control if len(over_control) else None,
        unstable=evidence.p_different(floor.log_times if floor else treatment.log_times[:0]),
    )


def _medians_and_spreads(samples: pl.LazyFrame) -> dict[str, tuple[float | None, float | None]]:
    """Treatment -> median and spread of the figures of merit of its runs that count.

    Runs that count but belong to no pair are included, as in pictures, tables and comparisons of
    nights.
    """
    fom = pl.col("fom")
    medians = (
        counted_runs(samples, "fom")
        .group_by("arm")
        .agg(fom.median(), spread=fom.std() / fom.mean())
    )
    return {str(arm): (median, spread) for arm, median, spread in medians.iter_rows()}


def _rates(pairs: pl.DataFrame, *, has_writes: bool) -> dict[str, Any]:
    """Harmonic means of the writers' rates; None without writes, or if unknown in any pair."""
    rates = pl.col("writer_rate_alone_b_s", "writer_rate_b_s")
    harmonic_mean = pl.when(has_writes & (rates.null_count() == 0)).then(1 / (1 / rates).mean())
    return pairs.select(harmonic_mean.name.keep()).row(0, named=True)


def _caveats(
    row: Result,
    runs: pl.DataFrame,
    block_count: int,
    carry_over_found: CarryOver | None,
    rule: StoppingRule,
) -> list[str]:
    """Return the caveats of the runs, their writers and the pairs, to be shown with the figures."""
    notes = runs["notes"].explode(empty_as_null=False).unique(maintain_order=True).to_list()
    merged = dict.fromkeys(map(merged_concurrent_runs(notes), notes))
    caveats = [*merged, *emulation_caveats(runs["transport"])]
    if 0 < block_count < MIN_BLOCKS:
        caveats.append(Note.NEXT_ALLOCATION(blocks=block_count, needed=MIN_BLOCKS))
    if carry_over_found and carry_over_found.is_shown:
        caveats.append(
            Note.CARRY_OVER(
                ratio=estimate_text(carry_over_found.ratio), pairs=carry_over_found.pairs
            )
        )
    if row.slowdown and not rule.is_precise(row):
        width, precision = row.slowdown.relative_half_width, rule.precision
        most = "" if rule.pairs_cap is None else f" (at most {rule.pairs_cap})"
        note = Note.HALF_WIDTH(half_width=width, pairs=row.pairs, most=most, precision=precision)
        caveats.append(note)
    return caveats


def _warnings(
    row: Result, treatment: _Treatment, control: _Treatment | None, attempts: pl.DataFrame
) -> list[str]:
    """Return warnings if the repetition of rejected runs may have changed a figure.

    `attempts`: arm and status of all attempts, accepted or not, of the runs that these figures are
    computed from.
    """
    # Most cases have no rejected run. Then they have no pairs of first attempts.
    notes = []
    if not treatment.first_pairs.is_empty():
        notes = _notes_on_first_attempts(row, treatment, control)
    rejected_share = (pl.col("status") == "rejected").mean().alias("share")
    shares = attempts.group_by("arm", maintain_order=True).agg(rejected_share).iter_rows()
    arm, share = max(shares, key=itemgetter(1), default=("", 0.0))
    if share > _MAX_REJECTED_SHARE:
        notes.append(Note.MANY_REJECTED(share=share, arm=arm, most=_MAX_REJECTED_SHARE))
    return notes


def _notes_on_first_attempts(
    row: Result, treatment: _Treatment, control: _Treatment | None
) -> list[str]:
    """Return a note for each figure that differs much if it is computed from first attempts.

    It differs much if it differs by more than half the width of the figure's interval.
    """
    over_control = log_times_between(
        treatment.first_pairs,
        control.first_pairs if control else treatment.first_pairs.clear(),
    )
    figures = [
        (f"slowdown of {row.arm}", row.slowdown, slowdown(log_times(treatment.first_pairs))),
        (f"time of {row.arm} over the control's", row.over_control, slowdown(over_control)),
    ]
    return [
        Note.FIRST_ATTEMPTS(name=name, first=first.value, used=estimate.value)
        for name, estimate, first in figures
        if estimate
        and first
        and abs(first.value - estimate.value) > (estimate.high - estimate.low) / 2
    ]


def reported_figures(row: Result) -> dict[str, tuple[float | None, str]]:
    """Name -> figure and unit that a check reports to ReFrame, from a row of one block."""
    figures, cost = flat_record(row), row.cost
    return {
        f"typical_{row.baseline}": (row.off_median, row.unit),
        f"typical_{row.arm}": (row.on_median, row.unit),
        **{
            f"slowdown_{row.arm}{ending}": (figures[f"slowdown{ending}"], "x")
            for ending in ("", "_low", "_high")
        },
        f"extra_node_hours_{row.arm}": (cost.value if cost else None, "per 100"),
        f"writers_rate_{row.arm}": (row.writer_rate_b_s, "B/s"),
        f"rejected_{row.arm}": (row.rejected, "runs"),
    }
