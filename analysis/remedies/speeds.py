"""The remedies of a run, and the application's speeds without and with each, pair by pair.

A level of the application, such as reserved cores, has a baseline of its own, and so a price. A
level of the writers, such as a throttled rate, shares the baseline: its price is how much slower it
makes the writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import polars as pl

from analysis.effects.result import Result, Verdict
from analysis.effects.verdict import emulation_caveats
from analysis.questions.question import columns_of
from analysis.remedies.throttling import PAIR, RATE, by_level
from analysis.report.data import RunData
from analysis.samples.pairs import treatment_rows
from analysis.statistics.interval import Estimate
from records.arms import BASELINE, arm_and_levels, arm_of, level_text, treatment_name
from records.groups import grouped
from records.notes import Note
from records.sample import Level

#: Factor -> what the remedy is, in words. Other factors, such as a tool, are not remedies.
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
#: The columns that tell a run's remedies apart: case and treatment with the remedy (`case`,
#: `treatment`) and without it (`reference_case`, `traffic`), factor, and levels.
KEYS = ("case", "reference_case", "traffic", "treatment", "factor", "level", "reference", "at")
#: The columns that all rows of a remedy have in common, with their types.
_SCHEMA: dict[str, Any] = {
    **dict.fromkeys((*KEYS, "remedy", "what", "workload"), pl.String),
    **dict.fromkeys((*columns_of("price", None), *columns_of("gain", None)), pl.Float64),
    "rate_b_s": pl.Float64,
    "margin": pl.Float64,
    "paired": pl.Boolean,
    "unstable": pl.Boolean,
    "emulated": pl.List(pl.String),
}


class _Remedy(NamedTuple):
    """A level of a factor under the same writes as the level that it is compared with."""

    without: Result
    with_remedy: Result
    factor: str
    level: Level
    reference: Level
    #: Other factors of the application that are not at their first level, with their levels.
    at: Mapping[str, Level] = MappingProxyType({})
    #: From the contrasts of the run; None for a level of the writers, or of another job.
    price: Estimate | None = None
    gain: Estimate | None = None

    @property
    def paired(self) -> bool:
        """Return whether the level changed between two runs of a pair."""
        return self.without.case == self.with_remedy.case


def remedy_speeds(run: RunData) -> pl.DataFrame:
    """A row for each remedy and each pair with all four runs: `off` and `on`, without and with it.

    The columns are the speeds without the remedy (`off`, `on`) and with it (`off_with`,
    `on_with`), in arbitrary units, and the rates of the writers. A remedy without such a pair has
    one row, without speeds. A level that needs a job of its own, such as `--core-spec`, has a row
    for each allocation of either side, since jobs differ in their nodes and their hour.
    """
    return run.cached("speeds of remedies", lambda: _remedy_speeds(run))


def _remedy_speeds(run: RunData) -> pl.DataFrame:
    remedies = [*_application_levels(run), *_writer_levels(run), *_job_levels(run)]
    emulated = emulated_cases(run.samples) if remedies else {}
    unstable = {
        (row.case, row.arm) for row in run.results if row.verdict is Verdict.BASELINE_UNSTABLE
    }
    frames = []
    for remedy in remedies:
        sides = remedy.without, remedy.with_remedy
        common = _common_columns(remedy) | {
            "margin": run.header.margin,
            "emulated": list(dict.fromkeys(why for row in sides for why in emulated[row.case])),
            "unstable": any((row.case, row.arm) in unstable for row in sides),
        }
        speeds_of = _speeds_of_pairs if remedy.paired else _speeds_of_allocations
        rows = speeds_of(run, without=remedy.without, with_remedy=remedy.with_remedy)
        rows = rows.clear(1) if rows.is_empty() else rows  # one row of nulls
        frames.append(pl.DataFrame([common], schema=_SCHEMA).join(rows, how="cross"))
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


def _common_columns(remedy: _Remedy) -> dict[str, Any]:
    level, reference = level_text(remedy.level), level_text(remedy.reference)
    return {
        "case": remedy.with_remedy.case,
        "reference_case": remedy.without.case,
        "workload": remedy.without.workload,
        "rate_b_s": remedy.without.writer_rate_b_s,
        "traffic": remedy.without.arm,
        "treatment": remedy.with_remedy.arm,
        "factor": remedy.factor,
        "level": level,
        "reference": reference,
        "remedy": f"{remedy.factor}={level}",
        "what": REMEDIES[remedy.factor],
        "paired": remedy.paired,
        "at": ", ".join(f"{name}={level_text(value)}" for name, value in remedy.at.items()),
        **columns_of("price", remedy.price),
        **columns_of("gain", remedy.gain),
    }


def _application_levels(run: RunData) -> Iterator[_Remedy]:
    """Remedies that change how the application runs."""
    prices = {
        (row.case, row.treatment, row.against): row for row in run.contrasts if row.kind == "price"
    }
    rows = {(row.case, row.arm): row for row in run.results}
    for gain in run.contrasts:
        # A run that a tool wraps is measured for its counts, not for its speed.
        if gain.kind != "gain" or gain.factor not in REMEDIES or _TOOL in gain.at:
            continue
        without, with_remedy = (rows[gain.case, name] for name in (gain.against, gain.treatment))
        price = prices.get((gain.case, with_remedy.baseline, without.baseline))
        if price is not None:
            yield _Remedy(
                without=without,
                with_remedy=with_remedy,
                factor=gain.factor,
                level=with_remedy.factors[gain.factor],
                reference=without.factors[gain.factor],
                at=gain.at,
                price=price.ratio,
                gain=gain.ratio,
            )


def _writer_levels(run: RunData) -> Iterator[_Remedy]:
    """Each level of a factor of the writes, compared with the first one; rates, with the highest.

    The application's factors are at their first levels.
    """
    candidates = [
        row
        for row in run.results
        if not arm_and_levels(row.baseline)[1] and arm_of(row.arm).writing == "continuous"
    ]
    sweeps = [(factor, rows) for factor in REMEDIES for rows in by_level(candidates, factor)]
    for factor, rows in sorted(sweeps, key=lambda sweep: candidates.index(sweep[1][0])):
        reference_row = _reference_row(rows, factor)
        reference = reference_row.factors[factor]
        for row in rows:
            if row.factors[factor] != reference:
                yield _Remedy(
                    without=reference_row,
                    with_remedy=row,
                    factor=factor,
                    level=row.factors[factor],
                    reference=reference,
                )


def _reference_row(rows: Sequence[Result], factor: str) -> Result:
    """Return the effect at the highest rate or, of other factors, at the level not in its name."""
    if factor == RATE:
        return max(rows, key=lambda row: row.writer_rate_b_s or 0.0)
    return min(rows, key=lambda row: factor in arm_and_levels(row.arm)[1])


def _job_levels(run: RunData) -> Iterator[_Remedy]:
    """Levels that need a case each, compared with the level that was measured first."""
    effects = [row for row in run.results if row.role == "effect" and row.baseline == BASELINE]
    cases = list(dict.fromkeys(row.case for row in effects))
    for factor in REMEDIES:
        case_parts = ((case, *arm_and_levels(case)) for case in cases)
        groups = grouped(
            (treatment_name(name, levels), (case, level))
            for case, name, levels in case_parts
            if (level := levels.pop(factor, None)) is not None
        )
        for (first, reference), *others in groups.values():
            for case, level in others:
                rows = {row.arm: row for row in effects if row.case == case}
                for row in effects:
                    if row.case == first and row.arm in rows:
                        yield _Remedy(
                            without=row,
                            with_remedy=rows[row.arm],
                            factor=factor,
                            level=level,
                            reference=reference,
                        )


def _speeds_of_pairs(run: RunData, *, without: Result, with_remedy: Result) -> pl.DataFrame:
    """The speeds in the pairs that hold both treatments and their baselines."""
    speeds_without, speeds_with = (
        treatment_rows(run.pairs, row.case, row.arm).select(*PAIR, _speed(row), "writer_rate_b_s")
        for row in (without, with_remedy)
    )
    return speeds_without.join(speeds_with, on=PAIR, suffix="_with", maintain_order="left")


def _speeds_of_allocations(run: RunData, *, without: Result, with_remedy: Result) -> pl.DataFrame:
    """The median speeds in each allocation of either side that has both runs."""
    speeds_without, speeds_with = (
        treatment_rows(run.pairs, row.case, row.arm)
        .group_by("block", maintain_order=True)
        .agg(pl.col("off", "on").median())
        .select(_speed(row))
        for row in (without, with_remedy)
    )
    speeds_with = speeds_with.rename({"off": "off_with", "on": "on_with"})
    return pl.concat([speeds_without, speeds_with], how="diagonal")


def _speed(row: Result) -> pl.Expr:
    """The columns `off` and `on` of a result's pairs, as speeds."""
    return pl.col("off", "on").pow(1.0 if row.better == "higher" else -1.0)


def emulated_cases(samples: pl.DataFrame) -> dict[str, list[str]]:
    """Case -> why its figures do not hold for an RDMA network card; an empty list if they do."""
    kinds = samples.lazy().select("case", "transport", "same_host").unique().group_by("case")
    case_kinds = kinds.agg("transport", pl.col("same_host").any()).collect()
    return {
        str(case): emulation_caveats(pl.Series(sorted(set(transports))))
        or ([Note.SAME_HOST()] if same_host else [])
        for case, transports, same_host in case_kinds.iter_rows()
    }
