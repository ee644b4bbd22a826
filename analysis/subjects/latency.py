"""Latency of memory against traffic, and the bandwidth that it leaves a core.

A core has a limited number of cache lines in flight, its credits: its throughput is at most
credits x 64 B / latency (Vuppalapati et al., Understanding the Host Network, SIGCOMM 2024). When
writers raise the latency, cores lose bandwidth long before memory is full.

Credits are measured, by Little's law: rate x latency / 64 B of a loading core where the fewest load
and nothing is written. This assumes that the loading cores' lines wait as long as those of the core
that measures the latency, and it counts lines that prefetchers fetch. Elsewhere, the bound follows
from the latency there.
"""

from __future__ import annotations

import polars as pl

from analysis.questions.estimators import median, ratio, ratio_of_sets
from analysis.questions.question import Limit, Question
from analysis.questions.rows import paired, runs_that_count
from analysis.questions.shown import section
from analysis.report.data import RunData
from analysis.samples.pairs import extra, level

WORKLOAD = "latency"
LINE_B = 64
#: No node has more cores.
MOST_THREADS = 4096
#: At the bound: the whole interval of measured / modelled is this close to 1.
CLOSE = 0.1


def _rows(run: RunData) -> pl.DataFrame:
    """A row per run with all figures, in order of writers, their rate and loading cores.

    `lines` are those in flight of one loading core; `credits` those of all runs of the reference of
    its case, null without one.
    """
    columns = ("workload", "factors", "fom", "fom_better", "fom_extra", "writer_rate_b_s")
    runs = runs_that_count(run.samples.filter(pl.col("workload") == WORKLOAD), *columns)
    threads = level("load_threads").fill_null("0").cast(pl.Int64, strict=False)
    load_b_s = extra("load_b_s")
    rows = runs.with_columns(
        load_threads=threads,
        least_s=extra("least_s"),
        load_b_s=pl.when(threads > 0).then(load_b_s),
        lines=pl.when(threads > 0).then(load_b_s * pl.col("fom") / LINE_B / threads),
        writers=pl.when(pl.col("role") == "baseline")
        .then(pl.lit("none"))
        .when(pl.col("role") == "control")
        .then(pl.lit("control"))
        .otherwise(pl.format("{}, {}", _arm(), level("rate").fill_null("full"))),
        writer_b_s=pl.col("writer_rate_b_s").fill_null(0.0),
    ).filter(
        pl.col("role") != "floor",
        threads.is_between(0, MOST_THREADS),
        extra("least_s") > 0,
        pl.when(threads > 0).then(load_b_s > 0).otherwise(load_b_s == 0),
    )
    compared = paired(rows).select("key", "value", "against")
    alone = rows.filter(role="baseline").filter(pl.col("load_threads") > 0)
    reference = alone.filter(pl.col("load_threads") == pl.col("load_threads").min().over("case"))
    credits_of = reference.group_by("case").agg(
        credits="lines", reference_threads=pl.col("load_threads").first()
    )
    return (
        rows.join(compared, on="key", how="left", maintain_order="left")
        .join(credits_of, on="case", how="left", maintain_order="left")
        .with_columns(slowest_b_s=pl.col("writer_b_s").min().over("case", "writers"))
        .sort(
            *("case", pl.col("role") != "baseline", "slowest_b_s", "writers", "load_threads"),
            maintain_order=True,
        )
    )


def _arm() -> pl.Expr:
    return pl.col("arm").str.split("@").list.first()


def _modelled(table: pl.DataFrame) -> pl.DataFrame:
    """With the rate that the latency leaves the loading cores, and all traffic."""
    threads, credits_ = pl.col("load_threads"), pl.col("credits")
    return table.with_columns(
        modelled_b_s=pl.when(threads > 0).then(credits_ * LINE_B / pl.col("median_s") * threads),
        traffic_b_s=pl.col("load_b_s").fill_null(0.0) + pl.col("writer_b_s"),
    )


LATENCY = Question(
    name="latency",
    title="Latency against traffic",
    text="Median time of a dependent load, next to cores that load memory and to writers. Credits"
    " are the lines in flight of a loading core, rate x latency / 64 B, where the fewest cores load"
    " and nothing is written. They assume that the loading cores' lines take as long as those of"
    " the core that measures, and include prefetched lines. Modelled: credits x 64 B / latency,"
    " times the number of cores. A measured rate below it means fewer lines in flight, for instance"
    " since processor time was lost; one above it that the reference did not use all credits.",
    rows=_rows,
    by=("case", "writers", "load_threads"),
    estimates={
        "latency_s": median("fom"),
        "slowdown": ratio("value", "against"),
        # Of rates: the lines in flight here over the credits.
        "of_modelled": ratio_of_sets("lines", "credits"),
    },
    facts={
        "arm": pl.col("arm").first(),
        "median_s": pl.col("fom").median(),
        "least_s": pl.col("least_s").min(),
        "load_b_s": pl.col("load_b_s").median(),
        "writer_b_s": pl.col("writer_b_s").median(),
        "lines": pl.col("lines").median(),
        "credits": pl.col("credits").first().list.median(),
        "reference_threads": pl.col("reference_threads").first(),
    },
    then=_modelled,
    limits=(
        Limit("-", when=pl.col("load_threads") == 0, why="no core loads memory"),
        Limit("-", when=pl.col("credits").is_null(), why="credits were not measured"),
        Limit(
            "reference",
            when=(pl.col("writers") == "none")
            & (pl.col("load_threads") == pl.col("reference_threads")),
        ),
        Limit("at the bound", 1 - CLOSE, 1 + CLOSE, of="of_modelled"),
        Limit("below the bound", high=1, of="of_modelled"),
        Limit("above the bound", low=1, of="of_modelled"),
    ),
    columns=(*("slowdown", "load_b_s", "modelled_b_s", "of_modelled", "writer_b_s", "n", "word"),),
    headings={
        "load_threads": "loading cores",
        "latency_s": "latency",
        "slowdown": "time of a load / no writers",
        "load_b_s": "loading cores measured",
        "modelled_b_s": "modelled",
        "of_modelled": "measured / modelled",
        "writer_b_s": "written",
        "traffic_b_s": "traffic of loading cores and writers",
        "n": "runs",
        "word": "loading cores are",
    },
    plot="lines",
    axes=("traffic_b_s", "writers"),
    apart=("case",),
)
SECTIONS = [section(LATENCY, "run", 50)]
