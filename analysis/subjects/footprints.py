"""Cache or memory: does the loss grow with the memory that writes pass through?

A cell is a combination of a working set (memory that each rank works in) and a footprint (memory of
a target that all writers' messages pass through). Two footprints are compared for each working set:

- inside: the largest footprint up to an eighth of a socket's last-level cache. Its writes stay in
  the cache.
- beyond: the largest footprint of at least twice all last-level caches. Its writes reach memory.

docs/memory.md#cache-or-memory has the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.effects.annotations import MEMORY_ROLES
from analysis.questions.estimators import centre, ratio
from analysis.questions.presentation import section
from analysis.questions.question import INCONCLUSIVE, Limit, Question, shared
from analysis.questions.rows import paired, runs_that_count
from analysis.report.data import RunData, hosts_of_targets
from analysis.report.words import changed_factors, size_text
from analysis.samples.counts import RISE_SHARE, role_pairs
from analysis.statistics import evidence
from analysis.statistics.interval import holm

Values = NDArray[np.float64]

#: Largest footprint that is inside, as a share of a socket's last-level cache. On many processors,
#: devices write into this share of the cache: two ways of 11 to 16.
_INSIDE_SHARE = 1 / 8
#: Smallest footprint that reaches memory, as a multiple of all last-level caches.
_BEYOND_MULTIPLE = 2
#: Largest chance that at least one of a run's statements of the same kind is wrong.
_ERROR_LEVEL = 0.05
#: Factors whose levels make up a cell. All other factors have their first levels.
_CELL_FACTORS = {"footprint", "working_set"}
_CELL_COLUMNS = ["case", "working_set_b", "footprint_b"]
_WORKING_SET_COLUMNS = ["case", "working_set", "working_set_b"]


def _caches(run: RunData) -> dict[str, pl.Expr]:
    """Bytes of the caches of a target node: second level, last level, and last level per socket.

    The target with the largest last-level caches is used. Sizes are null if the kernel does not
    report them.
    """
    hosts = [host for host in hosts_of_targets(run) if host.get("llc_total_b")]
    largest = max(hosts, key=lambda host: host["llc_total_b"], default={})
    l2_b, llc_b = (pl.lit(largest.get(name), pl.Int64) for name in ("l2_b", "llc_total_b"))
    return {"l2_b": l2_b, "llc_b": llc_b, "socket_llc_b": llc_b / (largest.get("sockets") or 1)}


def _runs_under_writes(run: RunData) -> pl.DataFrame:
    """A row per run under writes, in cases with several footprints.

    `reference` is the time with which the run's time is compared. It is the time of the control if
    any run of the same case and baseline has a control, and otherwise the time of the baseline.
    `repeated` is the time of the repeated baseline. It is null if `reference` is the control's.
    """
    writing_runs = run.samples.lazy().filter(pl.col("role") == "effect").drop_nulls("footprint_b")
    layouts = writing_runs.select("case", "footprint_b", "writers", "nodes").unique().collect()
    if layouts["case"].is_unique().all():
        return pl.DataFrame()
    names = ("fom", "fom_better", "writers", "nodes", "working_set_b", "footprint_b")
    runs = runs_that_count(run.samples, *names, "writer_rate_b_s")
    changed = changed_factors(runs.select("case", "arm").unique().iter_rows())
    compared = [key for key, factors in changed.items() if factors <= _CELL_FACTORS]
    compared_treatments = pl.DataFrame(
        compared, {"case": pl.String, "arm": pl.String}, orient="row"
    )
    target_count = pl.col("nodes").cast(pl.String).str.count_matches(",") + 1
    writers_per_target = (pl.col("writers") / target_count).ceil().cast(pl.Int64)
    runs = runs.join(
        compared_treatments, on=["case", "arm"], how="semi", maintain_order="left"
    ).with_columns(
        # A sample has the footprint of one writer. Here, it is summed over the target's writers.
        footprint_b=pl.col("footprint_b") * writers_per_target
    )
    pairs = paired(runs).with_columns(
        has_control=pl.col("control_value").is_not_null().any().over("case", "baseline")
    )
    rows = pairs.filter(role="effect").drop_nulls("footprint_b")
    rows = rows.filter(pl.col("footprint_b").n_unique().over("case") > 1)
    return rows.with_columns(
        reference=pl.when("has_control").then("control_value").otherwise("baseline_value"),
        repeated=pl.when(~pl.col("has_control")).then("repeated_value"),
        working_set=_size_texts("working_set_b"),
        footprint=_size_texts("footprint_b"),
        **_caches(run),
    ).sort(*_CELL_COLUMNS, "block", "pair")


def _size_texts(column: str) -> pl.Expr:
    """A column of sizes as texts."""
    return pl.col(column).map_elements(size_text, return_dtype=pl.String).fill_null("unknown")


# The map of all cells.


def _cells(run: RunData) -> pl.DataFrame:
    """A row per run under writes, with the counts of accesses to memory and caches of its pair.

    Several tools may have counted in one pair. Then the figure is their mean.
    """
    rows = _runs_under_writes(run)
    if rows.is_empty():
        return rows
    pair_columns = ["case", "arm", "block", "pair"]
    counts = role_pairs(run.counters, run.samples, *MEMORY_ROLES, "L3 misses")
    counts = counts.rename({"treatment": "arm"})
    for role, name, figure in (
        ("DRAM written", "dram_share", RISE_SHARE),
        ("DDIO misses", "ddio_share", RISE_SHARE),
        ("L3 misses", "l3_misses", pl.col("value") / pl.col("off")),
    ):
        figures = counts.filter(role=role).group_by(pair_columns).agg(figure.mean().alias(name))
        rows = rows.join(figures, on=pair_columns, how="left", maintain_order="left")
    return rows


CELLS = Question(
    name="footprints",
    title="Loss by footprint and working set",
    text="Time under writes / time without, or with the control if there is one. The footprint is"
    " the memory of a target that all writers' messages pass through; the working set is the memory"
    " that each rank works in. If tools counted them, within pairs: the bytes that writes add to"
    " those written into memory, and to device writes that miss the cache, as shares of the bytes"
    " written; and misses of the last-level cache / those without writes.",
    rows=_cells,
    by=("case", "working_set", "footprint"),
    estimates={
        "slowdown": ratio("value", "reference", "repeated"),
        **{name: centre(name) for name in ("dram_share", "ddio_share", "l3_misses")},
    },
    facts={
        "rate_b_s": pl.col("writer_rate_b_s").median(),
        **shared("working_set_b", "footprint_b", "l2_b", "llc_b"),
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
    plot_columns=("footprint", "working_set"),
    marks=("l2_b", "llc_b"),
    picture_keys=("case",),
)


# The cause of the loss, by working set.


def _inside_and_beyond(run: RunData) -> pl.DataFrame:
    """A row per pair and working set: the times with footprints inside and beyond the cache.

    Each row also has the pair's reference, and whether each of `_STATEMENTS` is shown for the
    working set.
    """
    rows = _runs_under_writes(run)
    if rows.is_empty():
        return rows
    size_b = pl.col("footprint_b")
    is_inside = size_b <= _INSIDE_SHARE * pl.col("socket_llc_b")
    is_beyond = size_b >= _BEYOND_MULTIPLE * pl.col("llc_b")
    rows = rows.with_columns(
        inside_b=size_b.filter(is_inside).max().over(_WORKING_SET_COLUMNS),
        beyond_b=size_b.filter(is_beyond).max().over(_WORKING_SET_COLUMNS),
    )
    pairs = rows.group_by(*_WORKING_SET_COLUMNS, "block", "pair", maintain_order=True).agg(
        pl.col("reference", "repeated", "inside_b", "beyond_b", "llc_b").first(),
        inside=pl.col("value").filter(size_b == pl.col("inside_b")).first(),
        beyond=pl.col("value").filter(size_b == pl.col("beyond_b")).first(),
        margin=pl.lit(run.header.margin),
    )
    return pairs.join(
        _statements_by_working_set(pairs),
        on=_WORKING_SET_COLUMNS,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )


#: Statement -> columns of the two times that it compares. `loss` and `same` also have the column of
#: the repeated baseline.
#: loss: with the footprint inside the cache, there is a loss.
#: same: with the footprint inside the cache, there is no loss above the margin.
#: more: with the footprint beyond the cache, the loss is larger than inside.
#: no_more: with the footprint beyond the cache, the loss is not larger by more than the margin.
_STATEMENTS = {
    "loss": ("inside", "reference", "repeated"),
    "same": ("inside", "reference", "repeated"),
    "more": ("beyond", "inside"),
    "no_more": ("beyond", "inside"),
}


def _statements_by_working_set(pairs: pl.DataFrame) -> pl.DataFrame:
    """A row per working set, and whether each of `_STATEMENTS` is shown for it.

    The p values of each statement are corrected by Holm's method over the working sets of the run.
    """
    groups = pairs.partition_by(_WORKING_SET_COLUMNS, maintain_order=True)
    statements = pl.concat(group.select(_WORKING_SET_COLUMNS).head(1) for group in groups)
    p_outside_margin = partial(evidence.p_outside_margin, margin=float(pairs["margin"][0]))
    for name, columns in _STATEMENTS.items():
        test = p_outside_margin if name in ("same", "no_more") else evidence.p_longer
        p = holm([evidence.p_over_interims(_log_times(group, columns), test) for group in groups])
        statements = statements.with_columns((pl.Series(p) <= _ERROR_LEVEL).alias(name))
    # A loss that is shown to lie within the margin does not count as a loss.
    return statements.with_columns(
        loss=pl.col("loss") & ~pl.col("same"), more=pl.col("more") & ~pl.col("no_more")
    )


def _log_times(group: pl.DataFrame, columns: Sequence[str]) -> Values:
    """Logarithms of the times in `columns`, a row per pair.

    A missing repeated baseline is NaN.
    """
    treated, reference, *_ = columns
    complete = group.drop_nulls([treated, reference])
    times = complete.select(pl.col(columns).cast(pl.Float64).log())
    return times.fill_null(float("nan")).to_numpy()


MEMORY = "memory"
CACHE = "cache"
CACHE_AND_MEMORY = "cache and memory"
NO_LOSS = "no loss"
#: Word -> the sentence for a case, which names the working sets that show it.
_SENTENCES = {
    MEMORY: "loss follows the footprint of the writes: memory (working sets of {memory} a rank)",
    CACHE: "loss is there with a footprint inside the cache: cache (working sets of {cache} a"
    " rank)",
    CACHE_AND_MEMORY: "loss is there with a footprint inside the cache (working sets of {cache} a"
    " rank), and follows it beyond ({memory}): both, cache and memory",
    NO_LOSS: "no loss beyond the margin, with a footprint inside the cache or beyond it",
}


def cause(table: pl.DataFrame) -> str:
    """The cause that the working sets of a case show together, or `INCONCLUSIVE`.

    A loss must be shown for at least one working set. 'No loss' must be shown for all of them.
    """
    cache_loss, memory_loss = bool(table["loss"].any()), bool(table["more"].any())
    no_cache_loss, no_memory_loss = bool(table["same"].all()), bool(table["no_more"].all())
    if cache_loss and memory_loss:
        return CACHE_AND_MEMORY
    if cache_loss and no_memory_loss:
        return CACHE
    if memory_loss and no_cache_loss:
        return MEMORY
    if no_cache_loss and no_memory_loss:
        return NO_LOSS
    return INCONCLUSIVE


def _sentences(table: pl.DataFrame) -> list[str]:
    """A sentence per case, which also names the working sets with too little evidence."""
    sentences = []
    for (case,), rows in table.group_by("case", maintain_order=True):
        working_sets = {
            CACHE: _working_sets(rows.filter("loss")),
            MEMORY: _working_sets(rows.filter("more")),
        }
        word = cause(rows)
        if word in _SENTENCES:
            text = _SENTENCES[word].format(**working_sets)
        else:
            shown_sentences = [_SENTENCES[name] for name, sizes in working_sets.items() if sizes]
            text = "; ".join(shown_sentences).format(**working_sets) or "not decided"
        is_decided = pl.col("word").is_in([MEMORY, CACHE, CACHE_AND_MEMORY, NO_LOSS])
        undecided_rows = rows.filter(~is_decided)
        if word != CACHE_AND_MEMORY and undecided_rows.height:
            undecided_sets = _working_sets(undecided_rows)
            text += f". Too little evidence at working sets of {undecided_sets} a rank"
        sentences.append(f"{case}: {text}.")
    return sentences


def _working_sets(rows: pl.DataFrame) -> str:
    return ", ".join(rows["working_set"])


_HAS_LOSS, _HAS_NO_LOSS = pl.col("loss"), pl.col("same")
_HAS_MORE, _HAS_NO_MORE = pl.col("more"), pl.col("no_more")
_UNKNOWN = "the size of the last-level caches is unknown"
CAUSES = Question(
    name="cache_or_memory",
    title="Cache or memory",
    text="Whether the loss follows the memory that writes pass through. Inside: time with the"
    " largest footprint within an eighth of a socket's last-level cache / time without writes, or"
    " with the control if there is one. Beyond: time with the largest footprint of twice all"
    " last-level caches or more / time with the footprint inside. Both are taken within pairs. Each"
    " kind of statement holds for all working sets of the run together at 95 %. A loss that is"
    " shown to lie within the margin is no loss.",
    rows=_inside_and_beyond,
    by=("case", "working_set"),
    estimates={
        "inside": ratio("inside", "reference", "repeated"),
        "beyond": ratio("beyond", "inside"),
    },
    facts={
        "n": pl.min_horizontal(
            (pl.col("inside") + pl.col("reference")).count(),
            (pl.col("inside") + pl.col("beyond")).count(),
        ).cast(pl.Int64),
        **shared("working_set_b", "inside_b", "beyond_b"),
        "inside_at": _size_texts("inside_b").first(),
        "beyond_at": _size_texts("beyond_b").first(),
        **shared("llc_b", "margin", *_STATEMENTS),
    },
    limits=(
        Limit(word=CACHE_AND_MEMORY, condition=_HAS_LOSS & _HAS_MORE),
        Limit(word=CACHE, condition=_HAS_LOSS & _HAS_NO_MORE),
        Limit(word=MEMORY, condition=_HAS_NO_LOSS & _HAS_MORE),
        Limit(word=NO_LOSS, condition=_HAS_NO_LOSS & _HAS_NO_MORE),
        Limit(word=f"{CACHE}, at least", condition=_HAS_LOSS),
        Limit(word=f"{MEMORY}, at least", condition=_HAS_MORE),
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
    drawn_estimates=("inside", "beyond"),
    picture_keys=("case",),
)
SECTIONS = [section(CAUSES, "before_cases", 38), section(CELLS, "before_cases", 39)]
