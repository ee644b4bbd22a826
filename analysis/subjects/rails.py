"""Rails and MPI calls: figures 1 to 3 of the multirail study, for this machine.

Calls were counted by mpip, in runs without writers. A difference is named if its whole
interval lies on one side of 1, and the estimate beyond what repetitions of the baseline show.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import polars as pl

from analysis.questions.estimators import median, ratio, stated
from analysis.questions.question import INCONCLUSIVE, Limit, Question, columns_of, ends_of, shared
from analysis.questions.rows import PAIR
from analysis.questions.shown import section
from analysis.report.data import RunData
from analysis.samples.counts import over_ranks
from analysis.samples.pairs import level
from analysis.statistics.interval import Interval
from records.arms import level_text, parts_of

MPI, WRITERS = "mpi_rail", "writer_rail"
KINDS = ("point-to-point", "collective")
_TOOL, _WHOLE = "tool", "application-time"
_EVENTS = [f"{kind}-{what}" for kind in KINDS for what in ("time", "messages", "sent")] + [_WHOLE]
_RULE = (
    " A difference is named if its whole interval lies on one side of 1, and the estimate beyond"
    " what repetitions of the baseline show. One comparison in twenty gets there by chance."
)


@cache
def published() -> dict[str, Any]:
    """What the study says of each workload, by figure; its text has no other figures."""
    record: dict[str, Any] = json.loads(Path(__file__).with_name("multirail.json").read_text())
    return record


def _beside(figure: str) -> Callable[[pl.DataFrame], list[str]]:
    """What was published of the workloads of an answer, MPI only, as its sentence."""
    return partial(_published, figure)


def _published(figure: str, table: pl.DataFrame) -> list[str]:
    cases = {name.partition("@")[0] for name in table["case"].cast(pl.String).unique()}
    texts = [f"{name}: {text}" for name, text in published()[figure].items() if name in cases]
    return [f"Published ({published()['source']}): {'; '.join(texts)}."] if texts else []


def _limits(estimate: str, more: str, less: str) -> tuple[Limit, ...]:
    """The words of a ratio with the `floor` and the `margin` of its row."""
    value, low, high = (pl.col(f"{estimate}{end}") for end in ("", "_low", "_high"))
    floor_low, floor_high, margin = (pl.col(name) for name in ("floor_low", "floor_high", "margin"))
    compared = low.is_not_null()
    steady = (floor_low <= 1) & (floor_high >= 1)
    return (
        Limit(INCONCLUSIVE, when=compared & floor_low.is_null(), why="baseline not repeated"),
        Limit(INCONCLUSIVE, when=compared & ~steady, why="baseline unstable"),
        Limit(more, when=(low > 1) & (value > floor_high)),
        Limit(less, when=(high < 1) & (value < floor_low)),
        Limit("no difference", when=(low >= 1 / (1 + margin)) & (high <= 1 + margin)),
    )


def _policies(run: RunData) -> pl.DataFrame:
    """A row per policy: MPI's without writers, then under them, then the writers' policies.

    A price is a ratio of times, so that its inverse is one of speeds; a gain is one already.
    """
    medians = {(row.case, row.arm): row.on_median for row in run.results}
    medians |= {(row.case, row.baseline): row.off_median for row in run.results}
    chosen = [
        contrast
        for contrast in run.contrasts
        if contrast.factor in (MPI, WRITERS) and _TOOL not in contrast.at
    ]
    chosen.sort(key=lambda contrast: (contrast.factor != MPI, contrast.kind == "gain"))
    rows = []
    for contrast in chosen:
        speed = (
            contrast.ratio.inverse
            if contrast.ratio and contrast.kind == "price"
            else contrast.ratio
        )
        row: dict[str, Any] = {name: getattr(contrast, name) for name in ("case", "factor", "unit")}
        row |= {
            "n": contrast.pairs,
            "policy": level_text(contrast.level),
            "reference": level_text(contrast.reference),
            "arm": parts_of(contrast.treatment)[0],
            "fom": medians.get((contrast.case, contrast.treatment)),
            "fom_reference": medians.get((contrast.case, contrast.against)),
            "margin": run.header.margin,
        }
        floor = contrast.noise_floor and Interval(
            1 / contrast.noise_floor.high, 1 / contrast.noise_floor.low
        )
        rows.append(row | columns_of("speed", speed) | ends_of("floor", floor))
    return pl.DataFrame(rows, infer_schema_length=None)


POLICIES = Question(
    name="rails",
    title="Figure 2 of the multirail study: speed under each rail policy",
    text="Speed of the application divided by that at the first policy, within pairs; above 1 the"
    f" policy is faster. Band: repeatability of the baselines of both.{_RULE}",
    rows=_policies,
    by=("factor", "arm", "case", "policy"),
    estimates={"speed": stated("speed")},
    facts=shared(
        *("n", "reference", "fom", "fom_reference", "unit", "floor_low", "floor_high", "margin")
    ),
    limits=_limits("speed", "faster", "slower"),
    sentences=_beside("figure_2"),
    columns=("fom", "fom_reference", "reference", "floor_low", "floor_high", "n", "word"),
    headings={
        "arm": "under",
        "speed": "speed / speed at the first policy",
        "fom": "figure of merit",
        "fom_reference": "at the first policy",
        "reference": "first policy",
        "floor_low": "baseline repeated, from",
        "floor_high": "to",
    },
    units={"fom": "unit", "fom_reference": "unit"},
    axes=("policy",),
    apart=("factor", "arm"),
    behind="floor",
)


# Time in MPI calls and sizes of messages.


def _quiet_runs(run: RunData) -> pl.DataFrame:
    """A row per run without writers whose MPI calls were counted, with a column per event.

    Values are sums over ranks. A run of which a rank has no value is left out, and so are those at
    other levels than the first of further factors. Of a repeated run, the last attempt that counts
    is used.
    """
    names = pl.col("case", "arm", "tool", "event").cast(pl.String)
    counts = run.counters.filter(status="counts").with_columns(names)
    counts = counts.filter(pl.col("event").is_in(_EVENTS))
    identity = ["key", "case", "arm", "tool", "block", "pair"]
    runs = counts.group_by(*identity, "event").agg(over_ranks(pl.lit(False)), ranks=pl.len())
    of_event = {name: pl.col("value").filter(event=name).first() for name in _EVENTS}
    wide = runs.group_by(*identity, "ranks").agg(**of_event)
    # The factors, but for the tool, that are not at their first level.
    others = pl.col("arm").map_elements(
        lambda name: [factor for factor in parts_of(name)[1] if factor != _TOOL],
        return_dtype=pl.List(pl.String),
    )
    return (
        wide.drop_nulls([_WHOLE, *(f"{kind}-time" for kind in KINDS)])
        .join(run.samples.select("key", "start_s", "role", "factors"), on="key", how="inner")
        .with_columns(
            others=others,
            policy=level(MPI).fill_null("default"),
            role=pl.col("role").cast(pl.String),
        )
        .filter(pl.col("role").is_in(["baseline", "floor"]) & (pl.col(_WHOLE) > 0))
        .filter(pl.col("others").list.set_difference([MPI]).list.len() == 0)
        .sort("case", "start_s")
        .unique(["case", "arm", "block", "pair"], keep="last", maintain_order=True)
    )


def _calls(run: RunData) -> pl.DataFrame:
    """A row per quiet run and kind of call; `first`: at the policy that names leave out."""
    return run.once("MPI calls of quiet runs", lambda: _of_kinds(_quiet_runs(run)))


def _of_kinds(runs: pl.DataFrame) -> pl.DataFrame:
    quiet = runs.with_columns(
        first=pl.col("others").list.len() == 0,
        number=pl.col("start_s").rank("ordinal").over("case", "tool").cast(pl.Int64),
    )
    columns = ["tool", *PAIR, "role", "policy", "first", "number", "key", "start_s", "ranks"]
    return pl.concat(
        quiet.select(
            *columns,
            kind=pl.lit(kind),
            time_s=pl.col(f"{kind}-time").cast(pl.Float64),
            share=pl.col(f"{kind}-time") / pl.col(_WHOLE),
            message_b=pl.when(pl.col(f"{kind}-messages") > 0).then(
                pl.col(f"{kind}-sent") / pl.col(f"{kind}-messages")
            ),
        )
        for kind in KINDS
    )


def _shares(run: RunData) -> pl.DataFrame:
    """A row per pair at the first policy: its runs share its conditions, so their mean."""
    first = _calls(run).filter("first")
    pair = first.group_by("case", "tool", "kind", "block", "pair", maintain_order=True)
    return pair.agg(pl.col("share", "message_b").mean())


CALLS = Question(
    name="mpi_calls",
    title="Figure 1 of the multirail study: time in MPI calls",
    text="Share of the ranks' time in each kind of MPI call, and the mean size of a message: at the"
    " first policy of MPI, without writers, in runs that a tool wrapped. Medians over pairs.",
    rows=_shares,
    by=("case", "tool", "kind"),
    estimates={"share": median("share"), "message_b": median("message_b")},
    sentences=_beside("figure_1"),
    headings={"share": "share of the time", "message_b": "mean message", "kind": "calls"},
    axes=("kind",),
    drawn=("share", "message_b"),
)


def _single_runs(run: RunData) -> pl.DataFrame:
    """A row per run of the cases of several policies: of one it would be a picture of noise."""
    runs = _calls(run).filter(pl.col("policy").n_unique().over("case") > 1)
    runs = runs.sort("first", descending=True, maintain_order=True)
    return runs.with_columns(pl.col("time_s") / pl.col("ranks"))


RUNS = Question(
    name="rail_runs",
    title="Figure 3 of the multirail study: time in MPI calls in every run",
    text="Time in each kind of MPI call, mean over ranks, one point per run without writers.",
    rows=_single_runs,
    by=("case", "tool", "kind", "policy", "number"),
    facts=shared("time_s", "key", "start_s"),
    sentences=_beside("figure_3"),
    headings={"number": "run, in order of time", "time_s": "time"},
    plot="points",
    axes=("number", "policy"),
    apart=("case", "kind"),
)


def _call_times(run: RunData) -> pl.DataFrame:
    """A row per policy but the first and pair: time in one kind of call, and at the first policy.

    Without such a call, there is nothing to compare.
    """
    kind, pair = ["case", "tool", "kind"], ["block", "pair"]
    runs = _calls(run)
    time_s = {
        name: pl.col("time_s").filter(role=role).last()
        for name, role in (("value", "baseline"), ("again", "floor"))
    }
    first = runs.filter("first").group_by(*kind, *pair, reference="policy").agg(**time_s)
    first = first.rename({"value": "against"})
    others = runs.join(first.select(*kind, "reference").unique(), on=kind)
    others = others.filter(pl.col("policy") != pl.col("reference"))
    times = others.group_by(*kind, "policy", *pair).agg(value=time_s["value"])
    rows = times.select(*kind, "policy").unique().join(first, on=kind)
    rows = rows.join(times, on=[*kind, "policy", *pair], how="left").sort(*kind, "policy", *pair)
    figures = pl.col("value", "against", "again")
    positive = pl.all_horizontal((figures > 0).all().over(*kind, "policy"))
    return rows.with_columns(
        both=pl.col("value").is_not_null() & pl.col("against").is_not_null(),
        margin=pl.lit(run.header.margin),
    ).with_columns(pl.when(positive).then(figures))


CHANGES = Question(
    name="rail_calls",
    title="Time in MPI calls under each rail policy",
    text="Time in each kind of call divided by that at the first policy, within pairs without"
    f" writers. Band: the baseline repeated.{_RULE}",
    rows=_call_times,
    by=("case", "tool", "kind", "policy"),
    estimates={"ratio": ratio("value", "against", "again"), "floor": ratio("again", "against")},
    facts={"n": pl.col("both").sum().cast(pl.Int64), **shared("reference", "margin")},
    limits=_limits("ratio", "more time", "less time"),
    sentences=_beside("figure_3"),
    columns=("reference", "floor", "n", "word"),
    headings={
        "kind": "calls",
        "ratio": "time / time at the first policy",
        "reference": "first policy",
        "floor": "baseline repeated",
    },
    axes=("policy",),
    apart=("case", "kind"),
    behind="floor",
)
QUESTIONS = (CALLS, POLICIES, RUNS, CHANGES)
SECTIONS = [section(question, "run", 23 + number) for number, question in enumerate(QUESTIONS)]
