"""From the samples of a run to its results: one row for each case and arm.

samples = read_run(run)
rows = results(samples.frame, StoppingRule.of(load_header(run)))
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from analysis.caveats import caveats
from analysis.pairs import SILENT_ARMS, in_order, judged, pair_table, ratio_blocks
from analysis.run import RunHeader
from analysis.statistics.blocks import blocked_median
from analysis.statistics.interval import FEWEST, Estimate
from analysis.statistics.means import mean
from analysis.verdict import Verdict, judge

_OWN_VERDICT: dict[str, Verdict] = {"aa": "noise floor", "spin": "control"}


@dataclass(frozen=True)
class StoppingRule:
    """How well a case was to be measured."""

    pairs_floor: int = FEWEST
    pairs_cap: int | None = None
    precision: float | None = None

    @classmethod
    def of(cls, header: RunHeader) -> StoppingRule:
        """What the campaign of a run asked for."""
        return cls(header.pairs_floor, header.pairs_cap, header.precision)


@dataclass(frozen=True)
class Result:
    """What one arm did to one case; figures in SI units, None where there is none."""

    case: str
    workload: str
    arm: str
    #: Pairs that count, and runs of this arm or of `off` that do not.
    pairs: int
    rejected: int
    #: Medians of the figures of merit of the pairs that count, in `unit`.
    off_median: float | None
    on_median: float | None
    unit: str
    #: Estimate and interval; None below six pairs, since no effect goes without its interval.
    slowdown: float | None
    slowdown_low: float | None
    slowdown_high: float | None
    #: Interval of the A/A arm (off against off) and of the control of the same case.
    noise_floor_low: float | None
    noise_floor_high: float | None
    control_low: float | None
    control_high: float | None
    #: Harmonic means of all writers' rate together, without an application and during its runs.
    writer_rate_alone_b_s: float | None
    writer_rate_b_s: float | None
    verdict: Verdict
    #: Runs that do not count: key, outcome, reason.
    rejections: list[dict[str, str]]
    #: Caveats that belong beside the figures.
    notes: list[str]
    #: What the writers did: `write` into the node's memory, or `read` from it; None without any.
    direction: str | None = None

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
    """One row for each case and each of its arms but `off`, in the order the cases were run."""
    marked = judged(samples)
    return results_of(marked, pair_table(marked), asked)


def results_of(marked: pl.DataFrame, pairs: pl.DataFrame, asked: StoppingRule) -> list[Result]:
    """As `results`, from `analysis.pairs.judged` samples and their `pair_table`."""
    started = marked.group_by("case", maintain_order=True).agg(pl.col("start_s").min())
    rows = []
    for case in started.sort("start_s", maintain_order=True)["case"]:
        of_case = marked.filter(pl.col("case") == case)
        of_pairs = pairs.filter(pl.col("case") == case)
        arms = in_order(str(arm) for arm in of_case["arm"].unique() if arm != "off")
        blocks = {arm: ratio_blocks(of_pairs, case, arm) for arm in arms}
        effects = {arm: blocked_median(ratios) for arm, ratios in blocks.items()}
        rows += [_row(arm, of_case, of_pairs, blocks[arm], effects, asked) for arm in arms]
    return rows


def _row(
    arm: str,
    of_case: pl.DataFrame,
    pairs: pl.DataFrame,
    blocks: list[list[float]],
    effects: dict[str, Estimate | None],
    asked: StoppingRule,
) -> Result:
    effect, noise_floor, control = effects[arm], effects.get("aa"), effects.get("spin")
    chosen = pairs.filter(pl.col("arm") == arm)
    own = of_case.filter(pl.col("arm") == arm)
    lost = of_case.filter(pl.col("arm").cast(pl.String).is_in(["off", arm]), status="rejected")
    verdict = _OWN_VERDICT.get(arm) or judge(
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
        arm=arm,
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
        writer_rate_alone_b_s=_rate(arm, chosen["writer_rate_alone_b_s"]),
        writer_rate_b_s=_rate(arm, chosen["writer_rate_b_s"]),
        verdict=verdict,
        rejections=_rejections(lost),
        notes=caveats(own, blocks, effect, asked.precision, asked.pairs_cap),
        direction=None if directions.is_empty() else str(directions[0]),
    )


def _median(values: pl.Series) -> float | None:
    median = values.median()
    return float(median) if isinstance(median, float) else None


def _rate(arm: str, rates: pl.Series) -> float | None:
    """Harmonic mean of the writers' rates; None for arms that do not write."""
    if arm in SILENT_ARMS or rates.is_empty() or rates.null_count():
        return None
    return mean(rates.to_numpy().tolist(), "higher")


def _rejections(lost: pl.DataFrame) -> list[dict[str, str]]:
    return [
        {"key": key, "outcome": outcome, "reason": reason or ""}
        for key, outcome, reason in lost.select("key", "outcome", "reason").iter_rows()
    ]
