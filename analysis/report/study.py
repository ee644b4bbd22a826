"""Tables II, III and figure 3 of Groves, Grant and Arnold (2016), from one's own runs.

What the paper published stands beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl
from markupsafe import Markup

from analysis.arms import LEVELS, arm_of
from analysis.caveats import emulations
from analysis.estimate import Result
from analysis.numbers import count
from analysis.report.data import RunData
from analysis.report.plots import Normalised, normalised_plot
from analysis.report.published import MACHINE, NAMES, Published, normalised, triad
from analysis.statistics.interval import FEWEST
from analysis.statistics.paper import RUNS_MEAN, mean_sd


def writes_as_the_paper(row: Result) -> bool:
    """Whether a treatment writes as the paper did on one node.

    Its writers wrote, never read, at full rate, from before a run to after its end. Samples of
    schema 1 may have no direction: they are from when there were writes only.
    """
    return (
        row.role == "effect"
        and arm_of(row.arm).writing == "continuous"
        and row.factors.get("rate", "full") == "full"
        and row.direction != "read"
    )


@dataclass(frozen=True)
class Measured:
    """One treatment of a case as the paper would print it; `result` is the paired estimate."""

    result: Result
    #: Name of the case where it is not just its workload's, and levels of the treatment.
    case: str
    #: Runs a side that the means are of, ten as in the paper or as many as there are; means and
    #: standard deviations of the figure of merit, in the result's unit.
    runs: int
    off: float
    off_sd: float
    on: float
    on_sd: float
    #: What the bytes went over, and the size of one write.
    transport: str
    message_b: int
    #: What such writes do not stand for; empty for RDMA hardware.
    emulated: list[str]
    #: Slowdown of every pair.
    ratios: list[float]

    @property
    def slowdown(self) -> float:
        """Run time on over off by the means, as figure 3 shows it."""
        return self.on / self.off if self.result.better == "lower" else self.off / self.on


@dataclass(frozen=True)
class StudyComparison:
    """One workload of the paper: a line each case, beside what was published of it."""

    name: str
    measured: list[Measured]
    #: Why there is no line, where there is none.
    missing: str
    #: On the machine of Table III and figure 3.
    published: Published


@dataclass(frozen=True)
class StudyView:
    """Both tables and the figure."""

    stream: StudyComparison
    triad: list[Published]
    applications: list[StudyComparison]
    machine: str
    svg: Markup
    emulated: list[str]
    #: Runs a side of the paper.
    runs: int
    #: What else limits the comparison, by workload.
    caveats: list[str]


def study_view(run: RunData, name: str) -> StudyView | None:
    """What a run holds of the paper's single-node workloads; None where it holds none of them."""
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
    measured = [line for each in compared.values() for line in each.measured]
    return StudyView(
        stream=stream,
        triad=triad(),
        applications=applications,
        machine=MACHINE,
        svg=Markup(normalised_plot(_figure(compared.values()), name)),
        emulated=list(dict.fromkeys(text for line in measured for text in line.emulated)),
        runs=RUNS_MEAN,
        caveats=[text for each in compared.values() for text in _caveats(each)],
    )


def _on_one_node(run: RunData) -> list[str]:
    several = pl.col("nodes").cast(pl.String).str.contains(",", literal=True).any()
    cases = run.samples.lazy().group_by("case").agg(several=several).collect()
    return [str(case) for case in cases.filter(~pl.col("several"))["case"]]


def _compare(run: RunData, rows: Sequence[Result], line: Published) -> StudyComparison:
    # No effect goes without its interval: a case that has none has no line.
    measured = [_measured(run, row) for row in rows if row.slowdown is not None]
    pairs = max((row.pairs for row in rows), default=0)
    missing = f"{count(pairs, 'pair')}, at least {FEWEST} needed" if rows else "not measured"
    return StudyComparison(NAMES[line.workload], measured, "" if measured else missing, line)


def _measured(run: RunData, row: Result) -> Measured:
    samples = (
        run.samples.lazy()
        .filter(pl.col("case") == row.case, pl.col("status") == "counts")
        .select(
            *("fom", "message_b"),
            *(pl.col(name).cast(pl.String) for name in ("arm", "transport")),
        )
        .collect()
    )
    own = samples.filter(arm=row.arm)
    sides = [side["fom"].to_list() for side in (samples.filter(arm=row.baseline), own)]
    (off, off_sd), (on, on_sd) = (mean_sd(values, row.better) for values in sides)
    pairs = run.pairs.filter(pl.col("case") == row.case, pl.col("arm") == row.arm)
    transports = own["transport"].unique(maintain_order=True).to_list()
    levels = row.arm.partition(LEVELS)[2]
    return Measured(
        result=row,
        case=" ".join(filter(None, ["" if row.case == row.workload else row.case, levels])),
        runs=min(*map(len, sides), RUNS_MEAN),
        off=off,
        off_sd=off_sd,
        on=on,
        on_sd=on_sd,
        transport=", ".join(transports),
        message_b=own["message_b"][0],
        emulated=emulations(transports),
        ratios=pairs["ratio"].to_list(),
    )


def _caveats(each: StudyComparison) -> list[str]:
    notes = dict.fromkeys(
        note for line in each.measured for note in line.result.notes if note not in line.emulated
    )
    rate = each.published.better == "lower" and any(
        line.result.better == "higher" for line in each.measured
    )
    told = ["a rate here, a run time in the paper; on against off is of run times"] if rate else []
    return [f"{each.name}: {text}" for text in [*told, *notes]]


def _figure(compared: Iterable[StudyComparison]) -> list[Normalised]:
    rows = []
    for each in compared:
        published = each.published.slowdown
        rows += [
            Normalised(f"{each.name} {line.case}".strip(), published, line.result, line.ratios)
            for line in each.measured
        ]
        if not each.measured:
            rows.append(Normalised(f"{each.name}\n({each.missing})", published))
    return rows
