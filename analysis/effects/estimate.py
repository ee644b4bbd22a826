"""Results of a run from its samples: one row per case and treatment.

samples = read_run(run)
rows = results(samples.frame, StoppingRule.of(load_header(run)))
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.effects import selection
from analysis.effects.caveats import caveats, emulations
from analysis.effects.verdict import Verdict, judge
from analysis.samples.pairs import (
    first_attempts,
    in_order,
    judged,
    log_times,
    log_times_between,
    log_times_of,
    pair_table,
)
from analysis.statistics.aligned_ranks import slowdown
from analysis.statistics.blocks import next_allocation
from analysis.statistics.interval import FEWEST, Estimate, known, median_interval
from analysis.statistics.means import mean
from nimc.records.arms import Role, parts_of
from nimc.records.run import MARGIN, RunHeader
from nimc.records.sample import Better, Level

#: Fields of a result with `_low` and `_high`; some have a value between them.
_WITH_INTERVAL = (
    *("slowdown", "noise_floor", "control", "over_control", "next", "sign", "first_attempts"),
    "over_control_first",
)
#: Columns of the samples that a result needs besides its pairs.
_USED = [
    *("key", "case", "workload", "arm", "role", "baseline", "factors", "warmup", "status"),
    *("outcome", "reason", "fom_unit", "fom_better", "notes"),
    *("direction", "transport", "same_host"),
]
_OWN_VERDICT: dict[Role, Verdict] = {"floor": Verdict.NOISE_FLOOR, "control": Verdict.CONTROL}


@dataclass(frozen=True)
class StoppingRule:
    """How precisely a case should be measured, and below what an effect is none."""

    pairs_floor: int = FEWEST
    pairs_cap: int | None = None
    precision: float | None = None
    margin: float = MARGIN

    @classmethod
    def of(cls, header: RunHeader) -> StoppingRule:
        """The rule of the run's campaign."""
        return cls(header.pairs_floor, header.pairs_cap, header.precision, header.margin)


@dataclass(frozen=True)
class Result:
    """The effect of one treatment on one case; figures in SI units, None if not available."""

    case: str
    workload: str
    #: The treatment's name.
    arm: str
    #: Pairs that count, and rejected runs of this treatment or its baseline.
    pairs: int
    rejected: int
    #: Medians of the figures of merit over these pairs, baseline and treatment, in `unit`.
    off_median: float | None
    on_median: float | None
    unit: str
    #: Estimate and interval; None below six pairs, because every effect needs an interval.
    slowdown: float | None
    slowdown_low: float | None
    slowdown_high: float | None
    #: Interval of the repeated baseline (off against off) and of the control, same baseline.
    noise_floor_low: float | None
    noise_floor_high: float | None
    control_low: float | None
    control_high: float | None
    #: Harmonic means of the writers' total rate, without an application and during its runs.
    writer_rate_alone_b_s: float | None
    writer_rate_b_s: float | None
    verdict: Verdict
    #: Rejected runs: key, outcome, reason.
    rejections: list[dict[str, str]]
    #: Caveats to show with the figures.
    notes: list[str]
    #: What the writers did: `write` into the node's memory or `read` from it; None without writers.
    direction: str | None = None
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
    #: The effect against the control, within pairs: time under the treatment / under the control.
    over_control: float | None = None
    over_control_low: float | None = None
    over_control_high: float | None = None
    #: Interval that covers the next allocation; None below three.
    next_low: float | None = None
    next_high: float | None = None
    #: Median of the ratios to the plain baseline, with the interval of order statistics.
    sign: float | None = None
    sign_low: float | None = None
    sign_high: float | None = None
    #: The slowdown with the first attempt of every run, accepted or rejected.
    first_attempts: float | None = None
    first_attempts_low: float | None = None
    first_attempts_high: float | None = None
    #: `over_control` with the first attempts.
    over_control_first: float | None = None
    over_control_first_low: float | None = None
    over_control_first_high: float | None = None

    def __post_init__(self) -> None:
        for name in _WITH_INTERVAL:
            low, high = getattr(self, f"{name}_low"), getattr(self, f"{name}_high")
            value = getattr(self, name, low)
            if (value is None, low is None) != (high is None, high is None):
                raise ValueError(f"{self.case}/{self.arm}: {name} without its whole interval")

    @property
    def effect(self) -> Estimate | None:
        """`slowdown` with its interval."""
        return known(self.slowdown, self.slowdown_low, self.slowdown_high)

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON holds it."""
        return asdict(self)


def results(samples: pl.DataFrame, requested: StoppingRule = StoppingRule()) -> list[Result]:
    """One row for each case and each treatment with a baseline, in the order they were run."""
    marked = judged(samples)
    return results_of(marked, pair_table(marked), requested)


def results_of(marked: pl.DataFrame, pairs: pl.DataFrame, requested: StoppingRule) -> list[Result]:
    """As `results`, from `analysis.samples.pairs.judged` samples and their `pair_table`."""
    started = marked.group_by("case", maintain_order=True).agg(pl.col("start_s").min())
    first = pair_table(first_attempts(marked))
    marked = marked.select(_USED)
    rows: list[Result] = []
    for case in started.sort("start_s", maintain_order=True)["case"]:
        of_case, of_pairs, of_first = (
            frame.filter(pl.col("case") == case) for frame in (marked, pairs, first)
        )
        rows += _of_case(of_case, of_pairs, of_first, requested)
    return rows


@dataclass(frozen=True)
class _Treated:
    """A treatment of a case with its pairs, and their log times, one array per block."""

    arm: str
    role: Role
    baseline: str
    pairs: pl.DataFrame
    blocks: list[NDArray[np.float64]]
    effect: Estimate | None


def _of_case(
    samples: pl.DataFrame, pairs: pl.DataFrame, first: pl.DataFrame, requested: StoppingRule
) -> list[Result]:
    known = samples.select("arm", "role", "baseline").unique().drop_nulls("baseline")
    of = {arm: (role, baseline) for arm, role, baseline in known.iter_rows()}
    found = []
    for arm in in_order(of):
        chosen = pairs.filter(pl.col("arm") == arm)
        blocks = log_times(chosen)
        found.append(_Treated(arm, *of[arm], chosen, blocks, _estimate(blocks)))
    return [_row(each, found, samples, first, requested) for each in found]


def _estimate(blocks: list[NDArray[np.float64]]) -> Estimate | None:
    return slowdown(np.concatenate(blocks)) if blocks else None


def _row(
    this: _Treated,
    treated: list[_Treated],
    of_case: pl.DataFrame,
    first: pl.DataFrame,
    requested: StoppingRule,
) -> Result:
    # The control and the repeated baseline with the same baseline.
    same_baseline = {each.role: each for each in treated if each.baseline == this.baseline}
    floor, control = same_baseline.get("floor"), same_baseline.get("control")
    over_control = None
    if control and this.role == "effect":
        over_control = _estimate(log_times_between(this.pairs, control.pairs))
    effect, pairs = this.effect, this.pairs
    own = of_case.filter(pl.col("arm") == this.arm)
    either = (pl.col("arm") == this.baseline) | (pl.col("arm") == this.arm)
    lost = of_case.filter(either, status="rejected")
    first_blocks = log_times(first.filter(pl.col("arm") == this.arm))
    first_effect = _estimate(first_blocks) if first.height else effect
    over_first = over_control
    if over_control and control and first.height:
        over_first = _estimate(log_times_of(first, this.arm, control.arm))
    verdict = _OWN_VERDICT.get(this.role) or judge(
        effect,
        floor.effect if floor else None,
        over_control,
        pairs=pairs.height,
        pairs_floor=max(requested.pairs_floor, FEWEST),
        precision=requested.precision,
        margin=requested.margin,
        wrote=pairs["writer_rate_b_s"].null_count() < pairs.height,
        same_host=bool(own["same_host"].any()),
        emulated=bool(emulations([str(name) for name in own["transport"].unique()])),
    )
    directions = own["direction"].drop_nulls()
    return Result(
        case=str(own["case"][0]),
        workload=str(own["workload"][0]),
        arm=this.arm,
        pairs=pairs.height,
        rejected=lost.height,
        off_median=_median(pairs["off"]),
        on_median=_median(pairs["on"]),
        unit=str(own["fom_unit"][0]),
        **_figures("slowdown", effect),
        **_bounds("noise_floor", _ends(floor.effect if floor else None)),
        **_bounds("control", _ends(control.effect if control else None)),
        writer_rate_alone_b_s=_rate(this, pairs["writer_rate_alone_b_s"]),
        writer_rate_b_s=_rate(this, pairs["writer_rate_b_s"]),
        verdict=verdict,
        rejections=_rejections(lost),
        notes=[
            *caveats(own, this.blocks, effect, requested.precision, requested.pairs_cap),
            *selection.warnings(
                this.arm,
                {
                    f"slowdown of {this.arm}": (effect, first_effect),
                    f"time of {this.arm} over the control's": (over_control, over_first),
                },
                _rejected_share(of_case, this, floor, control),
            ),
        ],
        direction=None if directions.is_empty() else str(directions[0]),
        role=this.role,
        baseline=this.baseline,
        factors=levels(str(own["factors"][0])),
        better="higher" if own["fom_better"][0] == "higher" else "lower",
        margin=requested.margin,
        **_figures("over_control", over_control),
        **_bounds("next", next_allocation(this.blocks)),
        **_figures("sign", median_interval(pairs["ratio"].to_list())),
        **_figures("first_attempts", first_effect),
        **_figures("over_control_first", over_first),
    )


def _figures(name: str, of: Estimate | None) -> dict[str, Any]:
    """An estimate as fields of a result."""
    return {name: of.value if of else None, **_bounds(name, _ends(of))}


def _ends(of: Estimate | None) -> tuple[float, float] | None:
    return (of.low, of.high) if of else None


def _bounds(name: str, ends: tuple[float, float] | None) -> dict[str, Any]:
    low, high = ends or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def _rejected_share(of_case: pl.DataFrame, this: _Treated, *others: _Treated | None) -> float:
    """Share of the runs of the treatment, its baseline and the others that were rejected."""
    arms = [this.baseline, this.arm, *(each.arm for each in others if each)]
    runs = pl.any_horizontal(pl.col("arm") == arm for arm in arms) & ~pl.col("warmup")
    rejected = runs & (pl.col("status") == "rejected")
    share = of_case.select(rejected.sum() / runs.sum()).item()
    return float(share or 0)


def levels(text: str) -> dict[str, Level]:
    """Factor -> level, from text of the column `factors`."""
    found: Mapping[str, Level] = json.loads(text)
    return dict(found)


def _median(values: pl.Series) -> float | None:
    median = values.median()
    return float(median) if isinstance(median, float) else None


def _rate(of: _Treated, rates: pl.Series) -> float | None:
    """Harmonic mean of the writers' rates; None for a treatment without writes."""
    if of.role != "effect" or rates.is_empty() or rates.null_count():
        return None
    return mean(rates.to_numpy().tolist(), "higher")


def _rejections(lost: pl.DataFrame) -> list[dict[str, str]]:
    return [
        {"key": key, "outcome": outcome, "reason": reason or ""}
        for key, outcome, reason in lost.select("key", "outcome", "reason").iter_rows()
    ]


#: Case, arm, and the levels of all factors but one.
Sweep = tuple[str, str, tuple[tuple[str, Level], ...]]


def by_level(rows: Iterable[Result], factor: str) -> dict[Sweep, list[Result]]:
    """Effects that differ in the level of `factor` alone, two at least, in their order."""
    found: dict[Sweep, list[Result]] = {}
    for row in rows:
        if row.role == "effect" and factor in row.factors:
            at = tuple(sorted((k, v) for k, v in row.factors.items() if k != factor))
            found.setdefault((row.case, parts_of(row.arm)[0], at), []).append(row)
    return {sweep: rows for sweep, rows in found.items() if len(rows) > 1}
