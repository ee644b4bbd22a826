"""Rails and MPI calls: figures 1 to 3 of the multirail study, for this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from markupsafe import Markup

from analysis.effects.contrasts import Contrast
from analysis.effects.estimate import Result
from analysis.effects.verdict import within
from analysis.remedies.effect import emulated_cases
from analysis.report import plots
from analysis.report.data import RunData
from analysis.report.plots import View
from analysis.report.sections import Files, Section
from analysis.samples.counts import over_ranks
from analysis.samples.pairs import level
from analysis.statistics.aligned_ranks import slowdown
from analysis.statistics.interval import Estimate, Interval, flat, median_interval
from records.arms import parts_of
from records.groups import grouped
from records.units import quantity, scale

MPI, WRITERS = "mpi_rail", "writer_rail"
_TOOL = "tool"
_PAIR = ["block", "pair"]
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
    speed: Estimate | None
    #: Repeatability of the baselines at both, as such a ratio.
    floor: Interval | None
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


def decided(effect: Estimate | None, floor: Estimate | Interval | None, margin: float) -> Finding:
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
    return "no difference" if within(effect.low, effect.high, margin) else "not decided"


def _policy(
    each: Contrast, medians: Mapping[tuple[str, str], float | None], margin: float
) -> PolicyEffect:
    """A price is a ratio of times, so that its inverse is one of speeds; a gain is one already."""
    speed, floor = each.ratio, each.noise_floor
    speed = speed.inverse if speed and each.kind == "price" else speed
    floor = Interval(1 / floor.high, 1 / floor.low) if floor else None
    return PolicyEffect(
        case=each.case,
        factor=each.factor,
        policy=str(each.level),
        reference=str(each.reference),
        arm=parts_of(each.treatment)[0],
        pairs=each.pairs,
        unit=each.unit,
        fom=medians.get((each.case, each.treatment)),
        fom_reference=medians.get((each.case, each.against)),
        speed=speed,
        floor=floor,
        finding=decided(speed, floor, margin),
    )


# Time in MPI calls and sizes of messages, from runs without writers that mpip or tau wrapped.


KINDS = ("point-to-point", "collective")
_WHOLE = "application-time"
_EVENTS = [f"{kind}-{what}" for kind in KINDS for what in ("time", "messages", "sent")]


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
    #: None below six pairs, or if there was no such call.
    ratio: Estimate | None
    finding: Finding


def quiet_runs(counters: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """One row per run without writers whose MPI calls were counted, with a column per event.

    Values are sums over ranks. A run of which a rank has no value is left out, and so are those at
    other levels than the first of further factors. Of a repeated run, the last attempt that counts
    is used.
    """
    names = pl.col("case", "arm", "tool", "event").cast(pl.String)
    timed = pl.col("event").cast(pl.String).is_in([*_EVENTS, _WHOLE])
    own = counters.filter((pl.col("status") == "counts") & timed).with_columns(names)
    identity = ["key", "case", "arm", "tool", "block", "pair"]
    runs = own.group_by(*identity, "event").agg(over_ranks(pl.lit(False)), ranks=pl.len())
    wide = runs.pivot("event", index=[*identity, "ranks"], values="value")
    absent = [name for name in (*_EVENTS, _WHOLE) if name not in wide.columns]
    wide = wide.with_columns(*(pl.lit(None, pl.Float64).alias(name) for name in absent))
    # The factors, but for the tool, that are not at their first level.
    others = pl.col("arm").map_elements(
        lambda name: [factor for factor in parts_of(name)[1] if factor != _TOOL],
        return_dtype=pl.List(pl.String),
    )
    policy = level(MPI).fill_null("default")
    found = (
        wide.drop_nulls([_WHOLE, *(f"{kind}-time" for kind in KINDS)])
        .join(samples.select("key", "start_s", "role", policy=policy), on="key", how="inner")
        .with_columns(others=others, role=pl.col("role").cast(pl.String))
        .filter(pl.col("role").is_in(["baseline", "floor"]) & (pl.col(_WHOLE) > 0))
        .filter(pl.col("others").list.set_difference([MPI]).list.len() == 0)
        .sort("case", "start_s")
    )
    return found.unique(["case", "arm", "block", "pair"], keep="last", maintain_order=True)


def calls(quiet: pl.DataFrame) -> list[Calls]:
    """Figure 1, from runs at the first policy, which names leave out."""
    first = quiet.filter(pl.col("others").list.len() == 0)
    found = []
    for (case, tool), group in first.group_by("case", "tool", maintain_order=True):
        for kind in KINDS:
            sent = group.filter(pl.col(f"{kind}-messages") > 0)
            shares = _per_pair(group, pl.col(f"{kind}-time") / pl.col(_WHOLE))
            sizes = _per_pair(sent, pl.col(f"{kind}-sent") / pl.col(f"{kind}-messages"))
            of = str(case), str(tool), kind, len(shares)
            found.append(Calls(*of, *_middle(shares), *_middle(sizes)))
    return found


def _middle(values: list[float]) -> tuple[Any, float | None, float | None]:
    """Median, None without values, and the ends of its interval."""
    of = median_interval(values)
    value = float(np.median(values)) if values else None
    return value, of.low if of else None, of.high if of else None


def _per_pair(group: pl.DataFrame, value: pl.Expr) -> list[float]:
    """Runs of one pair share its conditions, so that they are one value: their mean."""
    pairs = group.group_by("block", "pair", maintain_order=True).agg(value.mean().alias("value"))
    return [float(each) for each in pairs["value"].drop_nulls()]


def run_calls(quiet: pl.DataFrame) -> list[RunCalls]:
    """Figure 3: every run, in order of time within its case."""
    number = pl.col("start_s").rank("ordinal").over("case", "tool").cast(pl.Int64)
    names = ["case", "tool", "policy", "key", "start_s"]
    return [
        RunCalls(**{name: row[name] for name in (*names, "number")}, kind=kind,
                 time_s=row[f"{kind}-time"] / row["ranks"])
        for row in quiet.with_columns(number=number).iter_rows(named=True)
        for kind in KINDS
    ]  # fmt: skip


def changes(quiet: pl.DataFrame, margin: float) -> list[CallsEffect]:
    """Figure 3's policies against the first one."""
    found = []
    for (case, tool), group in quiet.group_by("case", "tool", maintain_order=True):
        first = group.filter(pl.col("others").list.len() == 0)
        if first.is_empty():
            continue
        reference = str(first["policy"][0])
        others = group.filter(pl.col("policy") != reference)["policy"].unique(maintain_order=True)
        for kind in KINDS:
            base = _times(first, kind)
            floor = _ratio(base.with_columns(own="repeated", repeated=None))
            for policy in sorted(others):
                own = _times(group.filter(pl.col("policy") == policy), kind)
                pairs = base.join(own.select(*_PAIR, own="off"), on=_PAIR, maintain_order="left")
                ratio, both = _ratio(pairs), pairs.drop_nulls(["own", "off"]).height
                of = (str(case), str(tool), kind, policy, reference, both)
                found.append(CallsEffect(*of, ratio, decided(ratio, floor, margin)))
    return found


def _times(group: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Times in one kind of call at one policy, a row per pair: `off`, and `repeated` if it was."""
    time, role = pl.col(f"{kind}-time"), pl.col("role")
    off, repeated = (time.filter(role == name).last() for name in ("baseline", "floor"))
    return group.group_by(_PAIR).agg(off=off, repeated=repeated).sort(_PAIR)


def _ratio(pairs: pl.DataFrame) -> Estimate | None:
    """`own` / `off` of pairs with both; None below six, or if there was no such call."""
    found = pairs.drop_nulls(["own", "off"]).select(
        pl.col("own", "off", "repeated").cast(pl.Float64)
    )
    if found.is_empty() or not (found.select("own", "off").to_numpy() > 0).all():
        return None
    columns = found if found["repeated"].null_count() < found.height else found.drop("repeated")
    return slowdown(np.log(columns.to_numpy()))


@dataclass(frozen=True)
class RailFigures:
    """Figure 1 (`calls`), figure 2 (`policies`), figure 3 (`runs`, and `changes` between them)."""

    calls: list[Calls]
    policies: list[PolicyEffect]
    runs: list[RunCalls]
    changes: list[CallsEffect]


#: Table next to the page -> its field.
_TABLES = {
    "mpi_calls.csv": "calls",
    "rails.csv": "policies",
    "rail_runs.csv": "runs",
    "rail_calls.csv": "changes",
}


def rail_figures(run: RunData) -> RailFigures:
    """All figures of a run."""
    quiet, margin = quiet_runs(run.counters, run.samples), run.header.margin
    speeds = policies(run.results, run.contrasts, margin)
    return RailFigures(calls(quiet), speeds, run_calls(quiet), changes(quiet, margin))


def rail_files(runs: Sequence[RunData]) -> Files:
    """The tables of `_TABLES` that have rows, of all runs."""
    figures = [(run, rail_figures(run)) for run in runs]
    tables = {
        name: [
            {"run": run.header.run, "emulated": "; ".join(run.emulated()), **flat(row)}
            for run, found in figures
            for row in getattr(found, field)
        ]
        for name, field in _TABLES.items()
    }
    return {
        name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in tables.items() if rows
    }


# The figures.


def calls_plot(rows: Sequence[Calls], name: str) -> Markup:
    """Figure 1: one row per case; share of time on the left, mean message on the right."""
    cases = list(dict.fromkeys(row.case for row in rows))
    with plots.drawing(1.2 + 0.5 * len(cases)) as figure:
        share, size = figure.subplots(1, 2, sharey=True)
        for index, kind in enumerate(KINDS):
            own = [row for row in rows if row.kind == kind]
            places = [cases.index(row.case) + 0.4 * (index - 0.5) for row in own]
            css, marker = plots.level_look(index)
            colour = plots.light(css)
            share.barh(places, [100 * row.share for row in own], 0.36, color=colour, label=kind)
            for place, row in zip(places, own, strict=True):
                if row.share_low is not None and row.share_high is not None:
                    ends = 100 * row.share_low, 100 * row.share_high
                    share.hlines(place, *ends, color=plots.light("ink"), lw=1.4)
                if row.message_b is not None:
                    size.plot(row.message_b, place, marker, color=colour, ms=6)
                if row.message_low_b is not None and row.message_high_b is not None:
                    size.hlines(place, row.message_low_b, row.message_high_b, color=colour, lw=2.5)
        share.set_yticks(range(len(cases)), cases)
        share.set_ylim(len(cases) - 0.5, -0.5)
        share.set_xlabel("share of the time, %")
        size.set_xlabel("mean message, B")
        plots.logarithmic(size, "x")
        for axes in (share, size):
            axes.grid(axis="x")
        plots.legend(figure, 2)
        values = "; ".join(
            f"{row.case} {row.kind} {row.share:.1%} of the time"
            + ("" if row.message_b is None else f", mean message {quantity(row.message_b, 'B', 3)}")
            for row in rows
        )
        title = "Time in MPI calls and mean size of a message"
        return plots.themed_svg(figure, name, f"{title}: {values}.")


def policies_plot(rows: Sequence[PolicyEffect], name: str) -> Markup:
    """Figure 2: one line per case and policy; speed relative to the first policy."""
    policies = list(dict.fromkeys(row.policy for row in rows))
    named = [f"{row.case} {row.policy}" for row in rows]
    with plots.drawing(1.0 + 0.24 * len(rows)) as figure:
        axes = plots.rows_axes(figure, named, f"speed / speed at {rows[0].reference}")
        for place, row in enumerate(rows):
            plots.band(axes, row.floor, place)
            css, marker = plots.level_look(policies.index(row.policy))
            plots.interval(axes, row.speed, place, css, marker, f"policy-{place}")
        values = plots.said(zip(named, (row.speed for row in rows), strict=True))
        return plots.themed_svg(figure, name, f"Speed under each rail policy: {values}.")


def runs_plot(rows: Sequence[RunCalls], changed: Sequence[CallsEffect], name: str) -> Markup:
    """Figure 3: time in each kind of call against the run's number, one colour per policy.

    `changed`: what each policy changes in these runs.
    """
    policies = sorted({row.policy for row in rows}, key=lambda each: (each != "default", each))
    divisor, unit = scale(max(row.time_s for row in rows), "s")
    with plots.drawing(4.2) as figure:
        panels = figure.subplots(len(KINDS), 1, sharex=True)
        for kind, axes in zip(KINDS, panels, strict=True):
            for index, policy in enumerate(policies):
                own = [row for row in rows if (row.kind, row.policy) == (kind, policy)]
                css, marker = plots.level_look(index)
                label = policy if kind == KINDS[0] else ""
                look: dict[str, Any] = {"color": plots.light(css), "ms": 4, "mew": 0, "alpha": 0.7}
                points = [row.number for row in own], [row.time_s / divisor for row in own]
                axes.plot(*points, marker, label=label, gid=f"runs-{index}", **look)
            axes.set_title(kind, loc="left", fontsize=10)
            plots.finish(axes, "", f"time in {unit}", ylim=(0, None))
        panels[-1].set_xlabel("run, in order of time")
        plots.legend(figure, 4)
        ratios = plots.said((f"{row.kind} at {row.policy}", row.ratio) for row in changed)
        title = "Time in MPI calls in each run, by rail policy; times relative to the first"
        return plots.themed_svg(figure, name, f"{title}: {ratios}.")


#: Most cases with a figure of single runs; rail_runs.csv has all.
MOST_CASES = 8


def rails_view(run: RunData, name: str) -> View | None:
    """The section of a run; None if it compared no rails and counted no MPI calls."""
    found = rail_figures(run)
    if not found.policies and not found.calls:
        return None
    texts = dict.fromkeys(text for each in emulated_cases(run.samples).values() for text in each)
    groups = grouped((compared(row), row) for row in found.policies)
    # Without several policies it would be a figure of noise.
    of_case = grouped((each.case, each) for each in found.runs if found.changes)
    changes_of = grouped((each.case, each) for each in found.changes)
    return View(
        calls_svg=calls_plot(found.calls, f"{name}c") if found.calls else None,
        calls=found.calls,
        # What was compared, in words, and its figure.
        policies_svgs=[
            (what, policies_plot(own, f"{name}p{i}"))
            for i, (what, own) in enumerate(groups.items())
        ],
        policies=[(compared(row), row) for row in found.policies],
        runs_svgs=[
            (case, runs_plot(own, changes_of.get(case, []), f"{name}r{i}"))
            for i, (case, own) in enumerate(list(of_case.items())[:MOST_CASES])
        ],
        changes=found.changes,
        # Cases with single runs, drawn or not.
        cases=len(of_case),
        margin=run.header.margin,
        emulated=list(texts),
    )


def compared(row: PolicyEffect) -> str:
    """What a comparison varies, and under which traffic."""
    if row.factor == MPI:
        return f"rails of MPI, {'without writers' if row.arm == 'off' else f'under {row.arm}'}"
    return f"rails of the writers, under {row.arm}"


SECTIONS = [Section("run", 20, "rails", rails_view, "Rails and MPI calls", rail_files)]
