"""Results of a run from its samples: one row per case and treatment.

samples = read_run(run)
rows = results(samples.frame, StoppingRule.of(load_header(run)))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.effects.hypotheses import Asked, Effect, PValues, Shown, families, shown
from analysis.effects.verdict import Verdict, by_gpu, caveats, emulated, judge, phrase, selection
from analysis.samples.pairs import (
    first_attempts,
    judged,
    levels,
    log_times,
    log_times_between,
    pair_table,
)
from analysis.statistics import looks
from analysis.statistics.aligned_ranks import next_allocation, slowdown
from analysis.statistics.interval import (
    FEWEST,
    Estimate,
    Interval,
    ends,
    flat,
    mean,
    median_interval,
    middle,
)
from analysis.statistics.location import hits
from records.arms import Role, arm_of, in_order, natural, parts_of
from records.groups import grouped
from records.notes import Note
from records.run import MARGIN, RunHeader
from records.sample import Better, Level
from records.units import plural

#: Columns of the samples that a result needs besides its pairs.
_USED = [
    *("key", "case", "workload", "arm", "role", "baseline", "factors", "warmup", "status"),
    *("outcome", "reason", "fom_unit", "fom_better", "notes"),
    *("direction", "transport", "same_host"),
]
_OWN_VERDICT: dict[Role, Verdict] = {"floor": Verdict.NOISE_FLOOR, "control": Verdict.CONTROL}


@dataclass(frozen=True)
class StoppingRule:
    """What a campaign asks, how precisely, and below what an effect is none.

    The one rule of when a case ends, at run time and in the report: at a look, from the floor on,
    at which every effect has a verdict that more pairs need not change; or at the cap.
    """

    pairs_floor: int = FEWEST
    pairs_cap: int | None = None
    precision: float | None = None
    margin: float = MARGIN
    #: Effects and repeated baselines that were requested, over which verdicts hold; those that were
    #: measured are among them in any case.
    asked: frozenset[Asked] = frozenset()

    @classmethod
    def of(cls, header: RunHeader) -> StoppingRule:
        """The rule of the run's campaign."""
        return cls(
            header.pairs_floor,
            header.most_pairs,
            header.precision,
            header.margin,
            frozenset((case, name) for case, names in header.asked.cases.items() for name in names),
        )

    @property
    def effects(self) -> list[Asked]:
        """The effects that were requested."""
        return [(case, name) for case, name in self.asked if not arm_of(name).silent]

    @property
    def baselines(self) -> int:
        """How many baselines were to be repeated."""
        return sum(arm_of(treatment).role == "floor" for _, treatment in self.asked)

    def is_precise(self, effect: Estimate | None) -> bool:
        """Whether the interval is as narrow as requested."""
        most = self.precision
        return most is None or (effect is not None and effect.half_width <= most)

    def asks_of(self, pairs: int) -> bool:
        """Whether verdicts decide if a case of so many pairs goes on: between floor and cap."""
        return self.pairs_floor <= pairs and (self.pairs_cap is None or pairs < self.pairs_cap)

    def is_done(self, row: Result) -> bool:
        """Whether no further pair is needed for `row`, between floor and cap."""
        return self.is_precise(row.slowdown) and not row.verdict.needs_pairs


@dataclass(frozen=True)
class Result:
    """The effect of one treatment on one case; figures in SI units, None if not available."""

    #: Names: of the case, its workload and the treatment.
    case: str
    workload: str
    arm: str
    #: Pairs that count, and rejected runs of this treatment or its baseline.
    pairs: int
    rejected: int
    #: Medians of the figures of merit over these pairs, baseline and treatment, in `unit`.
    off_median: float | None
    on_median: float | None
    unit: str
    #: Time under the treatment / time of the baseline. None below six pairs, as all estimates.
    slowdown: Estimate | None
    #: Interval of the repeated baseline (off against off) and of the control, same baseline.
    noise_floor: Interval | None
    control: Interval | None
    #: Harmonic means of the writers' total rate, without an application and during its runs.
    writer_rate_alone_b_s: float | None
    writer_rate_b_s: float | None
    #: What may be said of it (docs/method.md#verdicts).
    verdict: Verdict
    #: Rejected runs: key, outcome, reason.
    rejections: list[dict[str, str]]
    #: Caveats to show with the figures.
    notes: list[str]
    #: What the writers did: `write` into the node's memory, `read` from it or `both`; None without.
    direction: str | None = None
    #: Role of the treatment; `floor` is the repeated baseline.
    role: Role = field(kw_only=True)
    #: Name of the treatment that it is paired with.
    baseline: str = field(kw_only=True)
    #: Factor -> level.
    factors: dict[str, Level] = field(default_factory=dict, kw_only=True)
    #: Whether lower or higher figures of merit are better; decides which way a ratio is taken.
    better: Better = field(kw_only=True)
    #: The baseline is slower than the site file expects.
    slower_than_reference: bool = False
    #: 'No effect' is less than this share.
    margin: float = MARGIN
    #: Processors took part in the writes.
    emulated: bool = False
    #: Standard deviations of the figures of merit / their means, baseline and treatment.
    off_spread: float | None = None
    on_spread: float | None = None
    #: The effect against the control, within pairs: time under the treatment / under the control.
    over_control: Estimate | None = None
    #: Interval that covers the next allocation; None below three.
    next: Interval | None = None
    #: Median of the ratios to the plain baseline, with the interval of order statistics.
    sign: Estimate | None = None
    #: The slowdown with the first attempt of every run, accepted or rejected.
    first_attempts: Estimate | None = None
    #: Mean time under the treatment / mean time of the baseline: what is paid for.
    mean: Estimate | None = None
    #: Share of runs hit, and of the baseline's (`analysis.statistics.location`).
    hit: Estimate | None = None
    hit_baseline: float | None = None
    #: P values of this effect alone; None unless it is an effect with six pairs.
    p: PValues | None = None
    #: Hypotheses over which the verdict holds: cases, or their other levels without an order.
    family: int = 1
    #: `over_control` with the first attempts.
    over_control_first: Estimate | None = None

    @property
    def said(self) -> str:
        """The verdict as it is shown."""
        return phrase(self.verdict, self.margin, emulated=self.emulated)

    @property
    def typical_on(self) -> float | None:
        """Figure of merit of a typical run under the treatment: the baseline's, slowed down so.

        Not the median of these runs, which also has how the machine changed between pairs. That
        one if there are too few pairs for a slowdown.
        """
        if self.slowdown is None or self.off_median is None:
            return self.on_median
        by = self.slowdown.value
        return self.off_median / by if self.better == "higher" else self.off_median * by

    @property
    def cost(self) -> Estimate | None:
        """Node-hours that work of 100 node-hours takes more, from the mean."""
        return self.mean.mapped(lambda ratio: 100 * (ratio - 1)) if self.mean else None

    @property
    def above_control_alone(self) -> bool:
        """Whether the interval of this row alone is above the control, which decides nothing."""
        return self.over_control is not None and self.over_control.low > 1

    @property
    def at_full_rate(self) -> bool:
        """Whether its factors neither limit the writers' rate nor have them pause."""
        level = self.factors.get
        return level("rate", "full") == "full" and level("burst", "none") == "none"


def results(samples: pl.DataFrame, requested: StoppingRule = StoppingRule()) -> list[Result]:
    """One row for each case and each treatment with a baseline, in the order of their names."""
    marked = judged(samples)
    return results_of(marked, pair_table(marked), requested)


def results_of(marked: pl.DataFrame, pairs: pl.DataFrame, requested: StoppingRule) -> list[Result]:
    """As `results`, from `analysis.samples.pairs.judged` samples and their `pair_table`."""
    frames = (marked.select(_USED), pairs, pair_table(first_attempts(marked)))
    cases = [
        _case(case, *(frame.filter(pl.col("case") == case) for frame in frames))
        for case in sorted(marked["case"].unique(), key=natural)
    ]
    treated = [(case, this) for case in cases for this in case.treated]
    effects = [case.effect_of(this, requested.margin) for case, this in treated]
    asked = [effect for effect in effects if effect]
    statements = iter(shown(asked, requested.effects, requested.baselines))
    sizes = {
        hypothesis: len(family)
        for family in families(asked, requested.effects)
        for hypothesis in family
    }
    return [
        _with_reasons(
            replace(
                _row(case, this, requested, next(statements) if effect else ()),
                p=effect.p if effect else None,
                family=sizes[effect.hypothesis] if effect else 1,
            )
        )
        for (case, this), effect in zip(treated, effects, strict=True)
    ]


def _with_reasons(row: Result) -> Result:
    """The row with notes on why it is not decided although an interval of its own says more."""
    says = _alone(row)
    if says is None or row.slowdown is None:
        return row
    notes, floor = list(row.notes), row.noise_floor
    if floor and floor.low <= row.slowdown.value <= floor.high:
        notes.append(Note.WITHIN_FLOOR(floor=ends(floor)))
    questions = plural(row.family, "question")
    notes.append(Note.ALONE(says=says, questions=questions))
    return replace(row, notes=notes)


def _alone(row: Result) -> str | None:
    """What the interval of an undecided row says alone, if it says more than the verdict."""
    if row.slowdown is None:
        return None
    if row.verdict is Verdict.NOT_ABOVE_CONTROL:
        return "is above the control" if row.above_control_alone else None
    beside = row.slowdown.low > 1 or row.slowdown.high < 1
    return "excludes 1" if beside and row.verdict is Verdict.INCONCLUSIVE else None


@dataclass(frozen=True)
class _Treated:
    """A treatment of a case with its pairs, and their log times, one array per block."""

    arm: str
    role: Role
    baseline: str
    factors: dict[str, Level]
    pairs: pl.DataFrame
    blocks: list[NDArray[np.float64]]
    effect: Estimate | None

    @property
    def log_times(self) -> NDArray[np.float64]:
        """Of all blocks."""
        return np.concatenate(self.blocks) if self.blocks else np.empty((0, 2))


@dataclass(frozen=True)
class _Case:
    """A case: its samples, the pairs of first attempts, and its treatments."""

    name: str
    samples: pl.DataFrame
    first: pl.DataFrame
    treated: list[_Treated]

    def beside(self, this: _Treated, role: Role) -> _Treated | None:
        """The control, or the repeated baseline, with the same baseline."""
        same = (other for other in self.treated if other.baseline == this.baseline)
        return next((other for other in same if other.role == role), None)

    def over_control(self, this: _Treated) -> list[NDArray[np.float64]]:
        """Log times of an effect and of its control in common pairs; empty without one."""
        control = self.beside(this, "control")
        if control is None or this.role != "effect":
            return []
        return log_times_between(this.pairs, control.pairs)

    def effect_of(self, this: _Treated, margin: float) -> Effect | None:
        """A treatment as an effect that is asked for; None of others."""
        if this.role != "effect":
            return None
        p = self._p_values(this, margin) if this.effect else None
        return Effect(self.name, this.arm, this.baseline, this.factors, p)

    def _p_values(self, this: _Treated, margin: float) -> PValues:
        times, over, floor = this.log_times, self.over_control(this), self.beside(this, "floor")
        slower = looks.over_looks(times, looks.longer)
        above = looks.over_looks(np.concatenate(over), looks.longer) if over else None
        return PValues(
            slower=slower,
            faster=looks.over_looks(times, looks.shorter),
            within=looks.over_looks(times, partial(looks.outside, margin=margin)),
            above_control=None if above is None else max(slower, above),
            unstable=looks.differs(floor.log_times if floor else times[:0]),
        )


def _case(name: str, samples: pl.DataFrame, pairs: pl.DataFrame, first: pl.DataFrame) -> _Case:
    kinds = samples.select("arm", "role", "baseline", "factors").drop_nulls("baseline")
    rows = kinds.unique("arm", keep="first", maintain_order=True).iter_rows()
    of = {arm: (role, baseline, levels(str(factors))) for arm, role, baseline, factors in rows}
    treated = []
    for arm in in_order(of):
        chosen = pairs.filter(pl.col("arm") == arm)
        blocks = log_times(chosen)
        treated.append(_Treated(arm, *of[arm], chosen, blocks, _estimate(blocks)))
    return _Case(name, samples, first, treated)


def _estimate(blocks: list[NDArray[np.float64]]) -> Estimate | None:
    return slowdown(np.concatenate(blocks)) if blocks else None


def _row(case: _Case, this: _Treated, requested: StoppingRule, shown: Shown) -> Result:
    floor, control = case.beside(this, "floor"), case.beside(this, "control")
    over_control = _estimate(case.over_control(this))
    effect, pairs = this.effect, this.pairs
    runs = case.samples.filter(pl.col("arm") == this.arm)
    either = (pl.col("arm") == this.baseline) | (pl.col("arm") == this.arm)
    lost = case.samples.filter(either, status="rejected")
    first = case.first.filter(pl.col("arm") == this.arm)
    first_effect = _estimate(log_times(first)) if case.first.height else effect
    mean_effect = looks.mean_ratio(this.log_times)
    hit = hits(this.log_times, requested.margin)
    under_emulation = bool(emulated(runs))
    over_first = over_control
    if over_control and control and case.first.height:
        first_control = case.first.filter(pl.col("arm") == control.arm)
        over_first = _estimate(log_times_between(first, first_control))
    verdict = _OWN_VERDICT.get(this.role) or judge(
        effect,
        mean_effect,
        floor.effect if floor else None,
        shown,
        controlled=over_control is not None,
        pairs=pairs.height,
        pairs_floor=max(requested.pairs_floor, FEWEST),
        margin=requested.margin,
        wrote=pairs["writer_rate_b_s"].null_count() < pairs.height,
        same_host=bool(runs["same_host"].any()),
        emulated=under_emulation,
    )
    if verdict is Verdict.EMULATED and by_gpu(runs):
        verdict = Verdict.DEVICE
    directions = runs["direction"].drop_nulls()
    return Result(
        case=case.name,
        workload=str(runs["workload"][0]),
        arm=this.arm,
        pairs=pairs.height,
        rejected=lost.height,
        off_median=middle(pairs["off"]),
        on_median=middle(pairs["on"]),
        unit=str(runs["fom_unit"][0]),
        slowdown=effect,
        noise_floor=Interval.of(floor.effect if floor else None),
        control=Interval.of(control.effect if control else None),
        writer_rate_alone_b_s=_rate(this, pairs["writer_rate_alone_b_s"]),
        writer_rate_b_s=_rate(this, pairs["writer_rate_b_s"]),
        verdict=verdict,
        rejections=[
            {"key": key, "outcome": outcome, "reason": reason or ""}
            for key, outcome, reason in lost.select("key", "outcome", "reason").iter_rows()
        ],
        notes=[
            *caveats(runs, this.blocks, effect, requested.precision, requested.pairs_cap),
            *selection(
                this.arm,
                {
                    f"slowdown of {this.arm}": (effect, first_effect),
                    f"time of {this.arm} over the control's": (over_control, over_first),
                },
                _rejected_share(case.samples, this, floor, control),
            ),
        ],
        direction=None if directions.is_empty() else str(directions[0]),
        role=this.role,
        baseline=this.baseline,
        factors=this.factors,
        better="higher" if runs["fom_better"][0] == "higher" else "lower",
        margin=requested.margin,
        emulated=under_emulation,
        off_spread=_spread(pairs["off"]),
        on_spread=_spread(pairs["on"]),
        over_control=over_control,
        next=next_allocation(this.blocks),
        sign=median_interval(pairs["ratio"].to_list()),
        first_attempts=first_effect,
        mean=mean_effect,
        hit=hit.treated if hit else None,
        hit_baseline=hit.baseline if hit else None,
        over_control_first=over_first,
    )


def _rejected_share(of_case: pl.DataFrame, this: _Treated, *others: _Treated | None) -> float:
    """Share of the runs of the treatment, its baseline and the others that were rejected."""
    arms = [this.baseline, this.arm, *(other.arm for other in others if other)]
    runs = of_case.filter(~pl.col("warmup"), pl.col("arm").cast(pl.String).is_in(arms))
    return float(runs.select((pl.col("status") == "rejected").mean()).item() or 0)


def _spread(values: pl.Series) -> float | None:
    mean, deviation = values.mean(), values.std()
    if not isinstance(mean, float) or not isinstance(deviation, float) or not mean:
        return None
    return deviation / mean


def _rate(of: _Treated, rates: pl.Series) -> float | None:
    """Harmonic mean of the writers' rates; None for a treatment without writes."""
    if of.role != "effect" or rates.is_empty() or rates.null_count():
        return None
    return mean(rates.to_numpy().tolist(), "higher")


def reported(row: Result) -> dict[str, tuple[float | None, str]]:
    """Name -> figure, and its unit, that a check reports to ReFrame of a row of one block."""
    figures, cost = flat(row), row.cost
    return {
        f"typical_{row.baseline}": (row.off_median, row.unit),
        f"typical_{row.arm}": (row.typical_on, row.unit),
        **{
            f"slowdown_{row.arm}{end}": (figures[f"slowdown{end}"], "x")
            for end in ("", "_low", "_high")
        },
        f"extra_node_hours_{row.arm}": (cost.value if cost else None, "per 100"),
        f"writers_rate_{row.arm}": (row.writer_rate_b_s, "B/s"),
        f"rejected_{row.arm}": (row.rejected, "runs"),
    }


#: Case, arm, and the levels of all factors but one.
Sweep = tuple[str, str, tuple[tuple[str, Level], ...]]


def by_level(rows: Iterable[Result], factor: str) -> dict[Sweep, list[Result]]:
    """Effects that differ in the level of `factor` alone, two at least, in their order."""

    def sweep(row: Result) -> Sweep:
        at = tuple(sorted((k, v) for k, v in row.factors.items() if k != factor))
        return row.case, parts_of(row.arm)[0], at

    effects = (row for row in rows if row.role == "effect" and factor in row.factors)
    sweeps = grouped((sweep(row), row) for row in effects)
    return {sweep: rows for sweep, rows in sweeps.items() if len(rows) > 1}


def notes_of(rows: Sequence[Result]) -> list[str]:
    """The notes of a case's rows, each once; one that not all rows have names those that do."""
    arms_with = grouped((note, row.arm) for row in rows for note in dict.fromkeys(row.notes))
    return [
        note if len(arms) == len(rows) else f"{', '.join(arms)}: {note}"
        for note, arms in arms_with.items()
    ]
