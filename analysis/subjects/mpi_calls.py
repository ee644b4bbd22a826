"""Figures 1 and 3 of the multirail study, for this machine: time in MPI calls.

The tool mpip counted the calls, in runs without writers (quiet runs). The study compares rail
policies of MPI, which say which of a node's network interfaces (rails) are used.
"""

from __future__ import annotations

import polars as pl

from analysis.questions.estimators import median, ratio
from analysis.questions.presentation import section
from analysis.questions.question import INCONCLUSIVE, Limit, Question, shared
from analysis.questions.rows import CASE_PAIR_COLUMNS
from analysis.report.data import RunData
from analysis.samples.counts import over_ranks
from analysis.samples.pairs import factor_level
from analysis.statistics.interval import MIN_VALUES
from analysis.subjects.multirail import (
    DIFFERENCE_RULE,
    MPI_FACTOR,
    TOOL_FACTOR,
    published_sentences,
    ratio_limits,
)
from records.arms import arm_and_levels

CALL_KINDS = ("point-to-point", "collective")
_APPLICATION_TIME = "application-time"
_EVENTS = [
    *(f"{kind}-{measure}" for kind in CALL_KINDS for measure in ("time", "messages", "sent")),
    _APPLICATION_TIME,
]


def _quiet_runs(run: RunData) -> pl.DataFrame:
    """A row per run without writers whose MPI calls were counted, with a column per event.

    Values are sums over ranks. A run is left out if a rank has no value. All factors except the
    tool and the policy of MPI must be at their first levels. If a run was repeated, its last
    attempt that counts is used.
    """
    labels = pl.col("case", "arm", "tool", "event").cast(pl.String)
    counts = run.counters.filter(status="counts").with_columns(labels)
    counts = counts.filter(pl.col("event").is_in(_EVENTS))
    identity = ["key", "case", "arm", "tool", "block", "pair"]
    sums = counts.group_by(*identity, "event").agg(
        over_ranks(averaged=pl.lit(False)), ranks=pl.len()
    )
    event_columns = {name: pl.col("value").filter(event=name).first() for name in _EVENTS}
    runs = sums.group_by(*identity, "ranks").agg(**event_columns)
    # The factors, except the tool, that are not at their first level.
    changed_factors = pl.col("arm").map_elements(
        lambda arm: [factor for factor in arm_and_levels(arm).levels if factor != TOOL_FACTOR],
        return_dtype=pl.List(pl.String),
    )
    return (
        runs.drop_nulls([_APPLICATION_TIME, *(f"{kind}-time" for kind in CALL_KINDS)])
        .join(run.samples.select("key", "start_s", "role", "factors"), on="key", how="inner")
        .with_columns(
            changed_factors=changed_factors,
            policy=factor_level(MPI_FACTOR).fill_null("default"),
            role=pl.col("role").cast(pl.String),
        )
        .filter(pl.col("role").is_in(["baseline", "floor"]) & (pl.col(_APPLICATION_TIME) > 0))
        .filter(pl.col("changed_factors").list.set_difference([MPI_FACTOR]).list.len() == 0)
        .sort("case", "start_s")
        .unique(["case", "arm", "block", "pair"], keep="last", maintain_order=True)
    )


def _calls(run: RunData) -> pl.DataFrame:
    """A row per quiet run and kind of call."""
    return run.cached("MPI calls of quiet runs", lambda: _calls_of_runs(_quiet_runs(run)))


def _calls_of_runs(quiet_runs: pl.DataFrame) -> pl.DataFrame:
    """A row per run and kind of call, with the run's number in order of time.

    `time_s` is the sum over ranks. `share` is `time_s` / the application's time. `message_b` is the
    mean size of a message. It is null if there was no message.
    """
    numbered_runs = quiet_runs.with_columns(
        has_first_policy=pl.col("changed_factors").list.len() == 0,
        number=pl.col("start_s").rank("ordinal").over("case", "tool").cast(pl.Int64),
    )
    run_columns = ("role", "policy", "has_first_policy", "number", "key", "start_s", "ranks")
    return pl.concat(
        numbered_runs.select(
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
    """A row per pair and kind of call at the first policy.

    A row has the means over the pair's runs, which are its baseline and its repeated baseline.
    These run under the same conditions.
    """
    calls = _calls(run).filter("has_first_policy")
    pairs = calls.group_by("case", "tool", "kind", "block", "pair", maintain_order=True)
    return pairs.agg(pl.col("share", "message_b").mean())


CALLS = Question(
    name="mpi_calls",
    title="Figure 1 of the multirail study: time in MPI calls",
    text="Share of the ranks' time that each kind of MPI call took, and the mean size of a message,"
    " in runs without writers that a tool wrapped, at the first policy of MPI. Medians over pairs.",
    rows=_shares,
    by=("case", "tool", "kind"),
    estimates={"share": median("share"), "message_b": median("message_b")},
    headings={"share": "share of the time", "message_b": "mean message", "kind": "calls"},
    plot_columns=("kind",),
    drawn_estimates=("share", "message_b"),
)


def _runs_under_several_policies(run: RunData) -> pl.DataFrame:
    """A row per run and kind of call, in cases with several policies.

    `time_s` is the mean over ranks. Cases with a single policy are left out, since they would show
    only noise.
    """
    runs = _calls(run).filter(pl.col("policy").n_unique().over("case") > 1)
    runs = runs.sort("has_first_policy", descending=True, maintain_order=True)
    return runs.with_columns(pl.col("time_s") / pl.col("ranks"))


RUN_TIMES = Question(
    name="rail_runs",
    title="Figure 3 of the multirail study: time in MPI calls in every run",
    text="Time in each kind of MPI call, mean over ranks, one point per run without writers.",
    rows=_runs_under_several_policies,
    by=("case", "tool", "kind", "policy", "number"),
    facts=shared("time_s", "key", "start_s"),
    headings={"number": "run, in order of time", "time_s": "time"},
    plot="points",
    plot_columns=("number", "policy"),
    picture_keys=("case", "kind"),
)


def _call_times(run: RunData) -> pl.DataFrame:
    """A row per pair, kind of call and policy other than the first.

    `value` is the time of calls under this policy, `baseline_value` the time under the first
    policy, and `repeated_value` the time in the repeated baseline of the first policy. If one of
    these times is 0 in any pair, a run made no such call. Then all times of this kind of call and
    policy are null.
    """
    keys, pair_columns = ["case", "tool", "kind"], ["block", "pair"]
    runs = _calls(run)
    baseline_s = pl.col("time_s").filter(role="baseline").last()
    repeated_s = pl.col("time_s").filter(role="floor").last()
    first_policy = (
        runs.filter("has_first_policy")
        .group_by(*keys, *pair_columns, reference="policy")
        .agg(baseline_value=baseline_s, repeated_value=repeated_s)
    )
    later_policies = runs.join(first_policy.select(*keys, "reference").unique(), on=keys)
    later_policies = later_policies.filter(pl.col("policy") != pl.col("reference"))
    later_times = later_policies.group_by(*keys, "policy", *pair_columns).agg(value=baseline_s)
    rows = later_times.select(*keys, "policy").unique().join(first_policy, on=keys)
    rows = rows.join(later_times, on=[*keys, "policy", *pair_columns], how="left")
    rows = rows.sort(*keys, "policy", *pair_columns)
    times = pl.col("value", "baseline_value", "repeated_value")
    are_positive = pl.all_horizontal((times > 0).all().over(*keys, "policy"))
    return rows.with_columns(
        is_complete=pl.col("value").is_not_null() & pl.col("baseline_value").is_not_null(),
        margin=pl.lit(run.header.margin),
    ).with_columns(pl.when(are_positive).then(times))


POLICY_RATIOS = Question(
    name="rail_calls",
    title="Time in MPI calls under each rail policy",
    text="Time in each kind of call divided by that at the first policy, within pairs without"
    f" writers. Band: the baseline repeated.{DIFFERENCE_RULE}",
    rows=_call_times,
    by=("case", "tool", "kind", "policy"),
    estimates={
        "ratio": ratio("value", "baseline_value", "repeated_value"),
        "floor": ratio("repeated_value", "baseline_value"),
    },
    facts={"n": pl.col("is_complete").sum().cast(pl.Int64), **shared("reference", "margin")},
    limits=(
        Limit(
            word=INCONCLUSIVE,
            condition=pl.col("ratio").is_null() & (pl.col("n") >= MIN_VALUES),
            why="not every run made such calls",
        ),
        *ratio_limits("ratio", "more time", "less time"),
    ),
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
SECTIONS = [
    section(CALLS, "before_cases", 23, make_more_sentences=published_sentences("figure_1")),
    section(RUN_TIMES, "before_cases", 25, make_more_sentences=published_sentences("figure_3")),
    section(POLICY_RATIOS, "before_cases", 26, make_more_sentences=published_sentences("figure_3")),
]
