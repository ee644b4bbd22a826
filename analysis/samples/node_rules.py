"""Rules for what was seen at the targets: devices passed what writers had counted, and reasons.

The conductor makes conditions and counts of the same readings, and reasons of the same figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from analysis.samples.columns import Samples
from analysis.samples.faults import ROUNDING, Faults, Rows
from analysis.samples.proof import CHAINED

#: What a reason quotes of a node -> the condition, and how it is printed.
_QUOTED = {
    r"^(.+?): foreign processes used ([0-9.]+) hardware threads": ("foreign_cpus", "{:.2f}"),
    r"^(.+?): the hypervisor took ([0-9.]+%) of the processor time": ("steal_share", "{:.1%}"),
}
#: What it quotes of a writer: the least rate / the one that was required.
_SLOW = re.compile(r"^writer \d+ wrote at ([0-9]+%) of (?:its rate alone|the requested rate) from")


def judge_conditions(rows: Rows, samples: Samples, faults: Faults) -> None:
    """Add the faults of conditions, and of reasons."""
    current = rows.frame.select(
        pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"), "schema", "reason"
    ).filter(pl.col("schema") >= CHAINED)
    writers = samples.writers.join(current, on="row")
    nodes = samples.conditions.join(current, on="row")
    passed_b_s = pl.when(pl.col("direction") == "read").then("sent_b_s").otherwise("received_b_s")
    rate_b_s = pl.col("counted_b") / pl.col("counted_s")
    counted = writers.join(
        nodes.select("row", "received_b_s", "sent_b_s", target="node", seen_by="counter"),
        on=["row", "target"],
    ).with_columns(rate_b_s=rate_b_s, passed_b_s=passed_b_s)
    away_b_s = (pl.col("rate_b_s") - pl.col("passed_b_s")).abs()
    differs = (pl.col("counter") == pl.col("seen_by")) & (away_b_s > rate_b_s * ROUNDING)
    for row, passed, rate in (
        counted.filter(differs).select("row", "passed_b_s", "rate_b_s").iter_rows()
    ):
        allowed = f"{rate!r}, its 'counted_b' in 'counted_s'"
        rows.add(faults, row, "conditions: bytes passed per second", repr(passed), allowed)
    _judge_reasons(rows, current.drop_nulls("reason"), writers, nodes, faults)


def _judge_reasons(
    rows: Rows, given: pl.DataFrame, writers: pl.DataFrame, nodes: pl.DataFrame, faults: Faults
) -> None:
    """A figure that a reason quotes is that of the sample."""
    of_writers, of_nodes = (
        each.join(given, on="row", how="semi").partition_by("row", as_dict=True)
        for each in (writers, nodes)
    )
    for row, reason in given.select("row", "reason").iter_rows():
        own = of_writers.get((row,), writers.clear()), of_nodes.get((row,), nodes.clear())
        for quoted, known in _quoted(reason, *own):
            if known and quoted not in known:
                rows.add(faults, row, "reason", repr(reason), f"with {' or '.join(known)}")


def _quoted(
    reason: str, writers: pl.DataFrame, nodes: pl.DataFrame
) -> Iterator[tuple[str, list[str]]]:
    """What a reason quotes, and what it may: of its node, or of the sample's writers."""
    for pattern, (name, form) in _QUOTED.items():
        if found := re.match(pattern, reason):
            values: list[Any] = nodes.filter(node=found[1])[name].to_list()
            yield found[2], [form.format(value) for value in values if value is not None]
    if found := _SLOW.match(reason):
        of = writers.select("rate_min_b_s", "rate_alone_b_s", "asked_b_s").rows()
        needed = ((least, min(alone, asked or alone)) for least, alone, asked in of)
        yield found[1], [f"{least / most:.0%}" for least, most in needed if most]
