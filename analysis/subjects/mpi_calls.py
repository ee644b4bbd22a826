"""Figures 1 and 3 of the multirail study, for this machine: time in MPI calls.

Calls were counted by mpip, in runs without writers.
"""

from __future__ import annotations

import polars as pl

from analysis.questions.estimators import median, ratio
from analysis.questions.presentation import section
from analysis.questions.question import Question, shared
from analysis.questions.rows import CASE_PAIR_COLUMNS
from analysis.report.data import RunData
from analysis.samples.counts import over_ranks
from analysis.samples.pairs import factor_level
from analysis.subjects.multirail import (
    MPI_FACTOR,
    RULE_TEXT,
    TOOL_FACTOR,
    published_sentences,
    ratio_limits,
)
from records.arms import arm_and_levels

CALL_KINDS = ("point-to-point", "collective")
_APPLICATION_TIME = "application-time"
_EVENTS = [f"{kind}-{figure}" for kind in CALL_KINDS for figure in ("time", "messages", "sent")] + [
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
        lambda arm: [factor for factor in arm_and_levels(arm)[1] if factor != TOOL_FACTOR],
        return_dtype=pl.List(pl.String),
    )
    return (
        wide.drop_nulls([_APPLICATION_TIME, *(f"{kind}-time" for kind in CALL_KINDS)])
        .join(run.samples.select("key", "start_s", "role", "factors"), on="key", how="inner")
        .with_columns(
            changed_factors=changed,
            policy=factor_level(MPI_FACTOR).fill_null("default"),
            role=pl.col("role").cast(pl.String),
        )
        .filter(pl.col("role").is_in(["baseline", "floor"]) & (pl.col(_APPLICATION_TIME) > 0))
        .filter(pl.col("changed_factors").list.set_difference([MPI_FACTOR]).list.len() == 0)
        .sort("case", "start_s")
        .unique(["case", "arm", "block", "pair"], keep="last", maintain_order=True)
    )


def _calls(run: RunData) -> pl.DataFrame:
    """A row per quiet run and kind of call; `first` says whether it is at the first policy."""
    return run.cached("MPI calls of quiet runs", lambda: _calls_by_kind(_quiet_runs(run)))


def _calls_by_kind(runs: pl.DataFrame) -> pl.DataFrame:
    quiet = runs.with_columns(
        first=pl.col("changed_factors").list.len() == 0,
        number=pl.col("start_s").rank("ordinal").over("case", "tool").cast(pl.Int64),
    )
    run_columns = ("role", "policy", "first", "number", "key", "start_s", "ranks")
    return pl.concat(
        quiet.select(
            "tool",
            *CASE_PAIR_COLUMNS,
            *run_columns,
            kind=pl.lit(kind),
            time_s=pl.col(f"{kind}-time").cast(pl.Float64),
            share=pl.col(f"{kind}-time") / pl.col(_APPLICATION_TIME),
            message_b=pl.when(pl.col(f"{kind}-messages") > 0).then(
                pl.col(f"{kind}-sent") / pl.col(f"{kind}-messages")
            ),
        )
        for kind in CALL_KINDS
    )


def _shares(run: RunData) -> pl.DataFrame:
    """A row per pair at the first policy: the mean of its runs, since they share conditions."""
    calls = _calls(run).filter("first")
    pairs = calls.group_by("case", "tool", "kind", "block", "pair", maintain_order=True)
    return pairs.agg(pl.col("share", "message_b").mean())


CALLS = Question(
    name="mpi_calls",
    title="Figure 1 of the multirail study: time in MPI calls",
    text="Share of the ranks' time in each kind of MPI call, and the mean size of a message: at the"
    " first policy of MPI, without writers, in runs that a tool wrapped. Medians over pairs.",
    rows=_shares,
    by=("case", "tool", "kind"),
    estimates={"share": median("share"), "message_b": median("message_b")},
    sentences=published_sentences("figure_1"),
    headings={"share": "share of the time", "message_b": "mean message", "kind": "calls"},
    plot_columns=("kind",),
    drawn_estimates=("share", "message_b"),
)


def _single_runs(run: RunData) -> pl.DataFrame:
    """A row per run of the cases with several policies; a single policy would show only noise."""
    runs = _calls(run).filter(pl.col("policy").n_unique().over("case") > 1)
    runs = runs.sort("first", descending=True, maintain_order=True)
    return runs.with_columns(pl.col("time_s") / pl.col("ranks"))


RUN_TIMES = Question(
    name="rail_runs",
    title="Figure 3 of the multirail study: time in MPI calls in every run",
    text="Time in each kind of MPI call, mean over ranks, one point per run without writers.",
    rows=_single_runs,
    by=("case", "tool", "kind", "policy", "number"),
    facts=shared("time_s", "key", "start_s"),
    sentences=published_sentences("figure_3"),
    headings={"number": "run, in order of time", "time_s": "time"},
    plot="points",
    plot_columns=("number", "policy"),
    picture_keys=("case", "kind"),
)


def _call_times(run: RunData) -> pl.DataFrame:
    """A row per pair, kind of call and later policy: its time, and that of the first policy.

    All times of a kind and policy are null if one of them is 0: then a run made no such call.
    """
    keys, pair = ["case", "tool", "kind"], ["block", "pair"]
    runs = _calls(run)
    time_s = {
        name: pl.col("time_s").filter(role=role).last()
        for name, role in (("value", "baseline"), ("repeated_value", "floor"))
    }
    first_policy = runs.filter("first").group_by(*keys, *pair, reference="policy").agg(**time_s)
    first_policy = first_policy.rename({"value": "baseline_value"})
    later_policies = runs.join(first_policy.select(*keys, "reference").unique(), on=keys)
    later_policies = later_policies.filter(pl.col("policy") != pl.col("reference"))
    times = later_policies.group_by(*keys, "policy", *pair).agg(value=time_s["value"])
    rows = times.select(*keys, "policy").unique().join(first_policy, on=keys)
    rows = rows.join(times, on=[*keys, "policy", *pair], how="left").sort(*keys, "policy", *pair)
    figures = pl.col("value", "baseline_value", "repeated_value")
    positive = pl.all_horizontal((figures > 0).all().over(*keys, "policy"))
    return rows.with_columns(
        both=pl.col("value").is_not_null() & pl.col("baseline_value").is_not_null(),
        margin=pl.lit(run.header.margin),
    ).with_columns(pl.when(positive).then(figures))


CHANGES = Question(
    name="rail_calls",
    title="Time in MPI calls under each rail policy",
    text="Time in each kind of call divided by that at the first policy, within pairs without"
    f" writers. Band: the baseline repeated.{RULE_TEXT}",
    rows=_call_times,
    by=("case", "tool", "kind", "policy"),
    estimates={
        "ratio": ratio("value", "baseline_value", "repeated_value"),
        "floor": ratio("repeated_value", "baseline_value"),
    },
    facts={"n": pl.col("both").sum().cast(pl.Int64), **shared("reference", "margin")},
    limits=ratio_limits("ratio", "more time", "less time"),
    sentences=published_sentences("figure_3"),
    columns=("reference", "floor", "n", "word"),
    headings={
        "kind": "calls",
        "ratio": "time / time at the first policy",
        "reference": "first policy",
        "floor": "baseline repeated",
    },
    plot_columns=("policy",),
    picture_keys=("case", "kind"),
    background="floor",
)
SECTIONS = [section(CALLS, "run", 23), section(RUN_TIMES, "run", 25), section(CHANGES, "run", 26)]
