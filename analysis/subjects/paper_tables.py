"""Tables II and III of Groves, Grant and Arnold (2016), here and as published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from analysis.display.figures import quantity
from analysis.effects.result import Result
from analysis.effects.verdict import emulation_caveats
from analysis.questions.estimators import stated
from analysis.questions.question import Question, columns_of, shared
from analysis.questions.shown import section
from analysis.report.data import RunData
from analysis.subjects.paper_estimators import (
    MEANS,
    RUNS_MEAN,
    both_arms,
    cases_on_one_node,
    mean_sd,
    slowdown_of,
    writes_as_the_paper,
)
from analysis.subjects.published import NAMES, Published, normalised, triad
from records.arms import arm_and_levels


def _beside(run: RunData, published: Mapping[str, Sequence[Published]]) -> pl.DataFrame:
    """A row per treatment of the workloads that writes as the paper did, and per published line.

    Empty if there is no such treatment with an interval.
    """
    on_one_node = cases_on_one_node(run)
    lines: list[dict[str, Any]] = []
    measured = False
    for workload, published_row in published.items():
        for row in run.results:
            is_comparable = row.workload == workload and row.case in on_one_node
            if is_comparable and row.slowdown and writes_as_the_paper(row):
                lines.append(_measured(run, row))
                measured = True
        lines += map(_as_published, published_row)
    return pl.DataFrame(lines, infer_schema_length=None) if measured else pl.DataFrame()


def _measured(run: RunData, row: Result) -> dict[str, Any]:
    """One treatment of a case with the paper's estimators, beside the paired estimate."""
    arms = both_arms(run, row)
    sides = [side["fom"].to_list() for side in arms]
    off, on = (mean_sd(values, row.better) for values in sides)
    transports = arms[1]["transport"].unique(maintain_order=True)
    emulated = emulation_caveats(transports)
    levels = ",".join(map("=".join, arm_and_levels(row.arm)[1].items()))
    size_b = arms[1].select(pl.col("working_set_b").max()).item()
    notes = [note for note in row.notes if note not in emulated]
    if row.better == "higher" and row.workload != "stream":
        notes.insert(0, "a rate here, a run time in the paper; slowdowns are of run times")
    return {
        "application": NAMES[row.workload],
        # Name of the case if it differs from its workload's, levels of the treatment, and the
        # memory that a rank works in: the paper explains CNS by it.
        "machine": " ".join(
            filter(
                None,
                [
                    "here",
                    "" if row.case == row.workload else row.case,
                    levels,
                    size_b and f"({quantity(size_b, 'B', 3)} a rank)",
                ],
            )
        ),
        # Ten as in the paper, or fewer if there are fewer.
        "n": min(*map(len, sides), RUNS_MEAN),
        **dict(zip(MEANS, (*off, *on), strict=True)),
        "unit": row.unit,
        "of_means": slowdown_of(off[0], on[0], row.better),
        **columns_of("slowdown", row.slowdown),
        "source": f"measured over {', '.join(transports)}" + (" (emulated)" if emulated else ""),
        "verdict": row.verdict_text,
        "notes": notes,
    }


#: Workload -> the memory of a rank that the paper states, in words (section V).
_WORKING_SETS = {"cns": " (about 4 MB a rank)"}


def _as_published(line: Published) -> dict[str, Any]:
    unit, factor = ("B/s", 1e9) if line.unit == "GB/s" else (line.unit, 1.0)
    return {
        "application": NAMES[line.workload],
        "machine": f"{line.machine}, {line.nic}{_WORKING_SETS.get(line.workload, '')}",
        **{"off_mean": line.off * factor, "on_mean": line.on * factor, "unit": unit},
        "of_means": line.slowdown,
        "source": f"published, {line.table}",
        "notes": [],
    }


def _caveats(table: pl.DataFrame) -> list[str]:
    texts = [f"{row['application']}: {note}" for row in table.to_dicts() for note in row["notes"]]
    return list(dict.fromkeys(texts))


def _table(
    name: str, title: str, published: Mapping[str, Sequence[Published]], more: str = ""
) -> Question:
    return Question(
        name=name,
        title=f"{title}, here and as published",
        text="Means of ten runs a side (harmonic of rates), or of fewer if there are fewer, have no"
        " interval: prefer the paired slowdown. Problem sizes, versions and compilers differ from"
        " the paper's: compare slowdowns, not rates or times. The picture at the top has both, as"
        f" figure 3 of Groves, Grant and Arnold (2016).{more}",
        rows=lambda run: _beside(run, published),
        by=("application", "machine", "source"),
        estimates={"slowdown": stated("slowdown")},
        facts=shared("n", *MEANS, "of_means", "unit", "verdict", "notes"),
        sentences=_caveats,
        columns=("off_mean", "on_mean", "of_means", "n", "verdict"),
        headings={
            "slowdown": "paired slowdown",
            "off_mean": "off",
            "on_mean": "on",
            "of_means": "slowdown of means",
            "n": "runs a side",
        },
        units=dict.fromkeys(MEANS, "unit"),
        plot=None,
    )


TABLE_2 = _table(
    "paper_table_2",
    "Table II: STREAM triad",
    {"stream": triad()},
    more=" Their slides give -60 % and -44 % for the Piledrivers, which is the remaining share; the"
    " table gives the loss.",
)
TABLE_3 = _table(
    "paper_table_3",
    "Table III: applications",
    {name: [line] for name, line in normalised().items() if name != "stream"},
)
_LINK = "Compare with {} of Groves, Grant and Arnold (2016)."
SECTIONS = [
    section(TABLE_2, "end", 89, link=_LINK.format("Table II"), folded=True),
    section(TABLE_3, "end", 90, link=_LINK.format("Table III"), folded=True),
]
