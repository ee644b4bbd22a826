"""Groves, Grant and Arnold (2016): their estimators, tables and figures for a run.

The estimators are shown with the paired estimate, never instead of it: none has an interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from analysis.effects.result import Result
from analysis.effects.verdict import emulations
from analysis.questions.estimators import stated
from analysis.questions.question import Question, columns_of, shared
from analysis.questions.shown import section
from analysis.report.data import RunData
from analysis.report.plots import WIDE_IN, View, label, overview_plot, steady
from analysis.report.sections import Section
from analysis.samples.pairs import extra
from analysis.subjects.published import MACHINE, NAMES, Published, normalised, triad
from records.arms import arm_of, in_order, parts_of
from records.sample import Better
from records.units import quantity

#: Runs per side in sections IV and V (mean and standard deviation) and VI (minimum).
RUNS_MEAN = 10
RUNS_BEST = 5


def mean_sd(values: Sequence[float], better: Better) -> tuple[float, float]:
    """Mean (harmonic for rates) and sample standard deviation of the first 10 of `values`.

    Of all if there are fewer; two at least.
    """
    first_10 = np.asarray(values[:RUNS_MEAN], dtype=float)
    # Rates are work over time: their mean is the work over the mean time.
    mean = 1 / np.mean(1 / first_10) if better == "higher" else np.mean(first_10)
    return float(mean), float(np.std(first_10, ddof=1))


def paper_estimates(
    off: Sequence[float], on: Sequence[float], better: Better
) -> dict[str, float | None]:
    """The paper's estimators of figures of merit `off` and `on`, in the order they were taken.

    Of each arm the mean and standard deviation of the first 10 runs, and the best of the first 5;
    slowdowns of the means (Tables II, III), of the best (section VI), and of the best of 5 off
    against the median of 5 on (section VII). None where there are too few.
    """
    best = max if better == "higher" else min
    estimates: dict[str, float | None] = dict.fromkeys((*_MEANS, *_BESTS, *_RATIOS))
    for arm, values in (("off", off), ("on", on)):
        if len(values) >= RUNS_MEAN:
            estimates[f"{arm}_mean"], estimates[f"{arm}_sd"] = mean_sd(values, better)
        if len(values) >= RUNS_BEST:
            estimates[f"{arm}_best"] = best(values[:RUNS_BEST])
    estimates["of_means"] = _slowdown(estimates["off_mean"], estimates["on_mean"], better)
    estimates["of_best"] = _slowdown(estimates["off_best"], estimates["on_best"], better)
    middle = float(np.median(on[:RUNS_BEST])) if estimates["of_best"] else None
    estimates["best_against_median"] = _slowdown(estimates["off_best"], middle, better)
    return estimates


def _slowdown(off: float | None, on: float | None, better: Better) -> float | None:
    if off is None or on is None:
        return None
    return off / on if better == "higher" else on / off


def writes_as_the_paper(row: Result) -> bool:
    """Whether a treatment writes as the paper did on one node.

    That is, it writes and never reads, at full rate, from before a run until after.
    """
    return arm_of(row.arm).writing == "continuous" and _writes_fully(row)


def _writes_fully(row: Result) -> bool:
    """Whether nothing limits its writes, or only their timetable, as in the paper at scale."""
    unlimited = row.factors.get("rate", "full") == "full"
    return row.role == "effect" and unlimited and row.direction in (None, "write")


def _both_arms(run: RunData, row: Result) -> list[pl.DataFrame]:
    """The runs that count of the baseline and of the treatment: fom, transport, working set."""
    samples = run.samples.lazy().filter(pl.col("case") == row.case, pl.col("status") == "counts")
    names = (pl.col(name).cast(pl.String) for name in ("arm", "transport"))
    runs = samples.select("fom", *names, "working_set_b").collect()
    return [runs.filter(arm=arm) for arm in (row.baseline, row.arm)]


def _estimates(run: RunData) -> pl.DataFrame:
    """A row per effect that writes fully, with at least five runs a side."""
    rows = []
    for row in filter(_writes_fully, run.results):
        off, on = (side["fom"].to_list() for side in _both_arms(run, row))
        paper = paper_estimates(off, on, row.better)
        if paper["of_best"] is not None:
            line = {name: getattr(row, name) for name in ("case", "arm", "baseline", "unit")}
            runs = run.samples.lazy().filter(case=row.case, arm=row.arm)
            ranks = runs.select("fom_extra").unique().select(extra("ranks")).max().collect()
            line |= {"n": row.pairs, "ranks": ranks.cast(pl.Int64).item()}
            rows.append(line | columns_of("slowdown", row.slowdown) | paper)
    table = pl.DataFrame(rows, infer_schema_length=None)
    return table.sort("ranks", maintain_order=True) if rows else table


_MEANS = ("off_mean", "off_sd", "on_mean", "on_sd")
_BESTS = ("off_best", "on_best")
_RATIOS = ("of_means", "of_best", "best_against_median")
ESTIMATORS = Question(
    name="paper_estimates",
    title="Estimators of Groves, Grant and Arnold (2016)",
    text="From the same runs: the paper reports means of 10 runs (harmonic here for rates), at"
    " scale the best of 5, and with remedies the best of 5 without writes against the median with"
    " them, which is above 1 even without any effect. None has an interval: prefer the paired"
    " slowdown.",
    rows=_estimates,
    by=("case", "arm"),
    estimates={"slowdown": stated("slowdown")},
    facts=shared("n", "ranks", "baseline", *_MEANS, *_BESTS, *_RATIOS, "unit"),
    columns=("ranks", "off_mean", "on_mean", "of_means", *_BESTS, *_RATIOS[1:]),
    headings={
        "arm": "treatment",
        "slowdown": "paired slowdown",
        "off_mean": "without, mean of 10",
        "on_mean": "with, mean of 10",
        "of_means": "slowdown of means",
        "off_best": "without, best of 5",
        "on_best": "with, best of 5",
        "of_best": "slowdown of the best",
        "best_against_median": "best against median",
    },
    units=dict.fromkeys((*_MEANS, *_BESTS), "unit"),
    plot=None,
)


#: Most effects of the first picture that has all of them, and characters of a line of their labels.
_MOST_ROWS, _LONGEST = 12, 36


def picture(run: RunData, _: str) -> View | None:
    """Every case's slowdown next to the published ones; None without an interval.

    If there are many, or their names are long, levels of factors are left to those by factor.
    """
    rows = [row for row in run.results if row.role == "effect" and row.slowdown]
    labels = [text for row in rows for text in label(row.arm).split("\n")]
    if len(rows) > _MOST_ROWS or max(map(len, labels), default=0) > _LONGEST:
        of_case = Counter(row.case for row in rows)
        rows = [row for row in rows if of_case[row.case] == 1 or not parts_of(row.arm)[1]]
    if not rows:
        return None
    on_one_node = _on_one_node(run)
    lines = [
        normalised().get(row.workload)
        if row.case in on_one_node and writes_as_the_paper(row)
        else None
        for row in rows
    ]
    published = {line.workload: line for line in lines if line}
    slowdowns = [line.slowdown if line else None for line in lines]
    return View(
        pictures=[overview_plot(rows, slowdowns, "slowdown")],
        wide_in=WIDE_IN,
        unsteady=[row.case for row in rows if not steady(row.noise_floor)],
        arms=in_order({parts_of(row.arm)[0] for row in rows}),
        controlled=any(row.control for row in rows),
        published=[
            f"{NAMES[workload]} {line.slowdown:.2f} ({line.table})"
            for workload, line in published.items()
        ],
        machine=MACHINE,
    )


def _on_one_node(run: RunData) -> list[str]:
    several = pl.col("nodes").cast(pl.String).str.contains(",", literal=True).any()
    kinds = run.samples.lazy().select("case", "nodes").unique(maintain_order=True)
    cases = kinds.group_by("case", maintain_order=True).agg(several=several).collect()
    return [str(case) for case in cases.filter(~pl.col("several"))["case"]]


# Tables II and III, here and as published.


def _beside(run: RunData, published: Mapping[str, Sequence[Published]]) -> pl.DataFrame:
    """A row per treatment of the workloads that writes as the paper did, and per published line.

    Empty if there is no such treatment with an interval.
    """
    on_one_node = _on_one_node(run)
    lines: list[dict[str, Any]] = []
    measured = False
    for workload, of_paper in published.items():
        for row in run.results:
            of_one_node = row.workload == workload and row.case in on_one_node
            if of_one_node and row.slowdown and writes_as_the_paper(row):
                lines.append(_measured(run, row))
                measured = True
        lines += map(_as_published, of_paper)
    return pl.DataFrame(lines, infer_schema_length=None) if measured else pl.DataFrame()


def _measured(run: RunData, row: Result) -> dict[str, Any]:
    """One treatment of a case with the paper's estimators, beside the paired estimate."""
    arms = _both_arms(run, row)
    sides = [side["fom"].to_list() for side in arms]
    off, on = (mean_sd(values, row.better) for values in sides)
    transports = arms[1]["transport"].unique(maintain_order=True)
    emulated = emulations(transports)
    levels = ",".join(map("=".join, parts_of(row.arm)[1].items()))
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
        **dict(zip(_MEANS, (*off, *on), strict=True)),
        "unit": row.unit,
        "of_means": _slowdown(off[0], on[0], row.better),
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
        facts=shared("n", *_MEANS, "of_means", "unit", "verdict", "notes"),
        sentences=_caveats,
        columns=("off_mean", "on_mean", "of_means", "n", "verdict"),
        headings={
            "slowdown": "paired slowdown",
            "off_mean": "off",
            "on_mean": "on",
            "of_means": "slowdown of means",
            "n": "runs a side",
        },
        units=dict.fromkeys(_MEANS, "unit"),
        plot=None,
    )


TABLE_2 = _table(
    *("paper_table_2", "Table II: STREAM triad", {"stream": triad()}),
    " Their slides give -60 % and -44 % for the Piledrivers, which is the remaining share; the"
    " table gives the loss.",
)
TABLE_3 = _table(
    "paper_table_3",
    "Table III: applications",
    {name: [line] for name, line in normalised().items() if name != "stream"},
)
_LINK = "Compare with {} of Groves, Grant and Arnold (2016)."
SECTIONS = [
    Section("lead", 0, "picture", picture),
    replace(section(TABLE_2, "end", 89), folded=True, link=_LINK.format("Table II")),
    replace(section(TABLE_3, "end", 90), folded=True, link=_LINK.format("Table III")),
    replace(section(ESTIMATORS, "end", 92), folded=True),
]
