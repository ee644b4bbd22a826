"""Tables II and III of Groves, Grant and Arnold (2016), here and as published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from analysis.display.figures import quantity
from analysis.effects.result import Result
from analysis.effects.verdict import emulation_caveats
from analysis.questions.estimators import stored_estimate
from analysis.questions.presentation import section
from analysis.questions.question import Question, columns_of, shared
from analysis.report.data import RunData
from analysis.subjects.paper import PAPER_NAMES, PublishedRow, table_2_rows, table_3_rows
from analysis.subjects.paper_estimators import (
    MEAN_COLUMNS,
    RUNS_IN_MEAN,
    cases_on_one_node,
    mean_and_deviation,
    runs_of_both_arms,
    slowdown_of,
    writes_as_the_paper,
)
from records.arms import arm_and_levels


def _comparison_rows(run: RunData, published: Mapping[str, Sequence[PublishedRow]]) -> pl.DataFrame:
    """The published rows, and a row per treatment that can be compared with them.

    Such a treatment writes as in the paper, its case ran on one target node, and its slowdown has
    an interval. `published` has the published rows of each workload. The table is empty if the run
    has no such treatment.
    """
    on_one_node = cases_on_one_node(run)
    rows: list[dict[str, Any]] = []
    is_measured = False
    for workload, published_rows in published.items():
        for row in run.results:
            is_comparable = row.workload == workload and row.case in on_one_node
            if is_comparable and row.slowdown and writes_as_the_paper(run, row):
                rows.append(_measured_row(run, row))
                is_measured = True
        rows += [_published_row(published_row) for published_row in published_rows]
    return pl.DataFrame(rows, infer_schema_length=None) if is_measured else pl.DataFrame()


def _measured_row(run: RunData, row: Result) -> dict[str, Any]:
    """The row of a treatment of a case: the paper's estimators and the paired estimate.

    In published rows, the column `machine` has the name of the machine. In this row, it describes
    what was measured: case, levels and working set.
    """
    baseline_runs, treated_runs = runs_of_both_arms(run, row)
    off_mean, off_sd = mean_and_deviation(baseline_runs["fom"].to_list(), row.better)
    on_mean, on_sd = mean_and_deviation(treated_runs["fom"].to_list(), row.better)
    transports = treated_runs["transport"].unique(maintain_order=True)
    caveats = emulation_caveats(transports)
    levels = arm_and_levels(row.arm).levels
    size_b = treated_runs.select(pl.col("working_set_b").max()).item()
    notes = [note for note in row.notes if note not in caveats]
    if row.better == "higher" and row.workload != "stream":
        notes.insert(0, "a rate here, a run time in the paper; slowdowns are of run times")
    description = ["here"]
    if row.case != row.workload:
        description.append(row.case)
    if levels:
        description.append(",".join(f"{name}={level}" for name, level in levels.items()))
    if size_b:
        # The paper explains the result of CNS by its working set.
        owner = "thread" if row.workload == "stream" else "rank"
        description.append(f"({quantity(size_b, 'B', 3)} a {owner})")
    return {
        "application": PAPER_NAMES[row.workload],
        "machine": " ".join(description),
        # Number of runs of each mean, at most ten as in the paper; the smaller one if they differ.
        "n": min(baseline_runs.height, treated_runs.height, RUNS_IN_MEAN),
        "off_mean": off_mean,
        "off_sd": off_sd,
        "on_mean": on_mean,
        "on_sd": on_sd,
        "unit": row.unit,
        "of_means": slowdown_of(off_mean, on_mean, row.better),
        **columns_of("slowdown", row.slowdown),
        "source": f"measured over {', '.join(transports)}" + (" (emulated)" if caveats else ""),
        "verdict": row.verdict_text,
        "notes": notes,
    }


#: Workload -> text on the memory of a rank, as section V of the paper states it.
_WORKING_SETS = {"cns": " (about 4 MB a rank)"}


def _published_row(row: PublishedRow) -> dict[str, Any]:
    unit, factor = ("B/s", 1e9) if row.unit == "GB/s" else (row.unit, 1.0)
    return {
        "application": PAPER_NAMES[row.workload],
        "machine": f"{row.machine}, {row.nic}{_WORKING_SETS.get(row.workload, '')}",
        "off_mean": row.off * factor,
        "on_mean": row.on * factor,
        "unit": unit,
        "of_means": row.slowdown,
        "source": f"published, {row.table}",
        "notes": [],
    }


def _note_sentences(table: pl.DataFrame) -> list[str]:
    texts = [f"{row['application']}: {note}" for row in table.to_dicts() for note in row["notes"]]
    return list(dict.fromkeys(texts))


def _table_question(
    name: str, title: str, published: Mapping[str, Sequence[PublishedRow]], remark: str = ""
) -> Question:
    return Question(
        name=name,
        title=f"{title}, here and as published",
        text="Means are over ten runs a side, or over all if there are fewer; those of rates are"
        " harmonic. They have no interval: prefer the paired slowdown. Problem sizes, versions and"
        " compilers differ from the paper's: compare slowdowns, not rates or times. The picture at"
        " the top shows slowdowns measured here beside those of figure 3 of Groves, Grant and"
        " Arnold (2016) for the same workloads."
        f"{remark}",
        rows=lambda run: _comparison_rows(run, published),
        by=("application", "machine", "source"),
        estimates={"slowdown": stored_estimate("slowdown")},
        facts=shared("n", *MEAN_COLUMNS, "of_means", "unit", "verdict", "notes"),
        sentences=_note_sentences,
        columns=("off_mean", "on_mean", "of_means", "n", "verdict"),
        headings={
            "slowdown": "paired slowdown",
            "off_mean": "off",
            "on_mean": "on",
            "of_means": "slowdown of means",
            "n": "runs a side",
        },
        units=dict.fromkeys(MEAN_COLUMNS, "unit"),
        plot=None,
    )


TABLE_2 = _table_question(
    "paper_table_2",
    "Table II: STREAM triad",
    {"stream": table_2_rows()},
    remark=" For the Piledrivers, the authors' slides print -60 % and -44 %. These are the shares"
    " of the rate that remain, not those that are lost.",
)
TABLE_3 = _table_question(
    "paper_table_3",
    "Table III: applications",
    {workload: [row] for workload, row in table_3_rows().items()},
)
_LINK = "Compare with {} of Groves, Grant and Arnold (2016)."
SECTIONS = [
    section(TABLE_2, "after_cases", 89, link=_LINK.format("Table II"), folded=True),
    section(TABLE_3, "after_cases", 90, link=_LINK.format("Table III"), folded=True),
]
