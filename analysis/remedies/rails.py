"""Speed of the application under each rail policy: figure 2 of the multirail study as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from analysis.counts.counters import without_tool
from analysis.effects.contrasts import Contrast
from analysis.effects.estimate import Result
from analysis.effects.verdict import within
from analysis.statistics.aligned_ranks import slowdown
from analysis.statistics.interval import CONFIDENCE, Estimate, known, median_interval
from nimc.records.arms import LEVELS

MPI, WRITERS = "mpi_rail", "writer_rail"
_TOOL = "tool"
Finding = Literal[
    "more", "less", "no difference", "not decided", "baseline unstable", "baseline not repeated",
    "too few pairs",
]  # fmt: skip


@dataclass(frozen=True)
class PolicyEffect:
    """One policy of one case, compared with the factor's first one within pairs."""

    case: str
    factor: str
    policy: str
    reference: str
    #: The arm under which both ran: `on`, or `off` without writers.
    arm: str
    pairs: int
    unit: str
    #: Median figures of merit of all runs.
    fom: float | None
    fom_reference: float | None
    #: Speed of the application at the policy / at the reference; None below six pairs.
    speed: float | None
    speed_low: float | None
    speed_high: float | None
    #: Repeatability of the baselines at both, as such a ratio.
    floor_low: float | None
    floor_high: float | None
    finding: Finding


def policies(
    results: Sequence[Result], contrasts: Sequence[Contrast], margin: float
) -> list[PolicyEffect]:
    """Figure 2: MPI's policies without writers, then under them, then the writers' policies."""
    medians = {(row.case, row.arm): row.on_median for row in results}
    medians |= {(row.case, row.baseline): row.off_median for row in results}
    chosen = [c for c in contrasts if c.factor in (MPI, WRITERS) and _TOOL not in c.at]
    chosen.sort(key=lambda each: (each.factor != MPI, each.kind == "gain"))
    return [_policy(each, medians, margin) for each in chosen]


def decided(effect: Estimate | None, floor: Estimate | None, margin: float) -> Finding:
    """What an interval carries, by the rules of `verdict.judge`.

    `floor`: the repeated baseline against the baseline. A difference needs the whole interval on
    one side of 1, and the estimate beyond the whole of `floor`.
    """
    if effect is None:
        return "too few pairs"
    if floor is None:
        return "baseline not repeated"
    if not floor.low <= 1 <= floor.high:
        return "baseline unstable"
    if effect.low > 1 and effect.value > floor.high:
        return "more"
    if effect.high < 1 and effect.value < floor.low:
        return "less"
    same = within(effect.low, effect.high, margin)
    return "no difference" if same else "not decided"


def _policy(
    each: Contrast, medians: Mapping[tuple[str, str], float | None], margin: float
) -> PolicyEffect:
    """A price is a ratio of times, so that its inverse is one of speeds; a gain is one already."""
    speed = known(each.ratio, each.ratio_low, each.ratio_high)
    if speed and each.kind == "price":
        speed = Estimate(1 / speed.value, 1 / speed.high, 1 / speed.low, speed.confidence)
    low, high = each.noise_floor_low, each.noise_floor_high
    floor = None
    if low is not None and high is not None:
        floor = Estimate((1 / low + 1 / high) / 2, 1 / high, 1 / low, CONFIDENCE)
    return PolicyEffect(
        case=each.case,
        factor=each.factor,
        policy=str(each.level),
        reference=str(each.reference),
        arm=each.treatment.partition(LEVELS)[0],
        pairs=each.pairs,
        unit=each.unit,
        fom=medians.get((each.case, each.treatment)),
        fom_reference=medians.get((each.case, each.against)),
        speed=speed.value if speed else None,
        speed_low=speed.low if speed else None,
        speed_high=speed.high if speed else None,
        floor_low=floor.low if floor else None,
        floor_high=floor.high if floor else None,
        finding=decided(speed, floor, margin),
    )


# Time in MPI calls and sizes of messages: figures 1 and 3 of the multirail study as data.
#
# From runs without writers that a tool of MPI calls wrapped (mpip, tau).


KINDS = ("point-to-point", "collective")
_WHOLE = "application-time"
_EVENTS = [f"{kind}-{what}" for kind in KINDS for what in ("time", "messages", "sent")]
_LEVEL = pl.col("factors").cast(pl.String).str.json_path_match(f"$.{MPI}")
#: Names without a level, or with that of MPI's rails only.
_ONLY_RAIL = pl.col("plain").str.contains(rf"^[^@]+(@{MPI}=[^,]+)?$")


@dataclass(frozen=True)
class Calls:
    """One kind of MPI call of one case, at MPI's first policy: medians over pairs."""

    case: str
    tool: str
    kind: str
    pairs: int
    #: Of the application's time, all ranks together. The interval is None below six pairs.
    share: float
    share_low: float | None
    share_high: float | None
    #: Mean size of a message; None if none was sent, or the tool does not say.
    message_b: float | None
    message_low_b: float | None
    message_high_b: float | None


@dataclass(frozen=True)
class RunCalls:
    """Time in one kind of MPI call in one run, mean over its ranks."""

    case: str
    tool: str
    policy: str
    kind: str
    #: Its place among the case's runs of this figure by time, from 1.
    number: int
    key: str
    start_s: float
    time_s: float


@dataclass(frozen=True)
class CallsEffect:
    """Time in one kind of call at a policy / at the first one, within pairs."""

    case: str
    tool: str
    kind: str
    policy: str
    reference: str
    pairs: int
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    finding: Finding


class _Times(NamedTuple):
    """Times in one kind of call at one policy by (block, pair): of the baseline and its repeat."""

    off: dict[tuple[int, int], float]
    repeated: dict[tuple[int, int], float]


def quiet_runs(counters: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """One row per run without writers whose MPI calls were counted, with a column per event.

    Values are sums over ranks. A run of which a rank has no value is left out. Of a repeated run,
    the last attempt that counts is used.
    """
    names = pl.col("case", "arm", "tool", "event").cast(pl.String)
    timed = pl.col("event").cast(pl.String).is_in([*_EVENTS, _WHOLE])
    own = counters.filter((pl.col("status") == "counts") & timed).with_columns(names)
    runs = own.group_by("key", "case", "arm", "tool", "block", "pair", "event").agg(
        pl.when(pl.col("value").is_null().any())
        .then(None)
        .otherwise(pl.col("value").sum())
        .alias("value"),
        ranks=pl.len(),
    )
    identity = ["key", "case", "arm", "tool", "block", "pair", "ranks"]
    wide = runs.pivot("event", index=identity, values="value")
    absent = [name for name in (*_EVENTS, _WHOLE) if name not in wide.columns]
    wide = wide.with_columns(*(pl.lit(None, pl.Float64).alias(name) for name in absent))
    needed = [_WHOLE, *(f"{kind}-time" for kind in KINDS)]
    plain = pl.col("arm").map_elements(without_tool, return_dtype=pl.String)
    starts = samples.select("key", "start_s", "role", level=_LEVEL)
    found = (
        wide.drop_nulls(needed)
        .join(starts, on="key", how="inner")
        .with_columns(plain=plain, role=pl.col("role").cast(pl.String))
        .filter(pl.col("role").is_in(["baseline", "floor"]) & (pl.col(_WHOLE) > 0))
        .with_columns(policy=pl.col("level").fill_null("default"))
        .filter(_ONLY_RAIL)
        .sort("case", "start_s")
    )
    return found.unique(["case", "arm", "block", "pair"], keep="last", maintain_order=True)


def calls(quiet: pl.DataFrame) -> list[Calls]:
    """Figure 1, from runs at the first policy, which names leave out."""
    first = quiet.filter(~pl.col("plain").str.contains(LEVELS, literal=True))
    found = []
    for (case, tool), group in first.group_by("case", "tool", maintain_order=True):
        for kind in KINDS:
            sent = group.filter(pl.col(f"{kind}-messages") > 0)
            shares = _per_pair(group, pl.col(f"{kind}-time") / pl.col(_WHOLE))
            sizes = _per_pair(sent, pl.col(f"{kind}-sent") / pl.col(f"{kind}-messages"))
            share, size = median_interval(shares), median_interval(sizes)
            found.append(
                Calls(
                    case=str(case),
                    tool=str(tool),
                    kind=kind,
                    pairs=len(shares),
                    share=float(np.median(shares)),
                    share_low=share.low if share else None,
                    share_high=share.high if share else None,
                    message_b=float(np.median(sizes)) if sizes else None,
                    message_low_b=size.low if size else None,
                    message_high_b=size.high if size else None,
                )
            )
    return found


def _per_pair(group: pl.DataFrame, value: pl.Expr) -> list[float]:
    """Runs of one pair share its conditions, so that they are one value: their mean."""
    pairs = group.group_by("block", "pair", maintain_order=True).agg(value.mean().alias("value"))
    return [float(each) for each in pairs["value"].drop_nulls()]


def run_calls(quiet: pl.DataFrame) -> list[RunCalls]:
    """Figure 3: every run, in order of time within its case."""
    numbered = quiet.with_columns(number=pl.col("start_s").rank("ordinal").over("case", "tool"))
    return [
        RunCalls(
            case=row["case"],
            tool=row["tool"],
            policy=row["policy"],
            kind=kind,
            number=int(row["number"]),
            key=row["key"],
            start_s=row["start_s"],
            time_s=row[f"{kind}-time"] / row["ranks"],
        )
        for row in numbered.iter_rows(named=True)
        for kind in KINDS
    ]


def changes(quiet: pl.DataFrame, margin: float) -> list[CallsEffect]:
    """Figure 3's policies against the first one."""
    found = []
    for (case, tool), group in quiet.group_by("case", "tool", maintain_order=True):
        first = group.filter(~pl.col("plain").str.contains(LEVELS, literal=True))
        if first.is_empty():
            continue
        reference = str(first["policy"][0])
        others = group.filter(pl.col("policy") != reference)["policy"].unique(maintain_order=True)
        for kind in KINDS:
            base = _times(first, kind)
            floor = _ratio(base.repeated, _Times(base.off, {}))
            for policy in sorted(others):
                own = _times(group.filter(pl.col("policy") == policy), kind).off
                ratio = _ratio(own, base)
                found.append(
                    CallsEffect(
                        case=str(case),
                        tool=str(tool),
                        kind=kind,
                        policy=policy,
                        reference=reference,
                        pairs=len(own.keys() & base.off.keys()),
                        ratio=ratio.value if ratio else None,
                        ratio_low=ratio.low if ratio else None,
                        ratio_high=ratio.high if ratio else None,
                        finding=decided(ratio, floor, margin),
                    )
                )
    return found


def _times(group: pl.DataFrame, kind: str) -> _Times:
    off, repeated = (
        {
            (row["block"], row["pair"]): row[f"{kind}-time"]
            for row in group.filter(pl.col("role") == role).iter_rows(named=True)
        }
        for role in ("baseline", "floor")
    )
    return _Times(off, repeated)


def _ratio(own: Mapping[tuple[int, int], float], base: _Times) -> Estimate | None:
    """`own` / base within common pairs; None below six, or if there was no such call."""
    pairs = sorted(own.keys() & base.off.keys())
    times = np.array(
        [(own[pair], base.off[pair], base.repeated.get(pair, np.nan)) for pair in pairs]
    )
    if not len(pairs) or not (times[:, :2] > 0).all():
        return None
    return slowdown(np.log(times if np.isfinite(times[:, 2]).any() else times[:, :2]))


# The data of figures 1 to 3 of the multirail study for one run, and as tables.


@dataclass(frozen=True)
class RailFigures:
    """Figure 1 (`calls`), figure 2 (`policies`), figure 3 (`runs`, and `changes` between them)."""

    calls: list[Calls]
    policies: list[PolicyEffect]
    runs: list[RunCalls]
    changes: list[CallsEffect]

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Name of a table of `TABLES` -> its rows."""
        return {
            name: [asdict(row) for row in getattr(self, field)] for name, field in TABLES.items()
        }


#: Table -> its field.
TABLES = {
    "mpi_calls": "calls",
    "rails": "policies",
    "rail_runs": "runs",
    "rail_calls": "changes",
}


def rail_figures(
    counters: pl.DataFrame,
    samples: pl.DataFrame,
    results: Sequence[Result],
    contrasts: Sequence[Contrast],
    margin: float,
) -> RailFigures:
    """From `counters.read_counters`, the `pairs.judged` samples and the estimates of one run."""
    quiet = quiet_runs(counters, samples)
    return RailFigures(
        calls(quiet),
        policies(results, contrasts, margin),
        run_calls(quiet),
        changes(quiet, margin),
    )
