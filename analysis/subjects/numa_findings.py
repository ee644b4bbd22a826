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
    RATE_COLUMNS,
    RUN_FIGURES,
    cell_treatments,
    communication_runs,
    numa_nodes,
    smallest_of_runs,
)


def _findings(run: RunData) -> pl.DataFrame:
    """For each comparison in numa.json, a row for each run of its first cell.

    A comparison whose first cell has no run has one row, without a rate. `second` is the list of
    rates of the second cell. `locked` is a share of the cells whose pinned memory is known: of
    those in which every run pinned at least one message. It is null unless the comparison is about
    pinned pages.
    """
    treatments = cell_treatments(run)
    if treatments.is_empty():
        return treatments
    runs = communication_runs(treatments, runs_that_count(run.samples, *RATE_COLUMNS, *RUN_FIGURES))
    cells = runs.group_by(CELL_COLUMNS, maintain_order=True).agg(
        rates=pl.col("rate_b_s").drop_nulls(),
        pins_a_message=(smallest_of_runs("target_pinned_b") >= pl.col("message_b").first()),
    )
    rates_by_cell = {
        tuple(str(cell[name]) for name in CELL_COLUMNS): cell["rates"] for cell in cells.to_dicts()
    }
    locked_share = cells["pins_a_message"].mean()
    loads = cells["load"].cast(pl.String).unique().to_list()
    balancing = ", ".join(reported_facts(all_hosts(run.provenance.values()))["NUMA balancing"])
    rows = [
        {
            "finding": finding["finding"],
            "published": finding["published"],
            "compared": comparison["compared"],
            "about_pages": "pinned" in comparison,
            "locked": locked_share if "pinned" in comparison else None,
            "numa_nodes": numa_nodes(run),
            "numa_balancing": balancing,
            **_cell_rates(comparison, rates_by_cell, finding.get("nodes_needed", 1)),
        }
        for finding in json.loads(Path(__file__).with_name("numa.json").read_text())
        for comparison in finding["comparisons"]
        # Comparisons of cells with non-temporal writes are left out if the run has no such load.
        if "nt_write" not in comparison.get("first", ()) or "nt_write" in loads
    ]
    types = {"locked": pl.Float64} | dict.fromkeys(("first", "second"), pl.List(pl.Float64))
    table = pl.DataFrame(rows, schema_overrides=types)
    return table.explode("first", empty_as_null=True)


def _cell_rates(
    comparison: Mapping[str, Any],
    rates_by_cell: Mapping[tuple[str, ...], list[float]],
    nodes_needed: int,
) -> dict[str, Any]:
    """The rates of both cells of a comparison, and the number of NUMA nodes that they need.

    `both` says whether both cells are in the run. A cell with the level `other` needs two nodes.
    """
    keys = [tuple(comparison.get(name, ())) for name in ("first", "second")]
    first_rates, second_rates = (rates_by_cell.get(key) for key in keys)
    nodes_of_cells = 2 if any("other" in key for key in keys) else 1
    return {
        "first": first_rates,
        "second": second_rates,
        "both": first_rates is not None and second_rates is not None,
        "nodes_needed": max(nodes_needed, nodes_of_cells),
    }


def _balancing_sentences(table: pl.DataFrame) -> list[str]:
    """A sentence on each setting of automatic NUMA balancing among the nodes."""
    texts = table["numa_balancing"].unique().to_list() if table.height else []
    return [
        f"Automatic NUMA balancing (kernel.numa_balancing) of the nodes: {text or 'not known'}."
        " It moves pages, but none that are locked."
        for text in texts
    ]


_LOCKED = pl.col("locked")
_TOO_FEW_NODES = pl.col("numa_nodes") < pl.col("nodes_needed")
_NOT_MEASURED, _ONE_NODE = "not measured", "this machine has only one NUMA node"
FINDINGS = Question(
    name="numa_findings",
    title="RDMA and NUMA: findings of Nelson and Palmieri",
    text="Each finding as a ratio between the rates of communications of two cells: the median of"
    " all ratios between their runs, which are not paired. 'Yes' and 'no' require an interval that"
    " does not contain 1. Cells of different cases were measured one after the other: intervals do"
    " not include drift in between. Pages are locked if at least a message is pinned in all cells;"
    " writes that register no memory pin none.",
    rows=_findings,
    by=("finding", "compared"),
    estimates={"ratio": ratio_of_sets("first", "second")},
    facts={
        "n": pl.min_horizontal(
            pl.col("first").count(), pl.col("second").first().list.len().fill_null(0)
        ).cast(pl.Int64),
        "first_b_s": pl.col("first").median(),
        "second_b_s": pl.col("second").first().list.median(),
        **shared("published", "both", "about_pages", "locked", "numa_nodes", "nodes_needed"),
        **shared("numa_balancing"),
    },
    limits=(
        # The comparison of pinned pages. In all others `locked` is null, and these do not hold.
        Limit(word="yes", condition=_LOCKED == 1),
        Limit(word=INCONCLUSIVE, condition=_LOCKED > 0, why="pinned in some cells only"),
        Limit(word="no", condition=_LOCKED == 0),
        Limit(
            word=_NOT_MEASURED, condition=pl.col("about_pages"), why="not reported by the kernel"
        ),
        # The comparisons of rates.
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
            why=f"{_ONE_NODE}, so the cells differ in pinning only",
        ),
        Limit(word="yes", condition=pl.col("ratio_low") > 1),
        Limit(word="no", condition=pl.col("ratio_high") < 1),
        Limit(word=INCONCLUSIVE, why="the interval contains 1"),
    ),
    sentences=_balancing_sentences,
    columns=("first_b_s", "second_b_s", "n", "word", "published"),
    headings={
        "first_b_s": "first",
        "second_b_s": "second",
        "n": "runs per side",
        "word": "here",
    },
    plot=None,
)
SECTIONS = [section(FINDINGS, "run", 40)]
