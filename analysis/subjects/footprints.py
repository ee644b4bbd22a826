"""Cache or memory: whether loss follows the memory that writes pass through, by working set.

A cell is a working set (memory that each rank works in) and a footprint (memory of a target that
all writers' messages pass through). Of the footprints, the largest within an eighth of a socket's
last-level cache stands for writes that stay in a cache, the largest of twice all these caches or
more for writes that reach memory. docs/memory.md#cache-or-memory has the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.effects.annotations import MEMORY_ROLES
from analysis.questions.estimators import ratio
from analysis.questions.question import INCONCLUSIVE, Limit, Question, shared
from analysis.questions.rows import paired, runs_that_count
from analysis.questions.shown import section
from analysis.report.data import RunData
from analysis.report.words import size_text
from analysis.samples.counts import beside_baselines
from analysis.samples.provenance import all_hosts
from analysis.statistics import evidence
from analysis.statistics.interval import holm
from records.arms import arm_and_levels

Values = NDArray[np.float64]

#: Of a socket's last-level cache, the share that devices write into on many processors: two ways
#: of 11 to 16. And how many times all these caches a footprint is that must reach memory.
_INSIDE, _BEYOND = 1 / 8, 2
#: The chance that a run makes any wrong statement of a kind.
_LEVEL = 0.05
_FACTORS = {"footprint", "working_set"}
_CELL = ["case", "working_set_b", "footprint_b"]
_ROW = ["case", "working_set", "working_set_b"]


def _caches(run: RunData) -> dict[str, pl.Expr]:
    """Bytes of the second-level, all last-level and a socket's last-level caches of a target node.

    Those of the node with the largest ones; null if the kernel does not say.
    """
    hosts = [host for host in all_hosts(run.provenance.values()) if host.get("llc_total_b")]
    largest = max(hosts, key=lambda host: host["llc_total_b"], default={})
    l2_b, llc_b = (pl.lit(largest.get(name), pl.Int64) for name in ("l2_b", "llc_total_b"))
    return {"l2_b": l2_b, "llc_b": llc_b, "socket_b": llc_b / (largest.get("sockets") or 1)}


def _pairs(run: RunData) -> pl.DataFrame:
    """A row per run under writes of a cell, in cases of several footprints.

    `reference` is what its time is compared with: the control where the case has one, else the
    baseline, which `again` repeats.
    """
    writing_runs = run.samples.lazy().filter(pl.col("role") == "effect").drop_nulls("footprint_b")
    kinds = writing_runs.select("case", "footprint_b", "writers", "nodes").unique().collect()
    if kinds["case"].is_unique().all():
        return pl.DataFrame()
    names = ("fom", "fom_better", "writers", "nodes", "working_set_b", "footprint_b")
    runs = runs_that_count(run.samples, *names, "writer_rate_b_s")
    compared_arms = [
        arm for arm in runs["arm"].unique() if arm_and_levels(arm)[1].keys() <= _FACTORS
    ]
    writers_of_target = pl.col("writers") / (
        pl.col("nodes").cast(pl.String).str.count_matches(",") + 1
    )
    runs = runs.filter(pl.col("arm").is_in(compared_arms)).with_columns(
        # Of all writers of a target.
        footprint_b=pl.col("footprint_b") * writers_of_target.ceil().cast(pl.Int64)
    )
    pairs = paired(runs).with_columns(
        controlled=pl.col("control").is_not_null().any().over("case", "baseline")
    )
    rows = pairs.filter(role="effect").drop_nulls("footprint_b")
    rows = rows.filter(pl.col("footprint_b").n_unique().over("case") > 1)
    return rows.with_columns(
        reference=pl.when("controlled").then("control").otherwise("against"),
        again=pl.when(~pl.col("controlled")).then("again"),
        working_set=_text("working_set_b"),
        footprint=_text("footprint_b"),
        **_caches(run),
    ).sort(*_CELL, "block", "pair")


def _text(name: str) -> pl.Expr:
    """A size in words."""
    return pl.col(name).map_elements(size_text, return_dtype=pl.String).fill_null("unknown")


# The map of all cells.


def _cells(run: RunData) -> pl.DataFrame:
    rows = _pairs(run)
    if rows.is_empty():
        return rows
    counted = beside_baselines(run.counters, run.samples, *MEMORY_ROLES, "L3 misses")
    rise = (pl.col("value") - pl.col("off")) / pl.col("written_b")
    for role, name, figure in (
        ("DRAM written", "dram_share", rise),
        ("DDIO misses", "ddio_share", rise),
        ("L3 misses", "l3_misses", pl.col("value") / pl.col("off")),
    ):
        role_figures = counted.filter(role=role).select("case", figure.alias(name), arm="treatment")
        rows = rows.join(role_figures, on=["case", "arm"], how="left", maintain_order="left")
    return rows


_COUNTS = ("dram_share", "ddio_share", "l3_misses", "l2_b", "llc_b")
CELLS = Question(
    name="footprints",
    title="Loss by footprint and working set",
    text="Time under writes / time without, or with the control where there is one. The footprint"
    " is the memory of a target that all writers' messages pass through, the working set what each"
    " rank works in. Where tools counted: what more is written into memory than without writes, and"
    " device writes that missed the cache, as shares of the bytes written; and misses of the"
    " last-level cache / those without writes.",
    rows=_cells,
    by=("case", "working_set", "footprint"),
    estimates={"slowdown": ratio("value", "reference", "again")},
    facts={
        "rate_b_s": pl.col("writer_rate_b_s").median(),
        **shared("working_set_b", "footprint_b", *_COUNTS),
    },
    columns=("rate_b_s", "dram_share", "ddio_share", "l3_misses", "n"),
    headings={
        "working_set": "working set a rank",
        "rate_b_s": "writers' rate",
        "dram_share": "reached memory",
        "ddio_share": "missed the cache",
        "l3_misses": "L3 misses",
        "l2_b": "L2",
        "llc_b": "last-level caches",
    },
    plot="map",
    axes=("footprint", "working_set"),
    marks=("l2_b", "llc_b"),
    apart=("case",),
)


# The size that the loss follows, by working set.


def _contrasts(run: RunData) -> pl.DataFrame:
    """A row per pair of a working set: times inside the cache and beyond it, and the reference."""
    rows = _pairs(run)
    if rows.is_empty():
        return rows
    size_b = pl.col("footprint_b")
    inside = size_b <= _INSIDE * pl.col("socket_b")
    beyond = size_b >= _BEYOND * pl.col("llc_b")
    rows = rows.with_columns(
        inside_b=size_b.filter(inside).max().over(_ROW),
        beyond_b=size_b.filter(beyond).max().over(_ROW),
    )
    pairs = rows.group_by(*_ROW, "block", "pair", maintain_order=True).agg(
        pl.col("reference", "again", "inside_b", "beyond_b", "llc_b").first(),
        inside=pl.col("value").filter(size_b == pl.col("inside_b")).first(),
        beyond=pl.col("value").filter(size_b == pl.col("beyond_b")).first(),
        margin=pl.lit(run.header.margin),
    )
    return pairs.join(
        _shown_statements(pairs), on=_ROW, how="left", nulls_equal=True, maintain_order="left"
    )


#: Statement -> the two times that it compares: there is loss inside the cache, or none beyond the
#: margin; there is more of it beyond the cache, or no more than the margin.
_STATEMENTS = {
    "loss": ("inside", "reference", "again"),
    "same": ("inside", "reference", "again"),
    "more": ("beyond", "inside"),
    "no_more": ("beyond", "inside"),
}


def _shown_statements(pairs: pl.DataFrame) -> pl.DataFrame:
    """A row per working set, and whether each statement is shown of it (Holm, over the run)."""
    groups = pairs.partition_by(_ROW, maintain_order=True)
    shown = pl.concat(group.select(_ROW).head(1) for group in groups)
    outside = partial(evidence.p_outside_margin, margin=float(pairs["margin"][0]))
    for name, columns in _STATEMENTS.items():
        test = outside if name in ("same", "no_more") else evidence.p_longer
        p = holm([evidence.p_over_interims(_log_times(group, columns), test) for group in groups])
        shown = shown.with_columns((pl.Series(p) <= _LEVEL).alias(name))
    # A loss that is shown to lie within the margin is none.
    return shown.with_columns(
        loss=pl.col("loss") & ~pl.col("same"), more=pl.col("more") & ~pl.col("no_more")
    )


def _log_times(group: pl.DataFrame, columns: Iterable[str]) -> Values:
    """Logarithms of times, a row per pair; NaN if a repeated baseline is missing."""
    treated, against, *again = columns
    complete = group.drop_nulls([treated, against])
    times = complete.select(pl.col(treated, against, *again).cast(pl.Float64).log())
    return times.fill_null(float("nan")).to_numpy()


MEMORY = "memory"
CACHE = "cache"
BOTH = "cache and memory"
NONE = "no loss"
#: Word -> what a case shows, with the working sets at which it does.
_SENTENCES = {
    MEMORY: "loss follows the footprint of the writes: memory (working sets of {memory} a rank)",
    CACHE: "loss is there with a footprint inside the cache: cache (working sets of {cache} a"
    " rank)",
    BOTH: "loss is there with a footprint inside the cache (working sets of {cache} a rank), and"
    " follows it beyond ({memory}): both, cache and memory",
    NONE: "no loss beyond the margin, with a footprint inside the cache or beyond it",
}


def cause(table: pl.DataFrame) -> str:
    """Return what all working sets of a case show together; `INCONCLUSIVE` if evidence lacks."""
    cache, memory = bool(table["loss"].any()), bool(table["more"].any())
    no_cache, no_memory = bool(table["same"].all()), bool(table["no_more"].all())
    if cache and memory:
        return BOTH
    if cache and no_memory:
        return CACHE
    if memory and no_cache:
        return MEMORY
    if no_cache and no_memory:
        return NONE
    return INCONCLUSIVE


def _sentences(table: pl.DataFrame) -> list[str]:
    """A sentence per case, which also names the working sets that lack evidence."""
    sentences = []
    for (case,), rows in table.group_by("case", maintain_order=True):
        sets_by_word: Mapping[str, str] = {
            word: _sets(rows.filter(name)) for word, name in ((CACHE, "loss"), (MEMORY, "more"))
        }
        word = cause(rows)
        text = _SENTENCES.get(word) or "; ".join(
            _SENTENCES[part] for part, sets in sets_by_word.items() if sets
        )
        text = text.format(**sets_by_word) or "not decided"
        decided = pl.col("word").is_in([MEMORY, CACHE, BOTH, NONE])
        undecided = rows.filter(~decided)
        if word != BOTH and undecided.height:
            text += f". Evidence lacks at working sets of {_sets(undecided)} a rank"
        sentences.append(f"{case}: {text}.")
    return sentences


def _sets(rows: pl.DataFrame) -> str:
    return ", ".join(rows["working_set"])


_LOSS, _SAME, _MORE, _NO_MORE = (pl.col(name) for name in _STATEMENTS)
_UNKNOWN = "the size of the last-level caches is unknown"
CAUSES = Question(
    name="cache_or_memory",
    title="Cache or memory",
    text="Whether loss follows the memory that writes pass through. Inside: time with the largest"
    " footprint within an eighth of a socket's last-level cache / time without writes, or with the"
    " control where there is one. Beyond: time with the largest footprint of twice all last-level"
    " caches or more / time with that inside. Both within pairs; what is said holds over all"
    " working sets of the run at 95 %. A loss is none if it is shown to lie within the margin.",
    rows=_contrasts,
    by=("case", "working_set"),
    estimates={
        "inside": ratio("inside", "reference", "again"),
        "beyond": ratio("beyond", "inside"),
    },
    facts={
        "n": pl.min_horizontal(
            (pl.col("inside") + pl.col("reference")).count(),
            (pl.col("inside") + pl.col("beyond")).count(),
        ).cast(pl.Int64),
        **shared("working_set_b", "inside_b", "beyond_b"),
        "inside_at": _text("inside_b").first(),
        "beyond_at": _text("beyond_b").first(),
        **shared("llc_b", "margin", *_STATEMENTS),
    },
    limits=(
        Limit(word=BOTH, condition=_LOSS & _MORE),
        Limit(word=CACHE, condition=_LOSS & _NO_MORE),
        Limit(word=MEMORY, condition=_SAME & _MORE),
        Limit(word=NONE, condition=_SAME & _NO_MORE),
        Limit(word=f"{CACHE}, at least", condition=_LOSS),
        Limit(word=f"{MEMORY}, at least", condition=_MORE),
        Limit(word=INCONCLUSIVE, condition=pl.col("llc_b").is_null(), why=_UNKNOWN),
        Limit(word=INCONCLUSIVE, condition=pl.col("inside_b").is_null(), why="no footprint inside"),
        Limit(word=INCONCLUSIVE, condition=pl.col("beyond_b").is_null(), why="no footprint beyond"),
    ),
    sentences=_sentences,
    columns=("inside_at", "beyond", "beyond_at", "n", "word"),
    headings={
        "working_set": "working set a rank",
        "inside": "loss inside",
        "inside_at": "footprint inside",
        "beyond": "beyond / inside",
        "beyond_at": "footprint beyond",
    },
    drawn=("inside", "beyond"),
    apart=("case",),
)
SECTIONS = [section(CAUSES, "run", 38), section(CELLS, "run", 39)]
