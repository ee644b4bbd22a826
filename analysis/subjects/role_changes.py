"""The change of each role with traffic, and the rank that traffic hits most.

Roles are quantities that counters of processors measure, such as misses and stalls. Figure 4 of
Groves, Grant and Arnold (2016) shows these changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from scipy import special

from analysis.questions.estimators import median
from analysis.questions.presentation import section
from analysis.questions.question import Question, shared
from analysis.report.data import RunData
from analysis.subjects.paired_roles import (
    COMPARISON_COLUMNS,
    MEMORY_STALLS,
    MISSES,
    PAIR_COLUMNS,
    STALLED_CYCLES,
    paired_roles,
    sums_over_ranks,
    with_holm_correction,
)
from records.groups import grouped
from records.roles import ROLES

#: A rank is hit more than the others if its p value is below this.
SIGNIFICANCE_LEVEL = 0.05
_WORST_RANK_COLUMNS = ("rank", "times", "leads", "growth", "median_growth", "p")


def worst_ranks(paired: pl.DataFrame) -> pl.DataFrame:
    """The worst rank of each comparison and role: the rank whose count grew most in most pairs.

    The growth of a rank in a pair is its count with traffic / its count without (on / off).

    - `growth`: median over pairs of this rank's growth
    - `median_growth`: median over pairs of the median rank's growth
    - `leads`: number of pairs in which a single rank grew most
    - `times`: number of pairs in which this rank grew most
    - `p`: upper bound of the chance that any rank grows most in so many pairs, if traffic hits all
      ranks equally; the scatter of counts may differ between ranks

    Counts of one rank may scatter more than those of others, for example if it does I/O. If traffic
    hits it no more than the others, its growth is still as likely to be below the pair's median as
    above. So each rank grows most in a pair with a chance of at most 1/2. The chances of all ranks
    add up to at most 1. The bound is largest if two ranks have a chance of 1/2 each. It is then
    twice the tail of the binomial distribution with probability 1/2. Pairs must be independent.
    Counts of nodes, and counts of a single rank, have no worst rank.
    """
    comparison = [*COMPARISON_COLUMNS, "role"]
    pair = [*comparison, *PAIR_COLUMNS]
    rank_roles = [name for name, role in ROLES.items() if role.scope == "rank"]
    is_counted = (pl.col("off") > 0) & pl.col("on").is_not_null()
    # Only pairs in which all ranks were counted are used.
    growths = (
        paired.filter(pl.col("role").is_in(rank_roles))
        .with_columns(
            ranks=pl.col("rank").n_unique().over(comparison), counted=is_counted.sum().over(pair)
        )
        .filter(pl.col("ranks") > 1, pl.col("counted") == pl.col("ranks"))
        .with_columns(
            growth=pl.col("on") / pl.col("off"),
            pairs=pl.struct(PAIR_COLUMNS).n_unique().over(comparison),
        )
    )
    leaders = growths.filter(pl.col("growth") == pl.col("growth").max().over(pair))
    worst = (
        leaders.filter(pl.len().over(pair) == 1)
        .group_by(*comparison, "rank")
        .agg(times=pl.len().cast(pl.Int64), pairs=pl.col("pairs").first())
        .with_columns(leads=pl.col("times").sum().over(comparison))
        .sort("times", "rank", descending=[True, False])
        .unique(comparison, keep="first", maintain_order=True)
    )
    median_growths = growths.group_by(pair).agg(pl.col("growth").median())
    median_growths = median_growths.group_by(comparison).agg(
        median_growth=pl.col("growth").median()
    )
    rank_growths = growths.group_by(*comparison, "rank").agg(pl.col("growth").median())
    table = worst.join(median_growths, on=comparison).join(rank_growths, on=[*comparison, "rank"])
    times, pairs = table["times"].to_numpy(), table["pairs"].to_numpy()
    p = 2 * special.bdtrc(times - 1.0, pairs, 0.5)
    return table.with_columns(p=pl.Series(p, dtype=pl.Float64).clip(upper_bound=1.0))


def _role_changes(run: RunData) -> pl.DataFrame:
    """A row per pair and role, with the worst rank of the role."""
    paired = paired_roles(run)
    rows = sums_over_ranks(paired).with_columns(
        ratio=pl.when(pl.col("off") > 0).then(pl.col("on") / pl.col("off")),
        unit=pl.col("role").replace_strict({name: role.unit for name, role in ROLES.items()}),
    )
    return rows.join(
        worst_ranks(paired), on=[*COMPARISON_COLUMNS, "role"], how="left", maintain_order="left"
    )


def hit_rank_sentences(table: pl.DataFrame) -> list[str]:
    """Sentences on each treatment: the cases in which one rank is hit more than the others.

    Only stalls and misses are used. Cycles and instructions would point to the wrong rank, since
    ranks that wait for the rank that is hit have the most of them.
    """
    is_used = pl.col("role").is_in((MEMORY_STALLS, STALLED_CYCLES, *MISSES))
    rows = table.filter(pl.col("p").is_not_null(), is_used).to_dicts()
    sentences = []
    for treatment, treatment_rows in grouped((row["treatment"], row) for row in rows).items():
        rows_of_cases = grouped((row["case"], row) for row in treatment_rows)
        hits = {case: _hit_text(case_rows) for case, case_rows in rows_of_cases.items()}
        hit_cases = ", ".join(f"{case} ({hit})" for case, hit in hits.items() if hit)
        other_cases = ", ".join(case for case, hit in hits.items() if not hit)
        if hit_cases:
            sentences.append(f"{treatment}: one rank is hit more than the others in {hit_cases}.")
        if other_cases:
            sentences.append(
                f"{treatment}: no rank is shown to be hit more than others in {other_cases}."
            )
    return sentences


def _hit_text(rows: Sequence[dict[str, Any]]) -> str:
    """Text on the rank and role whose growth exceeds the median rank's growth most.

    It is empty if no rank is shown to be hit more than the others.
    """
    significant = [row for row in rows if row["p"] < SIGNIFICANCE_LEVEL]
    if not significant:
        return ""
    row = max(significant, key=lambda row: row["growth"] - row["median_growth"])
    return (
        f"rank {row['rank']}, whose {row['role']} grew {row['growth']:.2f} times, the median rank's"
        f" {row['median_growth']:.2f} times"
    )


CHANGES = Question(
    name="roles",
    title="Roles without and with traffic",
    text="Medians over pairs of the sums over ranks (for shares, of the means), as in figure 4 of"
    " Groves, Grant and Arnold (2016), which prints no values. Roles of ranks are from runs that a"
    " tool wrapped, roles of nodes from the other runs. Worst rank: the rank that grew most (on /"
    " off) in most pairs. p: an upper bound of the chance that any rank does so in so many pairs if"
    " all are hit alike, after Holm over this table. In the paper, one core was hit more than the"
    " others in all applications but CNS.",
    rows=_role_changes,
    by=("case", "treatment", "tool", "role"),
    estimates={"ratio": median("ratio")},
    facts={
        **{name: pl.col(name).median() for name in ("off", "on")},
        **shared("unit", "baseline", *_WORST_RANK_COLUMNS),
    },
    postprocess=with_holm_correction,
    sentences=hit_rank_sentences,
    columns=("off", "on", "rank", "growth", "median_growth", "p", "n"),
    headings={
        "ratio": "on / off",
        "rank": "worst rank",
        "growth": "its growth",
        "median_growth": "median rank's growth",
    },
    units={"off": "unit", "on": "unit"},
    plot="change",
    plot_columns=("off", "on"),
    picture_keys=("case", "unit"),
)
SECTIONS = [section(CHANGES, "before_cases", 81)]
