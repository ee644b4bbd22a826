"""Remedies that a run tried, and the application's speeds without and with each, pair by pair.

Levels of the application, such as reserved cores, have a baseline of their own and so a price.
Levels of the writers, such as a throttled rate, share the baseline: their price is what they make
the writes slower by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import polars as pl

from analysis.effects.result import Result, Verdict
from analysis.effects.verdict import emulations
from analysis.questions.question import columns_of
from analysis.remedies.throttling import PAIR, RATE, by_level
from analysis.report.data import RunData
from analysis.samples.pairs import of_treatment
from analysis.statistics.interval import Estimate
from records.arms import BASELINE, arm_of, level_text, name_of, parts_of
from records.groups import grouped
from records.notes import Note
from records.sample import Level

#: Factor -> what the remedy is, in words. Other factors of the application, such as a tool, are no
#: remedies, whatever they cost.
REMEDIES: dict[str, str] = {
    "reserved_cores": "cores left free by the application",
    "core_spec": "cores set aside by Slurm",
    "buffer": "NUMA node of the buffers",
    "workers": "NUMA node of the application",
    "comm_node": "NUMA node of the writers' buffers",
    "writer_rail": "network devices of the writers",
    "mpi_rail": "network devices of the application's MPI",
    "rate": "throttled writers",
}
_TOOL = "tool"
#: What names a remedy of a run: cases and treatments with it and without it, factor, and levels.
KEYS = ("case", "reference_case", "traffic", "treatment", "factor", "level", "reference", "at")
_OF_REMEDY: dict[str, Any] = {
    **dict.fromkeys((*KEYS, "remedy", "what", "workload"), pl.String),
    **dict.fromkeys((*columns_of("price", None), *columns_of("gain", None)), pl.Float64),
    **{"rate_b_s": pl.Float64, "margin": pl.Float64},
    **{"paired": pl.Boolean, "unstable": pl.Boolean, "emulated": pl.List(pl.String)},
}


class _Tried(NamedTuple):
    """A level of a factor under one traffic, and the level that it is compared with."""

    without: Result
    with_remedy: Result
    factor: str
    level: Level
    reference: Level
    #: Levels of the application's other factors that are not the first ones.
    at: Mapping[str, Level] = MappingProxyType({})
    #: From the contrasts of the run; None for levels of the writers, and in different jobs.
    price: Estimate | None = None
    gain: Estimate | None = None

    @property
    def paired(self) -> bool:
        """Whether the level changed between two runs of a pair."""
        return self.without.case == self.with_remedy.case


def speeds(run: RunData) -> pl.DataFrame:
    """A row per remedy and pair that holds all four runs; one of nulls for a remedy without any.

    Speeds `off`, `on` without the remedy, `off_with`, `on_with`, in arbitrary units, and the rates
    of the writers. Of levels that need jobs of their own, such as `--core-spec`, a row per
    allocation of either side: jobs differ in their nodes and their hour.
    """
    return run.once("speeds of remedies", lambda: _speeds(run))


def _speeds(run: RunData) -> pl.DataFrame:
    tried = [*_of_application(run), *_of_writers(run), *_between_jobs(run)]
    emulated = emulated_cases(run.samples) if tried else {}
    unstable = {
        (row.case, row.arm) for row in run.results if row.verdict is Verdict.BASELINE_UNSTABLE
    }
    parts = []
    for remedy in tried:
        sides = remedy.without, remedy.with_remedy
        named = _named(remedy) | {
            "margin": run.header.margin,
            "emulated": list(dict.fromkeys(why for row in sides for why in emulated[row.case])),
            "unstable": any((row.case, row.arm) in unstable for row in sides),
        }
        rows = _pairs(run, *sides) if remedy.paired else _allocations(run, *sides)
        rows = rows.clear(1) if rows.is_empty() else rows
        parts.append(pl.DataFrame([named], schema=_OF_REMEDY).join(rows, how="cross"))
    return pl.concat(parts, how="diagonal_relaxed") if parts else pl.DataFrame()


def _named(remedy: _Tried) -> dict[str, Any]:
    """What the rows of a remedy have in common."""
    level, reference = level_text(remedy.level), level_text(remedy.reference)
    return {
        **{"case": remedy.with_remedy.case, "reference_case": remedy.without.case},
        **{"workload": remedy.without.workload, "rate_b_s": remedy.without.writer_rate_b_s},
        **{"traffic": remedy.without.arm, "treatment": remedy.with_remedy.arm},
        **{"factor": remedy.factor, "level": level, "reference": reference},
        "remedy": f"{remedy.factor}={level}",
        "what": REMEDIES[remedy.factor],
        "paired": remedy.paired,
        "at": ", ".join(f"{name}={level_text(other)}" for name, other in remedy.at.items()),
        **columns_of("price", remedy.price),
        **columns_of("gain", remedy.gain),
    }


def _of_application(run: RunData) -> Iterator[_Tried]:
    prices = {
        (row.case, row.treatment, row.against): row for row in run.contrasts if row.kind == "price"
    }
    rows = {(row.case, row.arm): row for row in run.results}
    for gain in run.contrasts:
        # Runs wrapped by a tool are for its counts.
        if gain.kind != "gain" or gain.factor not in REMEDIES or _TOOL in gain.at:
            continue
        without, with_remedy = (rows[gain.case, name] for name in (gain.against, gain.treatment))
        price = prices.get((gain.case, with_remedy.baseline, without.baseline))
        if price is not None:
            levels = with_remedy.factors[gain.factor], without.factors[gain.factor]
            figures = price.ratio, gain.ratio
            yield _Tried(without, with_remedy, gain.factor, *levels, gain.at, *figures)


def _of_writers(run: RunData) -> Iterator[_Tried]:
    """Each level of a factor of the writes against the first one, of rates the highest.

    Only with the application as in the plain baseline.
    """
    plain = [
        row
        for row in run.results
        if not parts_of(row.baseline)[1] and arm_of(row.arm).writing == "continuous"
    ]
    alike = [(factor, rows) for factor in REMEDIES for rows in by_level(plain, factor)]
    for factor, rows in sorted(alike, key=lambda sweep: plain.index(sweep[1][0])):
        first = _first(rows, factor)
        reference = first.factors[factor]
        for row in rows:
            if row.factors[factor] != reference:
                yield _Tried(first, row, factor, row.factors[factor], reference)


def _first(rows: Sequence[Result], factor: str) -> Result:
    """What a level is compared with: the highest rate, or the level that names leave out."""
    if factor == RATE:
        return max(rows, key=lambda row: row.writer_rate_b_s or 0.0)
    return min(rows, key=lambda row: factor in parts_of(row.arm)[1])


def _between_jobs(run: RunData) -> Iterator[_Tried]:
    """Remedies among the levels that made separate cases, each against the level measured first."""
    effects = [row for row in run.results if row.role == "effect" and row.baseline == BASELINE]
    cases = list(dict.fromkeys(row.case for row in effects))
    for factor in REMEDIES:
        named = ((case, *parts_of(case)) for case in cases)
        groups = grouped(
            (name_of(name, levels), (case, level))
            for case, name, levels in named
            if (level := levels.pop(factor, None)) is not None
        )
        for (first, reference), *others in groups.values():
            for case, level in others:
                rows = {row.arm: row for row in effects if row.case == case}
                for row in effects:
                    if row.case == first and row.arm in rows:
                        yield _Tried(row, rows[row.arm], factor, level, reference)


def _pairs(run: RunData, without: Result, with_remedy: Result) -> pl.DataFrame:
    """The pairs that hold both treatments and their baselines."""
    one, other = (
        of_treatment(run.pairs, row.case, row.arm).select(*PAIR, _speed(row), "writer_rate_b_s")
        for row in (without, with_remedy)
    )
    return one.join(other, on=PAIR, suffix="_with", maintain_order="left")


def _allocations(run: RunData, without: Result, with_remedy: Result) -> pl.DataFrame:
    """Median speeds of the allocations of each side that have both runs."""
    one, other = (
        of_treatment(run.pairs, row.case, row.arm)
        .group_by("block", maintain_order=True)
        .agg(pl.col("off", "on").median())
        .select(_speed(row))
        for row in (without, with_remedy)
    )
    other = other.rename({"off": "off_with", "on": "on_with"})
    return pl.concat([one, other], how="diagonal")


def _speed(row: Result) -> pl.Expr:
    """The columns `off` and `on` of its pairs as speeds."""
    return pl.col("off", "on").pow(1.0 if row.better == "higher" else -1.0)


def emulated_cases(samples: pl.DataFrame) -> dict[str, list[str]]:
    """Case -> why its figures say nothing of an RDMA network card; empty if they do."""
    kinds = samples.lazy().select("case", "transport", "same_host").unique().group_by("case")
    of_case = kinds.agg("transport", pl.col("same_host").any()).collect()
    return {
        str(case): emulations(pl.Series(sorted(set(names))))
        or ([Note.SAME_HOST()] if same_host else [])
        for case, names, same_host in of_case.iter_rows()
    }
