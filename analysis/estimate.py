"""Results of a run from its samples: one row per case and treatment.

samples = read_run(run)
rows = results(samples.frame, StoppingRule.of(load_header(run)))
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from analysis.arms import Role
from analysis.caveats import caveats
from analysis.pairs import in_order, judged, pair_table, ratio_blocks
from analysis.run import RunHeader
from analysis.sample import Better, Level
from analysis.statistics.blocks import blocked_median
from analysis.statistics.interval import FEWEST, Estimate
from analysis.statistics.means import mean
from analysis.verdict import Verdict, judge

_OWN_VERDICT: dict[Role, Verdict] = {"floor": Verdict.NOISE_FLOOR, "control": Verdict.CONTROL}


@dataclass(frozen=True)
class StoppingRule:
    """How precisely a case should be measured."""

    pairs_floor: int = FEWEST
    pairs_cap: int | None = None
    precision: float | None = None

    @classmethod
    def of(cls, header: RunHeader) -> StoppingRule:
        """The rule of the run's campaign."""
        return cls(header.pairs_floor, header.pairs_cap, header.precision)


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
    #: Interval of the A/A comparison (off against off) and of the control with the same baseline.
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

    def __post_init__(self) -> None:
        for name in ("slowdown", "noise_floor", "control"):
            low, high = getattr(self, f"{name}_low"), getattr(self, f"{name}_high")
            value = getattr(self, name, low)
            if (value is None, low is None) != (high is None, high is None):
                raise ValueError(f"{self.case}/{self.arm}: {name} without its whole interval")

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON holds it."""
        return asdict(self)


def results(samples: pl.DataFrame, asked: StoppingRule = StoppingRule()) -> list[Result]:
    """One row for each case and each treatment with a baseline, in the order they were run."""
    marked = judged(samples)
    return results_of(marked, pair_table(marked), asked)


def results_of(marked: pl.DataFrame, pairs: pl.DataFrame, asked: StoppingRule) -> list[Result]:
    """As `results`, from `analysis.pairs.judged` samples and their `pair_table`."""
    started = marked.group_by("case", maintain_order=True).agg(pl.col("start_s").min())
    rows: list[Result] = []
    for case in started.sort("start_s", maintain_order=True)["case"]:
        of_case = marked.filter(pl.col("case") == case)
        of_pairs = pairs.filter(pl.col("case") == case)
        rows += _of_case(of_case, of_pairs, str(case), asked)
    return rows


@dataclass(frozen=True)
class _Treated:
    """A treatment of a case with its ratios, one list per block."""

    arm: str
    role: Role
    baseline: str
    blocks: list[list[float]]
    effect: Estimate | None


def _of_case(
    samples: pl.DataFrame, pairs: pl.DataFrame, case: str, asked: StoppingRule
) -> list[Result]:
    known = samples.select("arm", "role", "baseline").unique().drop_nulls("baseline")
    of = {arm: (role, baseline) for arm, role, baseline in known.iter_rows()}
    found = []
    for arm in in_order(of):
        role, baseline = of[arm]
        blocks = ratio_blocks(pairs, case, arm)
        found.append(_Treated(arm, role, baseline, blocks, blocked_median(blocks)))
    return [_row(each, found, samples, pairs, asked) for each in found]


def _row(
    this: _Treated,
    treated: list[_Treated],
    of_case: pl.DataFrame,
    pairs: pl.DataFrame,
    asked: StoppingRule,
) -> Result:
    # The control and the noise floor with the same baseline.
    same_baseline = {each.role: each.effect for each in treated if each.baseline == this.baseline}
    effect, noise_floor, control = (
        this.effect,
        same_baseline.get("floor"),
        same_baseline.get("control"),
    )
    chosen = pairs.filter(pl.col("arm") == this.arm)
    own = of_case.filter(pl.col("arm") == this.arm)
    both = pl.col("arm").cast(pl.String).is_in([this.baseline, this.arm])
    lost = of_case.filter(both, status="rejected")
    verdict = _OWN_VERDICT.get(this.role) or judge(
        effect,
        noise_floor,
        control,
        pairs=chosen.height,
        pairs_floor=max(asked.pairs_floor, FEWEST),
        precision=asked.precision,
        same_host=bool(own["same_host"].any()),
    )
    directions = own["direction"].drop_nulls()
    return Result(
        case=str(own["case"][0]),
        workload=str(own["workload"][0]),
        arm=this.arm,
        pairs=chosen.height,
        rejected=lost.height,
        off_median=_median(chosen["off"]),
        on_median=_median(chosen["on"]),
        unit=str(own["fom_unit"][0]),
        slowdown=effect.value if effect else None,
        slowdown_low=effect.low if effect else None,
        slowdown_high=effect.high if effect else None,
        noise_floor_low=noise_floor.low if noise_floor else None,
        noise_floor_high=noise_floor.high if noise_floor else None,
        control_low=control.low if control else None,
        control_high=control.high if control else None,
        writer_rate_alone_b_s=_rate(this, chosen["writer_rate_alone_b_s"]),
        writer_rate_b_s=_rate(this, chosen["writer_rate_b_s"]),
        verdict=verdict,
        rejections=_rejections(lost),
        notes=caveats(own, this.blocks, effect, asked.precision, asked.pairs_cap),
        direction=None if directions.is_empty() else str(directions[0]),
        role=this.role,
        baseline=this.baseline,
        factors=levels(str(own["factors"][0])),
        better="higher" if own["fom_better"][0] == "higher" else "lower",
    )


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
