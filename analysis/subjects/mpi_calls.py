"""Figures 1 and 3 of the multirail study, for this machine: time in MPI calls.

Calls were counted by mpip, in runs without writers.
"""

from __future__ import annotations

import polars as pl

from analysis.questions.estimators import median, ratio
from analysis.questions.question import Question, shared
from analysis.questions.rows import PAIR
from analysis.questions.shown import section
from analysis.report.data import RunData
from analysis.samples.counts import over_ranks
from analysis.samples.pairs import factor_level
from analysis.subjects.multirail import MPI, RULE, TOOL, beside_published, limits_of
from records.arms import arm_and_levels

KINDS = ("point-to-point", "collective")
_APPLICATION_TIME = "application-time"
_EVENTS = [f"{kind}-{figure}" for kind in KINDS for figure in ("time", "messages", "sent")] + [
    _APPLICATION_TIME
]


def _quiet_runs(run: RunData) -> pl.DataFrame:
    """A row per run without writers whose MPI calls were counted, with a column per event.

    Values are sums over ranks. A run is left out if a rank has no value, or if a factor other than
    the tool and the policy of MPI is not at its first level. If a run was repeated, its last
    attempt that counts is used.
    """
    names = pl.col("case", "arm", "tool", "event").cast(pl.String)
    counts = run.counters.filter(status="counts").with_columns(names)
    counts = counts.filter(pl.col("event").is_in(_EVENTS))
    identity = ["key", "case", "arm", "tool", "block", "pair"]
    runs = counts.group_by(*identity, "event").agg(
        over_ranks(averaged=pl.lit(False)), ranks=pl.len()
    )
    event_values = {name: pl.col("value").filter(event=name).first() for name in _EVENTS}
    wide = runs.group_by(*identity, "ranks").agg(**event_values)
    # The factors that are not at their first level, without the tool.
    changed = pl.col("arm").map_elements(
        lambda arm: [factor for factor in arm_and_levels(arm)[1] if factor != TOOL],
        return_dtype=pl.List(pl.String),
    )
    return (
        wide.drop_nulls([_APPLICATION_TIME, *(f"{kind}-time" for kind in KINDS)])
        .join(run.samples.select("key", "start_s", "role", "factors"), on="key", how="inner")
        .with_columns(
            changed_factors=changed,
            policy=factor_level(MPI).fill_null("default"),
            role=pl.col("role").cast(pl.String),
        )
        .filter(pl.col("role").is_in(["baseline", "floor"]) & (pl.col(_APPLICATION_TIME) > 0))
        .filter(pl.col("changed_factors").list.set_difference([MPI]).list.len() == 0)
        .sort("case", "start_s")
        .unique(["case", "arm", "block", "pair"], keep="last", maintain_order=True)
    )


def _calls(run: RunData) -> pl.DataFrame:
    """A row per quiet run and kind of call; `first` is true at the first policy of the case."""
    return run.cached("MPI calls of quiet runs", lambda: _calls_by_kind(_quiet_runs(run)))


def _calls_by_kind(runs: pl.DataFrame) -> pl.DataFrame:
    quiet = runs.with_columns(
        first=pl.col("changed_factors").list.len() == 0,
        number=pl.col("start_s").rank("ordinal").over("case", "tool").cast(pl.Int64),
    )
    columns = ["tool", *PAIR, "role", "policy", "first", "number", "key", "start_s", "ranks"]
    return pl.concat(
        quiet.select(
            *columns,
            kind=pl.lit(kind),
            time_s=pl.col(f"{kind}-time").cast(pl.Float64),
            share=pl.col(f"{kind}-time") / pl.col(_APPLICATION_TIME),
            message_b=pl.when(pl.col(f"{kind}-messages") > 0).then(
                pl.col(f"{kind}-sent") / pl.col(f"{kind}-messages")
            ),
        )
        for kind in KINDS
    )


def _shares(run: RunData) -> pl.DataFrame:
    """A row per pair at the first policy: the mean of its runs, since they share conditions."""
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
    sentences=beside_published("figure_1"),
    headings={"share": "share of the time", "message_b": "mean message", "kind": "calls"},
    axes=("kind",),
    drawn=("share", "message_b"),
)


def _single_runs(run: RunData) -> pl.DataFrame:
    """A row per run of the cases with several policies; one policy would show only noise."""
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
    sentences=beside_published("figure_3"),
    headings={"number": "run, in order of time", "time_s": "time"},
    plot="points",
    axes=("number", "policy"),
    apart=("case", "kind"),
)


def _call_times(run: RunData) -> pl.DataFrame:
    """A row per pair, kind of call and policy after the first: its time, and the first policy's.

    All times of a kind and policy are null if one of them is 0: then a run made no such call.
    """
    kind, pair = ["case", "tool", "kind"], ["block", "pair"]
    runs = _calls(run)
    time_s = {
        name: pl.col("time_s").filter(role=role).last()
        for name, role in (("value", "baseline"), ("again", "floor"))
    }
    first = runs.filter("first").group_by(*kind, *pair, reference="policy").agg(**time_s)
    first = first.rename({"value": "against"})
    later_policies = runs.join(first.select(*kind, "reference").unique(), on=kind)
    later_policies = later_policies.filter(pl.col("policy") != pl.col("reference"))
    times = later_policies.group_by(*kind, "policy", *pair).agg(value=time_s["value"])
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
    f" writers. Band: the baseline repeated.{RULE}",
    rows=_call_times,
    by=("case", "tool", "kind", "policy"),
    estimates={"ratio": ratio("value", "against", "again"), "floor": ratio("again", "against")},
    facts={"n": pl.col("both").sum().cast(pl.Int64), **shared("reference", "margin")},
    limits=limits_of("ratio", "more time", "less time"),
    sentences=beside_published("figure_3"),
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
SECTIONS = [section(CALLS, "run", 23), section(RUNS, "run", 25), section(CHANGES, "run", 26)]
