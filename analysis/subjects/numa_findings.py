"""The findings of Nelson and Palmieri on RDMA in NUMA systems, tested on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from analysis.questions.estimators import ratio_of_sets
from analysis.questions.presentation import section
from analysis.questions.question import INCONCLUSIVE, Limit, Question, shared
from analysis.questions.rows import runs_that_count
from analysis.report.data import RunData
from analysis.samples.provenance import all_hosts, reported_facts
from analysis.statistics.interval import MIN_VALUES
from analysis.subjects.numa_cells import (
    CELL_COLUMNS,
    COUNT_COLUMNS,
    LEVEL_COLUMNS,
    RATE_COLUMNS,
    RUN_FIGURES,
    cell_treatments,
    communication_runs,
    numa_nodes,
    smallest_of_runs,
)


def _findings(run: RunData) -> pl.DataFrame:
    """For each comparison in numa.json, a row for each run of its first cell.

    A comparison is between two cells, which are combinations of levels (`numa_cells`). A row has
    the rate of the run, and the list of rates of the second cell. If the first cell has no run, the
    comparison has one row, without a rate.

    A cell pins if every run of it pinned at least the memory of one message. `pinning_share` is the
    share of cells that pin, among the cells whose pinned memory is known. It is null unless the
    comparison is about pinned pages.
    """
    treatments = cell_treatments(run)
    if treatments.is_empty():
        return treatments
    # The smallest number is the default, if it was measured.
    treatments = treatments.filter(pl.col(name) == pl.col(name).min() for name in COUNT_COLUMNS)
    runs = communication_runs(treatments, runs_that_count(run.samples, *RATE_COLUMNS, *RUN_FIGURES))
    cells = runs.group_by(CELL_COLUMNS, maintain_order=True).agg(
        rates=pl.col("rate_b_s").drop_nulls(),
        pins=(smallest_of_runs("target_pinned_b") >= pl.col("message_b").first()),
    )
    rates_by_cell = {
        tuple(str(cell[name]) for name in LEVEL_COLUMNS): cell["rates"] for cell in cells.to_dicts()
    }
    pinning_share = cells["pins"].mean()
    loads = cells["load"].cast(pl.String).unique().to_list()
    balancing = ", ".join(reported_facts(all_hosts(run.provenance.values()))["NUMA balancing"])
    rows = [
        {
            "finding": finding["finding"],
            "published": finding["published"],
            "compared": comparison["compared"],
            "about_pinning": "pinned" in comparison,
            "pinning_share": pinning_share if "pinned" in comparison else None,
            "numa_nodes": numa_nodes(run),
            "numa_balancing": balancing,
            **_cell_rates(comparison, rates_by_cell, finding.get("nodes_needed", 1)),
        }
        for finding in json.loads(Path(__file__).with_name("numa.json").read_text())
        for comparison in finding["comparisons"]
        # Comparisons of cells with non-temporal writes are left out if the run has no such load.
        if "nt_write" not in comparison.get("first", ()) or "nt_write" in loads
    ]
    rate_lists = ("first_rates_b_s", "second_rates_b_s")
    types = {"pinning_share": pl.Float64} | dict.fromkeys(rate_lists, pl.List(pl.Float64))
    table = pl.DataFrame(rows, schema_overrides=types)
    table = table.explode("first_rates_b_s", empty_as_null=True)
    return table.rename({"first_rates_b_s": "first_rate_b_s"})


def _cell_rates(
    comparison: Mapping[str, Any],
    rates_by_cell: Mapping[tuple[str, ...], list[float]],
    nodes_needed: int,
) -> dict[str, Any]:
    """The rates of the two cells of a comparison, and the number of NUMA nodes that they need.

    In numa.json, a cell is the list of its levels. `both` is true if the run has both cells. A cell
    with the level `other` needs two NUMA nodes.
    """
    cells = [tuple(comparison.get(name, ())) for name in ("first", "second")]
    first_rates_b_s, second_rates_b_s = (rates_by_cell.get(cell) for cell in cells)
    nodes_of_cells = 2 if any("other" in cell for cell in cells) else 1
    return {
        "first_rates_b_s": first_rates_b_s,
        "second_rates_b_s": second_rates_b_s,
        "both": first_rates_b_s is not None and second_rates_b_s is not None,
        "nodes_needed": max(nodes_needed, nodes_of_cells),
    }


def _balancing_sentence(table: pl.DataFrame) -> list[str]:
    """The sentence on automatic NUMA balancing, which names the settings of all nodes."""
    if table.is_empty():
        return []
    settings = table["numa_balancing"][0] or "not known"
    return [
        f"Automatic NUMA balancing (kernel.numa_balancing) of the nodes: {settings}. It moves"
        " pages, but none that are locked."
    ]


#: `pinning_share`, under the name that it has in the answer.
_PINNING_SHARE = pl.col("locked")
_TOO_FEW_NODES = pl.col("numa_nodes") < pl.col("nodes_needed")
_NOT_MEASURED, _ONE_NODE = "not measured", "this machine has only one NUMA node"
FINDINGS = Question(
    name="numa_findings",
    title="RDMA and NUMA: findings of Nelson and Palmieri",
    text="Each finding as a ratio between the rates of communications of two cells: the median of"
    " all ratios between their runs, which are not paired. 'Yes' and 'no' require an interval that"
    " does not contain 1. Cells of different cases were measured one after the other, and intervals"
    " do not include the drift between them. Pages count as locked if every run pinned at least one"
    " message, in all cells whose pinned memory is known. Writes that register no memory pin none.",
    rows=_findings,
    by=("finding", "compared"),
    estimates={"ratio": ratio_of_sets("first_rate_b_s", "second_rates_b_s")},
    facts={
        "n": pl.min_horizontal(
            pl.col("first_rate_b_s").count(),
            pl.col("second_rates_b_s").first().list.len().fill_null(0),
        ).cast(pl.Int64),
        "first_b_s": pl.col("first_rate_b_s").median(),
        "second_b_s": pl.col("second_rates_b_s").first().list.median(),
        **shared("published", "both"),
        "about_pages": pl.col("about_pinning").first(),
        "locked": pl.col("pinning_share").first(),
        **shared("numa_nodes", "nodes_needed", "numa_balancing"),
    },
    limits=(
        # These limits are for the comparison of pinned pages. They do not apply to the others, in
        # which the share is null.
        Limit(word="yes", condition=_PINNING_SHARE == 1),
        Limit(word=INCONCLUSIVE, condition=_PINNING_SHARE > 0, why="pinned in some cells only"),
        Limit(word="no", condition=_PINNING_SHARE == 0),
        Limit(
            word=_NOT_MEASURED, condition=pl.col("about_pages"), why="not reported by the kernel"
        ),
        # The other limits are for comparisons of rates.
        Limit(word=_NOT_MEASURED, condition=~pl.col("both") & _TOO_FEW_NODES, why=_ONE_NODE),
        Limit(word=_NOT_MEASURED, condition=~pl.col("both"), why="not part of this run"),
        Limit(word=_NOT_MEASURED, condition=pl.col("n") == 0, why="no run counts"),
        Limit(
            word=INCONCLUSIVE,
            condition=pl.col("n") < MIN_VALUES,
            why=f"fewer than {MIN_VALUES} runs per side",
        ),
        Limit(
            word=_NOT_MEASURED,
            condition=_TOO_FEW_NODES,
            why=f"{_ONE_NODE}, so the cells differ only in whether workers are bound",
        ),
        Limit(word="yes", condition=pl.col("ratio_low") > 1),
        Limit(word="no", condition=pl.col("ratio_high") < 1),
        Limit(word=INCONCLUSIVE, why="the interval contains 1"),
    ),
    sentences=_balancing_sentence,
    columns=("first_b_s", "second_b_s", "n", "word", "published"),
    headings={
        "first_b_s": "first",
        "second_b_s": "second",
        "n": "runs per side",
        "word": "here",
    },
    plot=None,
)
SECTIONS = [section(FINDINGS, "before_cases", 40)]
