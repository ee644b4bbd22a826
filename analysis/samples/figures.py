"""Rules for figures of merit: against the run's other figures, its length, and other runs.

Each workload has one unit, prints further figures from which its figure of merit follows, and times
something within its own run. And no two runs of a measured program take the same time to all
digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from analysis.samples.faults import ROUNDING, Rows

#: By how much a program's clock may run faster than the conductor's: adjusted clocks may gain
#: 0.05 %, and printed times are rounded to four digits at least.
_CLOCK = 1e-3
#: Half of the last digit that STREAM prints of a time and of a rate, and as much again.
_STREAM_S, _STREAM_B_S = 1e-6, 1e5
#: By how much UMT's own rate may differ from that of its cycles, as its parser allows.
_UMT = 0.05
#: Fewest runs of which it is judged whether they are alike: fewer give no interval.
_FEWEST = 6
#: Largest share of a treatment's figures that may equal one of its baseline's. Programs print five
#: digits at least, so that few do.
_ALIKE = 0.5

_FOM, _ELAPSED = pl.col("fom"), pl.col("elapsed_s")
#: All columns that the rules read: rows are chosen several times, and those of all columns would
#: be most of a report's memory.
_USED = [
    *("row", "case", "arm", "workload", "baseline", "warmup", "schema"),
    *("fom", "fom_unit", "fom_better", "fom_extra", "elapsed_s"),
]


class Relation(NamedTuple):
    """What holds of a run's figures: those needed of `fom_extra`, when it is broken, and in words.

    The expression takes the figures as columns, and `fom` and `elapsed_s`.
    """

    figures: tuple[str, ...]
    broken: pl.Expr
    required: str


class Figures(NamedTuple):
    """A workload's figures."""

    unit: str
    relations: tuple[Relation, ...] = ()
    #: Those that are the same in all runs of a treatment: the size of the problem.
    sizes: tuple[str, ...] = ()


def _within_run(*names: str) -> Relation:
    """The figure of merit, or these times one after another, are part of the run."""
    spent_s = pl.sum_horizontal(names) if names else _FOM
    required = f"with {' + '.join(names)} of at most" if names else "at most"
    return Relation(names, spent_s > _ELAPSED * (1 + _CLOCK), f"{required} 'elapsed_s'")


def _part_of_figure(*names: str) -> Relation:
    """These times are parts of the figure of merit."""
    broken = pl.sum_horizontal(names) > _FOM * (1 + _CLOCK)
    return Relation(names, broken, f"at least {' + '.join(names)}, its parts")


_TRIAD_B = 3 * pl.col("array_b")
_STREAM = (
    Relation(
        ("array_b", "average_s"),
        (_FOM * pl.col("average_s") - _TRIAD_B).abs() > _TRIAD_B * ROUNDING,
        "three arrays ('array_b') in 'average_s'",
    ),
    Relation(
        ("array_b", "best_b_s", "minimum_s"),
        (pl.col("best_b_s") * pl.col("minimum_s") - _TRIAD_B).abs()
        > pl.col("best_b_s") * _STREAM_S + pl.col("minimum_s") * _STREAM_B_S,
        "with a 'best_b_s' of three arrays in 'minimum_s'",
    ),
    Relation(
        ("average_s", "maximum_s", "minimum_s"),
        ~pl.col("average_s").is_between(pl.col("minimum_s"), pl.col("maximum_s")),
        "with an 'average_s' from 'minimum_s' to 'maximum_s'",
    ),
    _within_run("maximum_s"),
)
_ZONES = pl.col("elements") * pl.col("iterations")
_LULESH = Relation(
    ("elements", "iterations", "zones_1_s"),
    (_FOM * pl.col("zones_1_s") - _ZONES).abs() > _ZONES * ROUNDING,
    "'elements' x 'iterations' at 'zones_1_s'",
)
_UMT_CYCLES = Relation(
    ("cycles", "unknowns"),
    pl.col("cycles") * pl.col("unknowns") > _FOM * _ELAPSED * (1 + _UMT),
    "enough for 'unknowns' x 'cycles' in 'elapsed_s'",
)
_MEMBENCH = Figures("B/s", (_within_run("window_s"),), ("array_b",))

#: Workload -> its figures, one for each unit. What is not listed is a check of others: its units
#: are its own. Without workers, the figure of `numa` is the time slept.
WORKLOADS: dict[str, tuple[Figures, ...]] = {
    "amg": (Figures("1/s", (_within_run("setup_s", "solve_s"),)),),
    "cns": (Figures("s", (_within_run(),), ("cells",)),),
    "hpccg": (Figures("s", (_within_run(), _part_of_figure("sparsemv_s", "ddot_s"))),),
    "lammps": (Figures("s", (_within_run(),), ("atoms",)),),
    "lammps_scaling": (Figures("s", (_within_run(),), ("atoms",)),),
    "latency": (Figures("s", (_part_of_figure("least_s"), _within_run("window_s"))),),
    "lulesh": (Figures("s", (_within_run(), _LULESH), ("elements",)),),
    "membench": (_MEMBENCH,),
    "minife": (Figures("s", (_within_run(), _part_of_figure("matvec_s")), ("rows",)),),
    "numa": (_MEMBENCH, Figures("s", (_within_run(),))),
    "snap": (Figures("s", (_within_run(), _part_of_figure("sweeps_s"))),),
    "stream": (Figures("B/s", _STREAM, ("array_b",)),),
    "umt": (Figures("1/s", (_UMT_CYCLES,), ("unknowns",)),),
    "xsbench": (Figures("1/s"),),
}


def judge_figures(rows: Rows) -> None:
    """Add the faults of the figures of accepted runs."""
    accepted = pl.col("outcome") == "kept", pl.col("fom").is_not_null()
    kept = rows.frame.lazy().filter(*accepted).select(_USED).collect()
    for workload, found in WORKLOADS.items():
        of_workload = kept.filter(workload=workload)
        if not of_workload.height:
            continue
        _judge_units(rows, of_workload, [each.unit for each in found])
        for figures in found:
            _judge_relations(rows, of_workload.filter(fom_unit=figures.unit), figures)
    _judge_one_unit(rows, kept)
    _judge_alike(rows, kept.filter(~pl.col("warmup")))


def _judge_units(rows: Rows, kept: pl.DataFrame, units: Sequence[str]) -> None:
    """The unit is one of the workload's; less time is better, and a higher rate."""
    unit = pl.col("fom_unit").cast(pl.String)
    better = pl.when(unit == "s").then(pl.lit("lower")).otherwise(pl.lit("higher"))
    rows.refuse(kept.filter(~unit.is_in(units)), "fom_unit", " or ".join(units))
    other = kept.filter(pl.col("fom_better").cast(pl.String) != better)
    rows.refuse(other, "fom_better", "'lower' of a time, 'higher' of a rate")


def _judge_relations(rows: Rows, kept: pl.DataFrame, figures: Figures) -> None:
    """Relations hold; figures that they need are there; sizes are those of the treatment."""
    needed = sorted({name for each in figures.relations for name in each.figures})
    found = kept.select("row", "case", "arm", "fom", "fom_extra", "elapsed_s", "schema")
    found = found.with_columns(
        # As JSON it would end with an error for names that polars cannot read.
        pl.col("fom_extra")
        .str.extract(rf'"{name}":\s*([^,}}\s]+)')
        .cast(pl.Float64, strict=False)
        .alias(name)
        for name in {*needed, *figures.sizes}
    )
    for relation in figures.relations:
        name = "fom_extra" if len(relation.figures) > 1 else "fom"
        rows.refuse(found.filter(relation.broken), name, relation.required)
    for name in needed:
        absent = found.filter(pl.col(name).is_null(), pl.col("schema") > 2)
        rows.refuse(absent, "fom_extra", f"{name}, which the workload reports")
    for name in figures.sizes:
        other = pl.col(name) != pl.col(name).first().over("case", "arm")
        rows.refuse(found.filter(other), "fom_extra", f"{name} as in other runs")


def _judge_one_unit(rows: Rows, kept: pl.DataFrame) -> None:
    """A treatment is measured as its baseline is."""
    units = ("fom_unit", "fom_better")
    arms = kept.group_by("case", "arm").agg(pl.col(name).first() for name in units)
    arms = arms.with_columns(pl.col(units).cast(pl.String))
    for of in ("arm", "baseline"):
        known = arms.rename({"arm": of, **{name: f"of_{name}" for name in units}})
        paired = kept.join(known, on=["case", of], how="left", maintain_order="left")
        for name in units:
            differs = pl.col(name).cast(pl.String) != pl.col(f"of_{name}")
            rows.refuse(paired.filter(differs), name, f"that of its {of}'s other runs")


def _judge_alike(rows: Rows, kept: pl.DataFrame) -> None:
    """No run is another's copy, nor are a treatment's figures those of its baseline."""
    twice = kept.filter(pl.len().over("case", "fom", "elapsed_s") > 1)
    rows.refuse(twice, "elapsed_s", "another one, or another 'fom', than in other runs")
    of_baseline = kept.select("case", "fom", baseline="arm", also="fom").unique()
    arms = (
        kept.join(of_baseline, on=["case", "baseline", "fom"], how="left", maintain_order="left")
        .group_by("case", "arm", "baseline", maintain_order=True)
        .agg(
            pl.col("row").first(),
            own=pl.col("workload").first().cast(pl.String).is_in(list(WORKLOADS)),
            runs=pl.len(),
            constant=pl.col("fom").n_unique() == 1,
            distinct=pl.col("fom").n_unique() == pl.len(),
            share=pl.col("also").is_not_null().mean(),
        )
    )
    distinct = arms.filter("distinct").select("case", baseline="arm")
    many = arms.filter(pl.col("runs") >= _FEWEST)
    for row, arm in many.filter("constant", "own").select("row", "arm").iter_rows():
        text = f"fom: the same in all runs of '{arm}'; allowed: measured ones"
        rows.faults.add(f"{rows.at(row)}: {text}")
    copied = many.filter(pl.col("share") > _ALIKE).join(
        distinct, on=["case", "baseline"], how="semi", maintain_order="left"
    )
    for row, arm, baseline in copied.select("row", "arm", "baseline").iter_rows():
        text = f"fom: figures of '{arm}' equal those of '{baseline}' to all digits"
        rows.faults.add(f"{rows.at(row)}: {text}; allowed: measured ones")
