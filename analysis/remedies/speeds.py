"""The remedies of a run, and the application's speeds without and with each remedy, pair by pair.

A level of the application, such as reserved cores, has its own baseline (runs without writes), and
so a price. A level of the writers, such as a throttled rate, shares the baseline with other levels,
and so has no price in time. What a lower rate costs is that writes are slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from analysis.effects.result import Result, Verdict
from analysis.effects.verdict import emulation_caveats
from analysis.questions.question import columns_of
from analysis.remedies.throttling import PAIR_COLUMNS, RATE_FACTOR, sweeps_of_factor
from analysis.report.data import RunData
from analysis.samples.pairs import treatment_rows
from analysis.statistics.interval import Estimate
from records.arms import BASELINE, arm_and_levels, arm_of, level_text, treatment_name
from records.notes import Note
from records.sample import Level

#: Factor -> description of the remedy. Other factors, such as a tool, are not remedies.
REMEDIES: dict[str, str] = {
    "reserved_cores": "cores left free by the application",
    "core_spec": "cores set aside by Slurm",
    "buffer": "NUMA node of the writers' buffers and of the application's memory",
    "workers": "NUMA node of the application",
    "comm_node": "NUMA node of the writers' buffers",
    "writer_rail": "network devices of the writers",
    "mpi_rail": "network devices of the application's MPI",
    "rate": "throttled writers",
}
_TOOL_FACTOR = "tool"
#: The columns that distinguish a run's remedies. They are keys of advice.json. Runs with the remedy
#: have the case `case`, the treatment `treatment`, and the level `level` of the factor `factor`.
#: Runs without the remedy have the case `reference_case`, the treatment `traffic`, and the level
#: `reference` of this factor. `at` is `Contrast.at`: it is empty for a remedy without a contrast.
REMEDY_COLUMNS = (
    "case",
    "reference_case",
    "traffic",
    "treatment",
    "factor",
    "level",
    "reference",
    "at",
)
#: The columns whose values all rows of a remedy share, with their types. `what` describes the
#: factor. `rate_b_s` is the writers' rate without the remedy. `emulated` is a list of reasons why
#: the figures do not hold for an RDMA network card. It is empty if the writes were not emulated and
#: came from another host.
_COLUMN_TYPES: dict[str, Any] = {
    **dict.fromkeys((*REMEDY_COLUMNS, "remedy", "what", "workload"), pl.String),
    **dict.fromkeys((*columns_of("price", None), *columns_of("gain", None)), pl.Float64),
    "rate_b_s": pl.Float64,
    "margin": pl.Float64,
    "paired": pl.Boolean,
    "unstable": pl.Boolean,
    "emulated": pl.List(pl.String),
}


@dataclass(frozen=True, kw_only=True)
class _Remedy:
    """A remedy: a level of a factor, and the level with which it is compared."""

    without_remedy: Result
    with_remedy: Result
    factor: str
    level: Level
    reference_level: Level
    #: Levels of the other factors that have prices or gains; first levels are left out
    #: (`Contrast.at`).
    other_levels: Mapping[str, Level] = field(default_factory=dict)
    #: Price and gain, from the run's contrasts. Both are None for a level of the writers, and for a
    #: level that needs its own job.
    price: Estimate | None = None
    gain: Estimate | None = None

    @property
    def paired(self) -> bool:
        """Return whether the level changed between two runs of a pair."""
        return self.without_remedy.case == self.with_remedy.case


def remedy_speeds(run: RunData) -> pl.DataFrame:
    """Return a row for each remedy and each pair that has all four runs.

    The speeds of the four runs are `off` and `on` without the remedy, and `off_with` and
    `on_with` with it, in arbitrary units. Levels of the writers share one baseline run, `off`.
    Writes are made in `on` and `on_with`. `writer_rate_b_s` and `writer_rate_b_s_with` are the
    rates of the writers. A remedy without such a pair has one row, without speeds. A level that
    needs its own job, such as `--core-spec`, cannot be paired, since jobs differ in nodes and
    time. It has a row for each allocation, which has the speeds either without the remedy or
    with it.
    """
    return run.cached("speeds of remedies", lambda: _remedy_speeds(run))


def _remedy_speeds(run: RunData) -> pl.DataFrame:
    remedies = [*_application_remedies(run), *_writer_remedies(run), *_job_remedies(run)]
    case_caveats = caveats_of_cases(run.samples) if remedies else {}
    unstable = {
        (row.case, row.arm) for row in run.results if row.verdict is Verdict.BASELINE_UNSTABLE
    }
    frames = []
    for remedy in remedies:
        sides = remedy.without_remedy, remedy.with_remedy
        caveats = [caveat for row in sides for caveat in case_caveats[row.case]]
        common = _common_columns(remedy) | {
            "margin": run.header.margin,
            "emulated": list(dict.fromkeys(caveats)),
            "unstable": any((row.case, row.arm) in unstable for row in sides),
        }
        speeds_of = _speeds_of_pairs if remedy.paired else _speeds_of_allocations
        rows = speeds_of(run, without_remedy=remedy.without_remedy, with_remedy=remedy.with_remedy)
        if rows.is_empty():
            # This becomes one row of nulls.
            rows = rows.clear(1)
        frames.append(pl.DataFrame([common], schema=_COLUMN_TYPES).join(rows, how="cross"))
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


def _common_columns(remedy: _Remedy) -> dict[str, Any]:
    level = level_text(remedy.level)
    return {
        "case": remedy.with_remedy.case,
        "reference_case": remedy.without_remedy.case,
        "workload": remedy.without_remedy.workload,
        "rate_b_s": remedy.without_remedy.writer_rate_b_s,
        "traffic": remedy.without_remedy.arm,
        "treatment": remedy.with_remedy.arm,
        "factor": remedy.factor,
        "level": level,
        "reference": level_text(remedy.reference_level),
        "remedy": f"{remedy.factor}={level}",
        "what": REMEDIES[remedy.factor],
        "paired": remedy.paired,
        "at": ", ".join(
            f"{name}={level_text(value)}" for name, value in remedy.other_levels.items()
        ),
        **columns_of("price", remedy.price),
        **columns_of("gain", remedy.gain),
    }


def traffic_effects(run: RunData) -> list[Result]:
    """Return the effects of a run, without those whose timetable had no writer.

    Daly's interval may need no writer at a small scale. Without traffic there is no loss, and no
    remedy.
    """
    return [
        row
        for row in run.results
        if row.role == "effect" and (row.pairs == 0 or row.writer_rate_b_s is not None)
    ]


def _application_remedies(run: RunData) -> Iterator[_Remedy]:
    """Yield the remedies that are levels of factors of the application."""
    prices = {
        (row.case, row.treatment, row.against): row for row in run.contrasts if row.kind == "price"
    }
    rows = {(row.case, row.arm): row for row in run.results}
    gains = [contrast for contrast in run.contrasts if contrast.kind == "gain"]
    for gain in gains:
        # A run that a tool wraps is measured for its counts, not for its speed.
        if gain.factor not in REMEDIES or _TOOL_FACTOR in gain.at:
            continue
        without_remedy = rows[gain.case, gain.against]
        with_remedy = rows[gain.case, gain.treatment]
        price = prices.get((gain.case, with_remedy.baseline, without_remedy.baseline))
        if price is not None:
            yield _Remedy(
                without_remedy=without_remedy,
                with_remedy=with_remedy,
                factor=gain.factor,
                level=with_remedy.factors[gain.factor],
                reference_level=without_remedy.factors[gain.factor],
                other_levels=gain.at,
                price=price.ratio,
                gain=gain.ratio,
            )


def _writer_remedies(run: RunData) -> Iterator[_Remedy]:
    """Yield the remedies that are levels of factors of the writes.

    The application's factors have their first levels. A rate is compared with the highest rate. Any
    other level is compared with the first level of its factor.
    """
    candidates = [
        row
        for row in run.results
        if not arm_and_levels(row.baseline).levels and arm_of(row.arm).writing == "continuous"
    ]
    sweeps = [
        (factor, rows) for factor in REMEDIES for rows in sweeps_of_factor(candidates, factor)
    ]

    def position(sweep: tuple[str, list[Result]]) -> int:
        """Return the position of a sweep's first row among the results."""
        _, rows = sweep
        return candidates.index(rows[0])

    # Remedies come in the order of the results, not factor by factor.
    for factor, rows in sorted(sweeps, key=position):
        without_remedy = _row_without_remedy(rows, factor)
        reference_level = without_remedy.factors[factor]
        for row in rows:
            if row.factors[factor] != reference_level:
                yield _Remedy(
                    without_remedy=without_remedy,
                    with_remedy=row,
                    factor=factor,
                    level=row.factors[factor],
                    reference_level=reference_level,
                )


def _row_without_remedy(rows: Sequence[Result], factor: str) -> Result:
    """Return the effect (a result with writes) that is without the remedy.

    For the factor `rate`, it is the effect at the highest rate. For other factors, it is the effect
    at the first level or, without one, the first effect.
    """
    if factor == RATE_FACTOR:
        return max(rows, key=lambda row: row.writer_rate_b_s or 0.0)
    # The name of a treatment leaves out first levels.
    at_first_level = (row for row in rows if factor not in arm_and_levels(row.arm).levels)
    return next(at_first_level, rows[0])


def _job_remedies(run: RunData) -> Iterator[_Remedy]:
    """Yield the remedies whose levels make cases of their own.

    Each is compared with the case whose name comes first, such as `stream@core_spec=0`.
    """
    effects = [row for row in traffic_effects(run) if row.baseline == BASELINE]
    cases = list(dict.fromkeys(row.case for row in effects))
    for factor in REMEDIES:
        # Each family has the cases that differ only in the level of this factor.
        families: dict[str, list[tuple[str, str]]] = {}
        for case in cases:
            name, levels = arm_and_levels(case)
            if factor in levels:
                level = levels.pop(factor)
                families.setdefault(treatment_name(name, levels), []).append((case, level))
        for (reference_case, reference_level), *other_cases in families.values():
            for case, level in other_cases:
                rows_with_remedy = {row.arm: row for row in effects if row.case == case}
                for row in effects:
                    if row.case == reference_case and row.arm in rows_with_remedy:
                        yield _Remedy(
                            without_remedy=row,
                            with_remedy=rows_with_remedy[row.arm],
                            factor=factor,
                            level=level,
                            reference_level=reference_level,
                        )


def _speeds_of_pairs(run: RunData, *, without_remedy: Result, with_remedy: Result) -> pl.DataFrame:
    """Return the speeds in the pairs that have both treatments and their baselines."""
    speeds_without_remedy = _pair_speeds(run, without_remedy)
    speeds_with_remedy = _pair_speeds(run, with_remedy)
    return speeds_without_remedy.join(
        speeds_with_remedy, on=PAIR_COLUMNS, suffix="_with", maintain_order="left"
    )


def _pair_speeds(run: RunData, row: Result) -> pl.DataFrame:
    pairs = treatment_rows(run.pairs, row.case, row.arm)
    return pairs.select(*PAIR_COLUMNS, _as_speeds(row), "writer_rate_b_s")


def _speeds_of_allocations(
    run: RunData, *, without_remedy: Result, with_remedy: Result
) -> pl.DataFrame:
    """Return the speeds of each allocation, first without the remedy, then with it.

    They are the speeds at the median figures of merit.
    """
    speeds_without_remedy = _allocation_speeds(run, without_remedy)
    speeds_with_remedy = _allocation_speeds(run, with_remedy)
    speeds_with_remedy = speeds_with_remedy.rename({"off": "off_with", "on": "on_with"})
    return pl.concat([speeds_without_remedy, speeds_with_remedy], how="diagonal")


def _allocation_speeds(run: RunData, row: Result) -> pl.DataFrame:
    blocks = treatment_rows(run.pairs, row.case, row.arm).group_by("block", maintain_order=True)
    return blocks.agg(pl.col("off", "on").median()).select(_as_speeds(row))


def _as_speeds(row: Result) -> pl.Expr:
    """Return the columns `off` and `on` of a result's pairs, converted to speeds."""
    return pl.col("off", "on").pow(1.0 if row.better == "higher" else -1.0)


def caveats_of_cases(samples: pl.DataFrame) -> dict[str, list[str]]:
    """Return case -> why its figures do not hold for an RDMA network card; [] if they do."""
    cases = samples.lazy().select("case", "transport", "same_host").unique().group_by("case")
    transports_of_cases = cases.agg("transport", pl.col("same_host").any()).collect()
    caveats_by_case = {}
    for case, transports, same_host in transports_of_cases.iter_rows():
        caveats = emulation_caveats(pl.Series(sorted(set(transports))))
        if not caveats and same_host:
            caveats = [Note.SAME_HOST()]
        caveats_by_case[str(case)] = caveats
    return caveats_by_case
