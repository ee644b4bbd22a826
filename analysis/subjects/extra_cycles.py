"""Why runs are slower: the share of stalls among the cycles that traffic adds."""

from __future__ import annotations

import polars as pl

from analysis.effects.result import Verdict
from analysis.questions.estimators import median
from analysis.questions.presentation import section
from analysis.questions.question import INCONCLUSIVE, Limit, Question
from analysis.report.data import RunData
from analysis.samples.counts import without_tool
from analysis.subjects.paired_roles import (
    COMPARISON_COLUMNS,
    MEMORY_STALLS,
    PAIR_COLUMNS,
    STALLED_CYCLES,
    paired_roles,
    sums_over_ranks,
)


def _losses(run: RunData) -> pl.DataFrame:
    """A row per pair and kind of stalls: the extra cycles, and the extra stalls.

    The kind is `MEMORY_STALLS` or `STALLED_CYCLES`, in the column `role` (`paired_roles`).

    The table has only treatments whose verdict, in the runs that the counting tool wrapped, is a
    loss. The verdict 'control missing' counts too, since it needs a loss that is shown.
    """
    slower_arms = {
        (row.case, row.arm)
        for row in run.results
        if row.verdict.is_loss or row.verdict is Verdict.NO_CONTROL
    }
    counted_arms = run.counters.select(pl.col("case", "arm", "tool").cast(pl.String)).unique()
    slower_comparisons = pl.DataFrame(
        [
            (case, without_tool(arm), tool)
            for case, arm, tool in counted_arms.iter_rows()
            if (case, arm) in slower_arms
        ],
        schema=dict.fromkeys(COMPARISON_COLUMNS, pl.String),
        orient="row",
    )
    keys = [*COMPARISON_COLUMNS, *PAIR_COLUMNS]
    sums = sums_over_ranks(paired_roles(run)).with_columns(extra=pl.col("on") - pl.col("off"))
    cycles = sums.filter(role="cycles").select(*keys, extra_cycles="extra")
    stalls = sums.filter(pl.col("role").is_in((MEMORY_STALLS, STALLED_CYCLES)))
    stalls = stalls.select(*keys, "role", extra_stalls="extra")
    rows = cycles.join(stalls, on=keys, maintain_order="left")
    rows = rows.join(slower_comparisons, on=COMPARISON_COLUMNS, how="semi", maintain_order="left")
    return rows.with_columns(share=pl.col("extra_stalls") / pl.col("extra_cycles"))


_SENTENCE_START = (
    "{case}, {treatment}: {share:.0%} ({share_low:.0%} to {share_high:.0%}) of the extra cycles are"
    " {role}: "
)
LOSSES = Question(
    name="why",
    title="Why: stalls among the extra cycles",
    text="Share of stalls among the cycles that traffic adds, for treatments whose slowdown is"
    " shown in runs with a counting tool; median over pairs. 'Memory stalls' wait for memory; on"
    " ARM they are all stalls of the back end, whatever the cause. 'Stalled cycles' are counted by"
    " PAPI_STL_ICY, as in Groves, Grant and Arnold (2016); the event with this name differs between"
    " processors (docs/tools.md).",
    rows=_losses,
    by=(*COMPARISON_COLUMNS, "role"),
    estimates={"share": median("share")},
    facts={"all_more": (pl.col("extra_cycles") > 0).all()},
    limits=(
        Limit(
            word=INCONCLUSIVE, condition=~pl.col("all_more"), why="not every pair took more cycles"
        ),
        Limit(
            word="stalls on memory",
            condition=(pl.col("share_low") > 0.5) & (pl.col("role") == MEMORY_STALLS),
        ),
        Limit(word="stalled cycles", condition=pl.col("share_low") > 0.5),
        Limit(word="something else", condition=pl.col("share_high") < 0.5),
    ),
    sentences={
        "stalls on memory": _SENTENCE_START + "most of the loss is stalls on memory.",
        "stalled cycles": _SENTENCE_START + "most of the loss is stalled cycles.",
        "something else": _SENTENCE_START + "most of the loss is something else.",
    },
    columns=("n", "word"),
    headings={"share": "share of stalls", "word": "the loss is"},
    plot=None,
)
SECTIONS = [section(LOSSES, "before_cases", 80)]
