"""Offload or onload: whether the network interface or the processor receives the traffic.

The quantity measured is the processor time per byte that a node spends on traffic. This is the time
of interrupts, soft interrupts, kernel threads (drivers), and the writers' processes with their
user-level receiving threads, such as the threads of PSM. Agents read these times on targets and
origins before and after each run (tools `node` and `origin`). Each time is divided by the length of
its run. A node also uses processor time without traffic, so the value of the pair's baseline is
then subtracted.
"""

from __future__ import annotations

import polars as pl

from analysis.questions.estimators import difference
from analysis.questions.presentation import section
from analysis.questions.question import INCONCLUSIVE, Limit, Question
from analysis.questions.rows import CASE_PAIR_COLUMNS, paired, runs_that_count
from analysis.report.data import RunData
from analysis.samples.provenance import mapping_or_empty
from records.sample import NODE_TOOL, ORIGIN_TOOL, TRAFFIC_CPU_TIMES
from records.units import percentage

#: With an onload interface, a core must at least copy the bytes, which takes about 0.1 s/GB. An
#: interface is called onload from half of this time on, and offload up to a fifth of this time.
MIN_ONLOAD_S_B = 0.05e-9
MAX_OFFLOAD_S_B = 0.02e-9
#: The largest share of a core that traffic took in Groves, Grant and Arnold (2016).
PUBLISHED_CORE_SHARE = 0.02
#: Tool, the name under which a node's agents record counts -> the node's end of the writes.
_END_BY_TOOL = {NODE_TOOL: "target", ORIGIN_TOOL: "origin"}
_ALL_COUNTED = pl.col("counters").list.len() == len(TRAFFIC_CPU_TIMES)


def _processor_times(run: RunData) -> pl.DataFrame:
    """A row per pair and end of the writes: processor times with and without traffic.

    `value` and `baseline_value` are processor times per second of the run with traffic and of the
    run without traffic, means over the nodes. `value_s_b` and `baseline_value_s_b` are these
    figures divided by the writers' rate for each node, in seconds per byte. The same counters must
    have been read in both runs of a pair.
    """
    tool, event = (pl.col(name).cast(pl.String) for name in ("tool", "event"))
    spent_times = (
        run.counters.filter(tool.is_in(list(_END_BY_TOOL)), event.is_in(TRAFFIC_CPU_TIMES))
        .group_by("key", tool.replace(_END_BY_TOOL).alias("end"), maintain_order=True)
        .agg(
            spent_s=pl.col("value").sum(),
            node_count=pl.coalesce(pl.col("nodes").max(), pl.col("rank").n_unique()),
            counters=event.unique().sort(),
        )
    )
    if spent_times.is_empty():
        return pl.DataFrame()
    runs = runs_that_count(
        run.samples, "elapsed_s", "writer_rate_b_s", "transport", "same_host", "timetable"
    )
    site = mapping_or_empty(run.header.facts.get("site"))
    claim = mapping_or_empty(site.get("nic")).get("processing")
    runs_with_times = runs.join(spent_times, on="key", maintain_order="left").with_columns(
        value=pl.col("spent_s") / pl.col("elapsed_s") / pl.col("node_count"),
        claim=pl.when(pl.col("end") == "target").then(pl.lit(claim, pl.String)),
    )
    runs_of_ends = runs_with_times.partition_by("end", maintain_order=True)
    if not runs_of_ends:
        return runs_with_times.clear()
    baseline = runs_with_times.select(
        *CASE_PAIR_COLUMNS, "end", baseline="arm", baseline_counters="counters"
    )
    pairs = pl.concat(paired(rows, pl.col("value")) for rows in runs_of_ends)
    pairs = pairs.join(baseline, on=[*CASE_PAIR_COLUMNS, "end", "baseline"], maintain_order="left")
    rate_b_s = pl.col("writer_rate_b_s") / pl.col("node_count")
    return pairs.filter(
        pl.col("role") == "effect",
        pl.col("timetable").is_null(),
        pl.col("counters") == pl.col("baseline_counters"),
        rate_b_s > 0,
    ).with_columns(pl.col("value", "baseline_value").truediv(rate_b_s).name.suffix("_s_b"))


def _core_share_sentences(table: pl.DataFrame) -> list[str]:
    """A sentence on each treatment, which compares the share of a target's core with the paper."""
    sentences = []
    is_target = (pl.col("end") == "target") & ~pl.col("same_host")
    target_rows = table.filter(is_target, pl.col("cores").is_not_null())
    for row in target_rows.to_dicts():
        low, high = row["cores_low"], row["cores_high"]
        if high <= PUBLISHED_CORE_SHARE:
            comparison = "no more than"
        elif low > PUBLISHED_CORE_SHARE:
            comparison = "more than"
        else:
            comparison = "not shown to differ from"
        sentences.append(
            f"{row['case']} {row['arm']}: traffic took {percentage(row['cores'], '.2g')} of a core"
            f" of a target ({100 * low:.2g} to {100 * high:.2g} %), {comparison} the"
            f" {percentage(PUBLISHED_CORE_SHARE)} of Groves, Grant and Arnold (2016)."
        )
    return sentences


PROCESSOR_TIME = Question(
    name="processing",
    title="Processor time of the traffic",
    text="Processor time of interrupts, soft interrupts, kernel threads and the writers' processes,"
    " minus that in the baseline of the pair, divided by the writers' rate. A core copies about"
    f" 10 GB/s, which is 0.1 s/GB: from {MIN_ONLOAD_S_B * 1e9:g} s/GB on the processor receives"
    f" (onload), below {MAX_OFFLOAD_S_B * 1e9:g} the interface does (offload).",
    rows=_processor_times,
    by=("case", "arm", "end"),
    estimates={
        "cpu_s_b": difference("value_s_b", "baseline_value_s_b"),
        "cores": difference("value", "baseline_value"),
    },
    facts={
        "baseline": pl.col("baseline").first(),
        "transport": pl.col("transport").cast(pl.String).unique(maintain_order=True).str.join("+"),
        "counters": pl.col("counters")
        .list.explode(empty_as_null=False)
        .unique(maintain_order=True),
        "same_host": pl.col("same_host").any(),
        "claim": pl.col("claim").first(),
    },
    limits=(
        Limit(word="-", condition=pl.col("end") == "origin", why="its writers wait on a busy core"),
        Limit(
            word=INCONCLUSIVE,
            condition=pl.col("same_host"),
            why="origin and target share a host: no interface receives",
        ),
        Limit(word="onload", low=MIN_ONLOAD_S_B),
        Limit(word="offload", high=MAX_OFFLOAD_S_B, condition=_ALL_COUNTED),
        Limit(word=INCONCLUSIVE, high=MAX_OFFLOAD_S_B, why="not all counters exist on the nodes"),
    ),
    sentences=_core_share_sentences,
    columns=("cores", "transport", "n", "word", "claim"),
    headings={
        "cpu_s_b": "time",
        "cores": "cores of a node kept busy",
        "end": "node",
        "word": "receives by",
        "claim": "site file",
    },
    plot_columns=("end",),
)
SECTIONS = [section(PROCESSOR_TIME, "after_cases", 95, folded=True)]
