"""Groves, Grant and Arnold (2016): their estimators, tables and figures for a run.

The estimators are shown with the paired estimate, never instead of it: none has an interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from markupsafe import Markup

from analysis.effects.caveats import emulations
from analysis.effects.estimate import Result
from analysis.report import plots
from analysis.report.data import RunData
from analysis.report.plots import light
from analysis.report.sections import CaseSection, RunSection
from analysis.report.shell import View
from analysis.samples.pairs import extra, in_order
from analysis.statistics.interval import FEWEST
from analysis.statistics.means import mean
from analysis.subjects.published import MACHINE, NAMES, Published, normalised, paper, triad
from nimc.base.units import plural, scale
from nimc.records.arms import BASELINE, arm_of, parts_of
from nimc.records.sample import Better

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
    of_best = against_median = None
    if min(len(off), len(on)) >= RUNS_BEST:
        best_off, first_on = best(off[:RUNS_BEST]), on[:RUNS_BEST]
        of_best = slowdown(best_off, best(first_on))
        against_median = slowdown(best_off, float(np.median(first_on)))
    return PaperEstimates(off_mean, off_sd, on_mean, on_sd, of_means, of_best, against_median)


# Tables II, III and figure 3 from a run's samples, next to the published values.


if TYPE_CHECKING:
    from matplotlib.axes import Axes


def writes_as_the_paper(row: Result) -> bool:
    """Whether a treatment writes as the paper did on one node.

    That is, it writes and never reads, at full rate without pauses, from before a run until after.
    """
    return (
        row.role == "effect"
        and arm_of(row.arm).writing == "continuous"
        and row.at_full_rate
        and row.direction in (None, "write")
    )


def case_estimates(run: RunData, case: str) -> View | None:
    """None without such a treatment, or if too few runs count."""
    row = next((row for row in run.results if row.case == case and writes_as_the_paper(row)), None)
    if row is None:
        return None
    off, on = _both_arms(run, row)
    found = paper_estimates(off["fom"].to_list(), on["fom"].to_list(), row.better)
    return None if found.of_best is None else View(row=row, paper=found)


def _both_arms(run: RunData, row: Result) -> list[pl.DataFrame]:
    """The runs that count of the baseline and of the treatment: fom, transport, message_b."""
    own = run.samples.lazy().filter(pl.col("case") == row.case, pl.col("status") == "counts")
    names = (pl.col(name).cast(pl.String) for name in ("arm", "transport"))
    runs = own.select("fom", "message_b", *names).collect()
    return [runs.filter(arm=arm) for arm in (row.baseline, row.arm)]


def picture(run: RunData, name: str) -> View | None:
    """Every case's slowdown next to the published ones; None without an interval.

    Of a case with several effects, levels of factors are left to the figures by factor.
    """
    effects = [row for row in run.results if row.role == "effect" and row.slowdown]
    of_case = Counter(row.case for row in effects)
    rows = [row for row in effects if of_case[row.case] == 1 or not parts_of(row.arm)[1]]
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
    return View(
        svg=plots.overview_plot(rows, [line.slowdown if line else None for line in lines], name),
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


# Figure 5 of Groves, Grant and Arnold (2016) from a run's samples: run time against ranks.
#
# With a table of both estimates, the paired one and the paper's.


#: Workloads run at several numbers of ranks.
WORKLOADS = ("lammps_scaling",)
#: Ranks of the published headline result.
PUBLISHED_RANKS = 8192


def scaling_view(run: RunData, name: str) -> View | None:
    """Figure and table of a run's scales; None for fewer than two."""
    every = (
        run.samples.lazy()
        .filter(
            pl.col("workload").cast(pl.String).is_in(WORKLOADS),
            pl.col("status") != "warm-up",
            pl.col("fom").is_not_null(),
        )
        .select(
            *("case", "fom_unit", "fom", "status"),
            arm=pl.col("arm").cast(pl.String),
            role=pl.col("role").cast(pl.String),
            ranks=extra("ranks"),
        )
        .filter(pl.col("role").is_in(["baseline", "effect"]), pl.col("ranks") > 0)
        .collect()
    )
    points = every.filter(status="counts")
    if points["ranks"].n_unique() < 2:
        return None
    published = float(paper()["headlines"]["lammps_slowdown_8192_up_to"])
    return View(
        svg=_plot(every, published, name),
        rows=_rows(run, points),
        published=published,
        published_ranks=PUBLISHED_RANKS,
    )


def _rows(run: RunData, points: pl.DataFrame) -> list[View]:
    """Both estimates by ranks, then treatments in the order of the results."""
    rows = []
    for result in run.results:
        of_case = points.filter(pl.col("case") == result.case)
        if result.role == "effect" and of_case.height:
            sides = (result.baseline, result.arm)
            off, on = (of_case.filter(arm=name)["fom"].to_list() for name in sides)
            estimates = paper_estimates(off, on, result.better)
            ranks = int(of_case["ranks"][0])
            rows.append(View(ranks=ranks, result=result, paper=estimates))
    return sorted(rows, key=lambda row: row.ranks)


def best_of_five(points: pl.DataFrame) -> pl.DataFrame:
    """The paper's estimator for each treatment and rank count: minimum of the first five runs."""
    return (
        points.group_by("arm", "ranks", maintain_order=True)
        .agg(pl.col("fom").head(RUNS_BEST).min())
        .sort("ranks")
    )


def _plot(every: pl.DataFrame, published: float, name: str) -> Markup:
    points = every.filter(status="counts")
    factor, unit = scale(points["fom"].to_numpy().mean(), str(points["fom_unit"][0]))
    ranks = sorted(points["ranks"].unique())
    arms = in_order(every["arm"].unique(maintain_order=True))
    # Treatments are shifted side by side; on a logarithmic axis the shift is a factor.
    step = (ranks[-1] / ranks[0]) ** 0.02
    with plots.drawing(3.6) as figure:
        axes = figure.subplots()
        for index, arm in enumerate(arms):
            shift = step ** (index - (len(arms) - 1) / 2)
            of_arm = every.filter(arm=arm).with_columns(
                pl.col("ranks") * shift, pl.col("fom") / factor
            )
            _points(axes, of_arm.filter(status="rejected"), light("bad"), "x")
            _points(axes, of_arm.filter(status="counts"), light(arm), plots.marker(arm), arm)
            line = best_of_five(of_arm.filter(status="counts"))
            axes.plot(line["ranks"], line["fom"], color=light(arm), lw=1.5)
        off = best_of_five(points.filter(arm=BASELINE))
        if off.height:
            label = f"published: up to {published:g} x off at {PUBLISHED_RANKS:,} ranks"
            level = published * off["fom"][-1] / factor
            axes.axhline(level, color=light("muted"), ls=":", label=label)
        axes.set_xscale("log", base=2)
        axes.set_xticks(ranks, [f"{count:,.0f}" for count in ranks])
        axes.minorticks_off()
        plots.finish(axes, "ranks", f"time in {unit}", ylim=(0, None))
        plots.legend(figure, 3)
        return plots.themed_svg(figure, name, "Run time against ranks, every run")


def _points(axes: Axes, runs: pl.DataFrame, colour: str, shape: str, label: str = "") -> None:
    look: dict[str, Any] = {"ls": "none", "ms": 4.8, "mew": float(shape == "x"), "alpha": 0.6}
    if runs.height:
        axes.plot(runs["ranks"], runs["fom"], marker=shape, color=colour, label=label, **look)


SECTIONS = [
    RunSection(place=0, template="picture.html", anchor="picture", view=picture, part="lead"),
    RunSection(
        place=10, anchor="scaling", template="scaling.html", view=scaling_view, part="effects"
    ),
    RunSection(
        place=90,
        title="Groves, Grant and Arnold (2016)",
        anchor="paper",
        template="paper_tables.html",
        view=paper_tables,
        part="end",
        link="Compare with Groves, Grant and Arnold (2016).",
    ),
    CaseSection(place=90, template="paper_case.html", view=case_estimates, part="end"),
]
