"""Groves, Grant and Arnold (2016): their estimators, tables and figures for a run.

The estimators are shown with the paired estimate, never instead of it: none has an interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl

from analysis.effects.estimate import Result
from analysis.effects.verdict import emulations
from analysis.questions.estimators import stated
from analysis.questions.question import Question
from analysis.questions.shown import section
from analysis.report.data import RunData
from analysis.report.plots import NARROW_IN, WIDE_IN, View, label, overview_plot, steady
from analysis.report.sections import Section
from analysis.samples.pairs import extra
from analysis.statistics.interval import FEWEST, flat, mean
from analysis.subjects.published import MACHINE, NAMES, Published, normalised, triad
from records.arms import arm_of, in_order, parts_of
from records.sample import Better
from records.units import plural

#: Runs per side in sections IV and V (mean and standard deviation) and VI (minimum).
RUNS_MEAN = 10
RUNS_BEST = 5


@dataclass(frozen=True)
class PaperEstimates:
    """The paper's estimators from the same samples; None if there are too few."""

    #: Mean (harmonic for rates) and sample standard deviation of the first 10 runs of each arm.
    off_mean: float | None
    off_sd: float | None
    on_mean: float | None
    on_sd: float | None
    #: Best of the first 5 runs of each arm.
    off_best: float | None
    on_best: float | None
    #: Slowdowns: of the means (Tables II, III); of the best of the first 5 (section VI); of the
    #: best of 5 off against the median of 5 on (section VII).
    of_means: float | None
    of_best: float | None
    best_against_median: float | None


def mean_sd(values: Sequence[float], better: Better) -> tuple[float, float]:
    """Mean (harmonic for rates) and sample standard deviation of the first 10 of `values`.

    Of all if there are fewer. Raises ValueError below two.
    """
    first = values[:RUNS_MEAN]
    if len(first) < 2:
        raise ValueError("a standard deviation needs at least two values")
    return mean(first, better), float(np.std(first, ddof=1))


def paper_estimates(off: Sequence[float], on: Sequence[float], better: Better) -> PaperEstimates:
    """The paper's estimators of figures of merit `off` and `on`, in the order they were taken."""

    def slowdown(base: float, treated: float) -> float:
        return base / treated if better == "higher" else treated / base

    best = max if better == "higher" else min
    off_mean, off_sd = mean_sd(off, better) if len(off) >= RUNS_MEAN else (None, None)
    on_mean, on_sd = mean_sd(on, better) if len(on) >= RUNS_MEAN else (None, None)
    of_means = slowdown(off_mean, on_mean) if off_mean and on_mean else None
    off_best = on_best = of_best = against_median = None
    if min(len(off), len(on)) >= RUNS_BEST:
        off_best, on_best = best(off[:RUNS_BEST]), best(on[:RUNS_BEST])
        of_best = slowdown(off_best, on_best)
        against_median = slowdown(off_best, float(np.median(on[:RUNS_BEST])))
    means = (off_mean, off_sd, on_mean, on_sd)
    return PaperEstimates(*means, off_best, on_best, of_means, of_best, against_median)


def writes_as_the_paper(row: Result) -> bool:
    """Whether a treatment writes as the paper did on one node.

    That is, it writes and never reads, at full rate without pauses, from before a run until after.
    """
    return arm_of(row.arm).writing == "continuous" and _writes_fully(row)


def _writes_fully(row: Result) -> bool:
    """Whether nothing limits its writes, or only their timetable, as in the paper at scale."""
    return row.role == "effect" and row.at_full_rate and row.direction in (None, "write")


def estimates_of(run: RunData, row: Result) -> PaperEstimates:
    """The paper's estimators of a treatment."""
    off, on = (side["fom"].to_list() for side in _both_arms(run, row))
    return paper_estimates(off, on, row.better)


def _both_arms(run: RunData, row: Result) -> list[pl.DataFrame]:
    """The runs that count of the baseline and of the treatment: fom, transport, message_b."""
    own = run.samples.lazy().filter(pl.col("case") == row.case, pl.col("status") == "counts")
    names = (pl.col(name).cast(pl.String) for name in ("arm", "transport"))
    runs = own.select("fom", "message_b", *names).collect()
    return [runs.filter(arm=arm) for arm in (row.baseline, row.arm)]


def _estimates(run: RunData) -> pl.DataFrame:
    """A row per effect that writes fully, with at least five runs a side."""
    rows = []
    for row in run.results:
        if _writes_fully(row) and (paper := estimates_of(run, row)).of_best is not None:
            names = ("case", "arm", "baseline", "pairs", "unit")
            figures = {name: value for name, value in flat(row).items() if name in _SLOWDOWN}
            ranks = run.samples.filter(case=row.case, arm=row.arm).select(extra("ranks")).max()
            of = {name: getattr(row, name) for name in names} | {"ranks": ranks.item()}
            rows.append(of | figures | asdict(paper))
    floats = (*_SLOWDOWN, *PaperEstimates.__dataclass_fields__)
    table = pl.DataFrame(rows, schema_overrides=dict.fromkeys((*floats, "ranks"), pl.Float64))
    if not rows:
        return table
    return table.with_columns(pl.col("ranks").cast(pl.Int64)).sort("ranks", maintain_order=True)


_SLOWDOWN = ("slowdown", "slowdown_low", "slowdown_high")
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
    facts={
        "n": pl.col("pairs").first(),
        **{
            name: pl.col(name).first()
            for name in ("ranks", "baseline", *_MEANS, *_BESTS, *_RATIOS, "unit")
        },
    },
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


def picture(run: RunData, name: str) -> View | None:
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
        wide=overview_plot(rows, slowdowns, name, WIDE_IN),
        narrow=overview_plot(rows, slowdowns, f"{name}n", NARROW_IN),
        unsteady=[row.case for row in rows if not steady(row.noise_floor)],
        arms=in_order({parts_of(row.arm)[0] for row in rows}),
        published=[
            f"{NAMES[workload]} {line.slowdown:.2f} ({line.table})"
            for workload, line in published.items()
        ],
        machine=MACHINE,
    )


def paper_tables(run: RunData, _: str) -> View | None:
    """The run's results for the paper's single-node workloads; None if it has none of them."""
    on_one_node = _on_one_node(run)
    rows = [
        row
        for row in run.results
        if row.workload in NAMES and row.case in on_one_node and writes_as_the_paper(row)
    ]
    if not rows:
        return None
    compared = {
        workload: _compare(run, [row for row in rows if row.workload == workload], line)
        for workload, line in normalised().items()
    }
    stream, *applications = compared.values()
    return View(
        stream=stream,
        triad=triad(),
        applications=applications,
        machine=MACHINE,
        runs=RUNS_MEAN,
        caveats=[text for each in compared.values() for text in _caveats(each)],
    )


def _on_one_node(run: RunData) -> list[str]:
    several = pl.col("nodes").cast(pl.String).str.contains(",", literal=True).any()
    kinds = run.samples.lazy().select("case", "nodes").unique(maintain_order=True)
    cases = kinds.group_by("case", maintain_order=True).agg(several=several).collect()
    return [str(case) for case in cases.filter(~pl.col("several"))["case"]]


def _compare(run: RunData, rows: Sequence[Result], line: Published) -> View:
    """One workload of the paper: one line per case, or why there is none, and the published one."""
    # Every effect needs an interval: a case without one has no line.
    measured = [_measured(run, row) for row in rows if row.slowdown is not None]
    pairs = max((row.pairs for row in rows), default=0)
    missing = f"{plural(pairs, 'pair')}, at least {FEWEST} needed" if rows else "not measured"
    return View(
        name=NAMES[line.workload],
        measured=measured,
        missing="" if measured else missing,
        published=line,
    )


def _measured(run: RunData, row: Result) -> View:
    """One treatment of a case with the paper's estimators; `result` is the paired estimate."""
    both = _both_arms(run, row)
    own, sides = both[1], [side["fom"].to_list() for side in both]
    (off, off_sd), (on, on_sd) = (mean_sd(values, row.better) for values in sides)
    transports = own["transport"].unique(maintain_order=True).to_list()
    levels = ",".join(map("=".join, parts_of(row.arm)[1].items()))
    return View(
        result=row,
        # Name of the case if it differs from its workload's, and levels of the treatment.
        case=" ".join(filter(None, ["" if row.case == row.workload else row.case, levels])),
        # Runs per side in the means, ten as in the paper or fewer if there are fewer.
        runs=min(*map(len, sides), RUNS_MEAN),
        off=off,
        off_sd=off_sd,
        on=on,
        on_sd=on_sd,
        # Run time on over off from the means, as in figure 3; a forced report may have a mean of 0.
        slowdown=float(np.divide(*((on, off) if row.better == "lower" else (off, on)))),
        transport=", ".join(transports),
        message_b=own["message_b"][0],
        emulated=emulations(transports),
    )


def _caveats(each: View) -> list[str]:
    notes = dict.fromkeys(
        note for line in each.measured for note in line.result.notes if note not in line.emulated
    )
    rate = each.published.better == "lower" and any(
        line.result.better == "higher" for line in each.measured
    )
    units = ["a rate here, a run time in the paper; slowdowns are of run times"] if rate else []
    return [f"{each.name}: {text}" for text in [*units, *notes]]


SECTIONS = [
    Section("lead", 0, "picture", picture),
    Section(
        *("end", 90, "paper", paper_tables, "Groves, Grant and Arnold (2016)"),
        link="Compare with Groves, Grant and Arnold (2016).",
    ),
    section(ESTIMATORS, "end", 92),
]
