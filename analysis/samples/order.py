"""Rules for the order of samples: every run of a block follows from the one before it.

A block makes its warm-ups (pairs -1, -2, ...), then its pairs. The runs of a pair have positions
0, 1, ..., and a run that is not accepted is repeated. So a sample that was deleted, doubled or
moved shows as a step that no conductor makes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import polars as pl

from analysis.samples.faults import Rows, Rule
from nimc.records.order import pair_order
from nimc.records.run import RunHeader

#: Case -> names of its treatments.
Treatments = Mapping[str, Sequence[str]]

#: By how much a run may seem to overlap the one before it in its block, seconds, and as a share of
#: that one: its start is read from a clock that may be adjusted, its length is not.
_OVERLAP_S, _OVERLAP_SHARE = 0.1, 1e-3
#: The same for two blocks, whose times may be read on two nodes, seconds.
_BLOCKS_S = 1.0
#: What is the same in all runs of a block.
_OF_A_BLOCK = ("nodes", "origin_nodes", "provenance", "seed")


def rules_of_order(header: RunHeader) -> list[Rule]:
    """The rules for each row and the one before it in its file, as `fields.rules`.

    They take the column `runs`, the number of treatments of the case.
    """

    def before(name: str) -> pl.Expr:
        return pl.col(name).shift(1)

    def same(name: str) -> pl.Expr:
        return pl.col(name) == before(name)

    block, pair, position, attempt = map(pl.col, ("block", "pair", "position", "attempt"))
    first = ~same("case").fill_null(value=False)
    begins = first | ~same("block")
    within = ~begins
    again = within & same("pair") & same("arm")
    next_ = within & ~again
    next_pair = next_ & ~same("pair")
    kept = before("outcome") == "kept"
    tries = header.asked.retries
    # What a check of others reads after the block is not repeated.
    left = ~kept & (before("outcome") != "no_fom")
    follows = pair == pl.when(before("pair") >= 0).then(before("pair") + 1).when(pair < 0).then(
        before("pair") - 1
    ).otherwise(0)
    end_s = before("start_s") + before("elapsed_s") * (1 - _OVERLAP_SHARE) - _OVERLAP_S
    found = [
        Rule("block", ~first & (block < before("block")), "in the order of the file"),
        Rule("pair", begins & ~pair.is_in([0, -1]), "0, or -1 for a warm-up, in the first run"),
        Rule("pair", next_pair & ~follows, "that of the run before it, or the next one"),
        Rule(
            "position",
            pl.when(begins | next_pair)
            .then(position != 0)
            .otherwise(position != before("position") + next_.cast(pl.Int32)),
            "the next one of the pair's 0, 1, ... (the same in a repetition)",
        ),
        Rule(
            "position",
            next_pair & (before("pair") >= 0) & (before("position") + 1 < pl.col("runs")),
            "preceded by a run of every treatment of the pair before",
        ),
        Rule(
            "attempt",
            pl.when(again).then(attempt != before("attempt") + 1).otherwise(attempt != 0),
            "the next one of the run's 0, 1, ...",
        ),
        Rule("attempt", again & kept, "absent: the run was accepted before"),
        Rule("attempt", attempt > tries, f"at most {tries}, the campaign's 'retries'"),
        Rule(
            "attempt",
            next_ & left & (before("attempt") < tries),
            "preceded by a repetition of the run before, which was not accepted",
        ),
        Rule("start_s", within & (pl.col("start_s") < end_s), "after the end of the run before"),
        *(
            Rule(name, within & ~same(name), "the same in all runs of a block")
            for name in _OF_A_BLOCK
        ),
    ]
    if header.seed is not None:
        seed = str(header.seed)
        found.append(Rule("seed", pl.col("seed").cast(pl.String) != seed, f"the run's, {seed}"))
    return found


def judge_drawn(rows: Rows, header: RunHeader, of_case: Treatments) -> None:
    """Add a fault for every first attempt that is not at the position which the seed gives it."""
    if header.seed is None:
        return
    baselines = dict[str, dict[str, str | None]]()
    columns = ("case", "block", "pair", "arm", "position", "baseline")
    runs = rows.frame.lazy().filter(pl.col("pair") >= 0, attempt=0)
    found = runs.select("row", *columns).collect()
    for case, arm, baseline in found.select("case", "arm", "baseline").unique().iter_rows():
        baselines.setdefault(case, {})[arm] = baseline
    planned = {
        case: {name: baselines[case].get(name) for name in names if name in baselines[case]}
        for case, names in of_case.items()
        if case in baselines
    }
    # Of schema 2, every block began an order of its own (`nimc.records.order`).
    continued = header.schema > 2
    last, order, made = None, list[str](), Counter[str]()
    for row, case, block, pair, arm, position, _ in found.iter_rows():
        if (case, block, pair) != last:
            last = case, block, pair
            number, begun = (made[case], 0) if continued else (pair, block)
            made[case] += 1
            order = pair_order(planned[case], header.seed, case, number, begun)
        if arm not in order[position : position + 1]:
            at = order.index(arm) if arm in order else "none"
            allowed = f"{at}: the order that follows from the run's seed"
            rows.add(row, "position", str(position), allowed)


def overlapping_blocks(rows: Rows) -> None:
    """A fault for every block that begins before another one on its first node has ended."""
    spans = (
        rows.frame.lazy()
        .group_by("case", "block")
        .agg(
            pl.col("row").min(),
            pl.col("start_s").min(),
            pl.col("nodes").first(),
            end_s=(pl.col("start_s") + pl.col("elapsed_s")).max(),
        )
        .with_columns(node=pl.col("nodes").cast(pl.String).str.split(",").list.first())
        .sort("node", "start_s", "row")
        .with_columns(before_s=pl.col("end_s").shift(1).over("node"))
        .filter(pl.col("start_s") < pl.col("before_s") - _BLOCKS_S)
        .select("row", "case", "block", "start_s", "node")
        .collect()
    )
    for row, case, block, start_s, node in spans.iter_rows():
        name = f"block {block} of case '{case}': start_s"
        rows.add(row, name, repr(start_s), f"after the end of the block before it on {node}")
