"""How each role changes with traffic, and on which rank.

As in figure 4 of Groves, Grant and Arnold (2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import polars as pl
from scipy import special

from analysis.questions.estimators import median
from analysis.questions.question import Question, shared
from analysis.questions.shown import section
from analysis.report.data import RunData
from analysis.subjects.paired_roles import (
    KIND,
    MISSES,
    PAIR,
    STALLED,
    STALLS,
    after_holm,
    paired_roles,
    sums_over_ranks,
)
from records.groups import grouped
from records.roles import ROLES

#: Largest p value at which a rank is said to be hit more than the others.
LEVEL = 0.05
_WORST = ("rank", "times", "leads", "growth", "median_growth", "p")


def worst_ranks(paired: pl.DataFrame) -> pl.DataFrame:
    """Of each case, treatment, tool and role, the rank whose count grew most in most pairs.

    `growth` and `median_growth` are medians over pairs of its on / off and of the median rank's;
    `times` of `leads` pairs in which one rank grew most it was this one; `p`: at most the chance
    that any rank does so in so many pairs if all are hit alike.

    If they are, each is as likely to grow most in a pair: the pairs in which a given one of R does
    are binomial with probability 1/R, and the worst was chosen from R. No distribution of the
    counts is assumed; pairs must be independent. Counts of nodes, and of one rank, have no worst.
    """
    group = [*KIND, "role"]
    pair = [*group, *PAIR]
    rank_roles = [name for name, role in ROLES.items() if role.scope == "rank"]
    ranks = pl.col("rank").n_unique().over(group)
    counted = (pl.col("off") > 0) & pl.col("on").is_not_null()
    grown = (
        paired.filter(pl.col("role").is_in(rank_roles))
        .with_columns(ranks=ranks, whole=counted.sum().over(pair))
        .filter(pl.col("ranks") > 1, pl.col("whole") == pl.col("ranks"))
        .with_columns(growth=pl.col("on") / pl.col("off"))
    )
    most = grown.filter(pl.col("growth") == pl.col("growth").max().over(pair))
    worst = (
        most.filter(pl.len().over(pair) == 1)
        .group_by(*group, "rank")
        .agg(times=pl.len().cast(pl.Int64), ranks=pl.col("ranks").first())
        .with_columns(leads=pl.col("times").sum().over(group))
        .sort("times", "rank", descending=[True, False])
        .unique(group, keep="first", maintain_order=True)
    )
    middle = grown.group_by(pair).agg(pl.col("growth").median())
    middle = middle.group_by(group).agg(median_growth=pl.col("growth").median())
    rank_growth = grown.group_by(*group, "rank").agg(pl.col("growth").median())
    table = worst.join(middle, on=group).join(rank_growth, on=[*group, "rank"])
    times, leads, number = (table[name].to_numpy() for name in ("times", "leads", "ranks"))
    p = number * special.bdtrc(times - 1.0, leads, 1 / number)
    return table.with_columns(p=pl.Series(p, dtype=pl.Float64).clip(upper_bound=1.0))


def _roles(run: RunData) -> pl.DataFrame:
    """A row per pair and role, with its worst rank."""
    paired = paired_roles(run)
    rows = sums_over_ranks(paired).with_columns(
        ratio=pl.when(pl.col("off") > 0).then(pl.col("on") / pl.col("off")),
        unit=pl.col("role").replace_strict({name: role.unit for name, role in ROLES.items()}),
    )
    return rows.join(worst_ranks(paired), on=[*KIND, "role"], how="left", maintain_order="left")


def hit_more(table: pl.DataFrame) -> list[str]:
    """Of each treatment, the cases in which one rank is hit more than the others.

    By stalls and misses: of cycles and instructions, ranks that wait for that one have most.
    """
    named = pl.col("role").is_in((STALLS, STALLED, *MISSES))
    ranked = table.filter(pl.col("p").is_not_null(), named)
    texts = []
    for treatment, rows in grouped((row["treatment"], row) for row in ranked.to_dicts()).items():
        rows_by_case = grouped((row["case"], row) for row in rows)
        hits = {case: _hit(rows_of_case) for case, rows_of_case in rows_by_case.items()}
        shown = ", ".join(f"{case} ({hit})" for case, hit in hits.items() if hit)
        others = ", ".join(case for case, hit in hits.items() if not hit)
        if shown:
            texts.append(f"{treatment}: one rank is hit more than the others in {shown}.")
        if others:
            texts.append(f"{treatment}: no rank is shown to be hit more than others in {others}.")
    return texts


def _hit(rows: Sequence[dict[str, Any]]) -> str:
    """The rank and the role that are most beyond the median rank's; empty if none is clear."""
    clear = [
        (row["growth"] - row["median_growth"], index)
        for index, row in enumerate(rows)
        if row["p"] < LEVEL
    ]
    if not clear:
        return ""
    row = rows[max(clear, key=itemgetter(0))[1]]
    growths = "{growth:.2f} times, the median rank's {median_growth:.2f} times".format_map(row)
    return f"rank {row['rank']}, whose {row['role']} grew {growths}"


CHANGES = Question(
    name="roles",
    title="Roles without and with traffic",
    text="Medians over pairs of the sums over ranks (of shares, of their means), from runs with the"
    " tool alone; figure 4 of Groves, Grant and Arnold (2016), which prints no values. Worst rank:"
    " the one that grew most (on / off) in most pairs; p: at most the chance that a rank does in so"
    " many if all are hit alike, after Holm over this table. In the paper one core was hit more"
    " than the others in all applications but CNS.",
    rows=_roles,
    by=("case", "treatment", "tool", "role"),
    estimates={"ratio": median("ratio")},
    facts={
        **{name: pl.col(name).median() for name in ("off", "on")},
        **shared("unit", "baseline", *_WORST),
    },
    then=after_holm,
    sentences=hit_more,
    columns=("off", "on", "rank", "growth", "median_growth", "p", "n"),
    headings={
        "ratio": "on / off",
        "rank": "worst rank",
        "growth": "its growth",
        "median_growth": "median rank's growth",
    },
    units={"off": "unit", "on": "unit"},
    plot="change",
    axes=("off", "on"),
    apart=("case", "unit"),
)
SECTIONS = [section(CHANGES, "run", 81)]
