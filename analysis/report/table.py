"""The results of runs as one tidy table, `results.parquet`: a row per case and treatment.

History, alarms and pages read only these tables of runs. The columns are facts of the run, the
fields of `Result` as JSON has them, and facts of the treatment's runs (docs/nights.md#the-table).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from statistics import median
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import polars as pl

from analysis.effects.result import Result
from analysis.report.data import RunData
from analysis.samples.pairs import counted_runs, parsed_levels
from analysis.samples.provenance import all_hosts, mapping_or_empty, reported_facts
from analysis.statistics.interval import flat_record, json_keys, median_interval
from records.run import RunHeader

#: Number of the table's schema, a column; raised if a column goes or changes its meaning.
SCHEMA = 1
#: Type of a column with names and values of factors, or of facts of how the run was made.
_NAMED_VALUES = pl.List(pl.Struct({"name": pl.String, "value": pl.String}))
#: Entries of a block's provenance that say what was built and with what.
_BUILD_ENTRIES = ("compiler", "environment", "reframe", "spack", "spack_inputs")
#: Columns that a run's rows have in common.
_RUN_COLUMNS: dict[str, Any] = {
    "schema": pl.Int64(),
    "machine": pl.String(),
    "campaign": pl.String(),
    "run": pl.String(),
    "started_s": pl.Float64(),
    # Null while unfinished.
    "finished_s": pl.Float64(),
    "commit": pl.String(),
    # Number of its integrity faults: history leaves out runs that have any.
    "faults": pl.Int64(),
    # Its making: kernel, microcode, compiler, MPI, versions; several values joined with ` | `.
    "facts": _NAMED_VALUES,
}
#: Columns on the runs of a treatment that count. Baselines, which have no effect, have them, too.
_TREATMENT_COLUMNS: dict[str, Any] = {
    # Target nodes, sorted and joined with commas.
    "nodes": pl.String(),
    "runs": pl.Int64(),
    # Median of the figures of merit with its interval, null below six runs, in `unit`.
    "fom": pl.Float64(),
    "fom_low": pl.Float64(),
    "fom_high": pl.Float64(),
    # Intervals of `off_median` and `on_median`; null below six runs.
    **dict.fromkeys(("off_low", "off_high", "on_low", "on_high"), pl.Float64()),
    # Its writers: how many, and their median rate requested, null at full rate.
    "writers": pl.Int64(),
    "injector": pl.String(),
    "transport": pl.String(),
    "message_b": pl.Int64(),
    "asked_b_s": pl.Float64(),
}
_WRITER_COLUMNS = ("writers", "injector", "transport", "message_b", "asked_b_s")


def _column(kind: Any) -> pl.DataType | type[pl.DataType]:
    """The type of a column that holds a field of a record."""
    inner = [part for part in get_args(kind) if part is not NoneType]
    origin = get_origin(kind)
    if origin is list:
        return pl.List(pl.String)
    if origin is dict:
        return _NAMED_VALUES
    if inner and NoneType in get_args(kind):
        return _column(inner[0])
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return pl.Struct({field.name: _column(hints[field.name]) for field in fields(kind)})
    plain = {bool: pl.Boolean(), int: pl.Int64(), float: pl.Float64()}
    return plain.get(kind, pl.String())


def _result_columns() -> dict[str, Any]:
    """Columns of `Result`, without its rejected runs: those are rows of the samples."""
    hints = get_type_hints(Result)
    return {
        key: pl.Float64() if part else _column(hints[name])
        for key, (name, part) in json_keys(Result).items()
        if name != "rejections"
    }


#: Column -> its type.
COLUMNS: dict[str, Any] = {**_RUN_COLUMNS, **_result_columns(), **_TREATMENT_COLUMNS}


def results_table(runs: Sequence[RunData]) -> pl.DataFrame:
    """The table of some runs."""
    return pl.DataFrame([row for run in runs for row in _rows(run)], schema=COLUMNS)


def _rows(run: RunData) -> list[dict[str, Any]]:
    run_columns = {
        **{name: getattr(run.header, name) for name in ("machine", "campaign", "run", "commit")},
        **{name: getattr(run.header, name) for name in ("started_s", "finished_s")},
        "schema": SCHEMA,
        "faults": run.integrity.fault_count,
        "facts": _named_values(how_made(run.header, run.provenance)),
    }
    columns = (
        "workload",
        "role",
        "fom",
        "fom_unit",
        "fom_better",
        "nodes",
        "factors",
        *_WRITER_COLUMNS,
    )
    parts: dict[tuple[str, str], dict[str, Any]] = {}
    # One case at a time, as in `pair_table`, since runs that count are copied.
    for case in run.samples["case"].unique(maintain_order=True):
        runs = counted_runs(run.samples.lazy().filter(pl.col("case") == case), *columns)
        counts = runs.group_by("case", "arm", maintain_order=True).agg(
            pl.col(
                "workload", "role", "fom_unit", "fom_better", "factors", *_WRITER_COLUMNS[:-1]
            ).first(),
            pl.col("asked_b_s").median(),
            pl.col("nodes").unique(),
            pl.col("fom"),
        )
        rows = zip(counts.drop("fom").to_dicts(), counts["fom"], strict=True)
        parts |= {(row["case"], row["arm"]): row | {"fom": foms.to_numpy()} for row, foms in rows}
    treatment_columns = {name: _treatment_values(part) for name, part in parts.items()}
    effects = {(row.case, row.arm): _result_values(row, treatment_columns) for row in run.results}
    baselines = {
        name: _baseline_values(part) for name, part in parts.items() if name not in effects
    }
    return [
        {**run_columns, **row, **treatment_columns.get(name, {})}
        for name, row in {**baselines, **effects}.items()
    ]


def _result_values(
    row: Result, treated: Mapping[tuple[str, str], Mapping[str, Any]]
) -> dict[str, Any]:
    named: dict[str, Any] = {"verdict": str(row.verdict), "factors": _named_values(row.factors)}
    for side, arm in (("off", row.baseline), ("on", row.arm)):
        treatment = treated.get((row.case, arm), {})
        named |= {f"{side}{end}": treatment.get(f"fom{end}") for end in ("_low", "_high")}
    return {key: value for key, value in flat_record(row).items() if key in COLUMNS} | named


def _baseline_values(part: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of `Result` for a treatment that has no result, such as a baseline."""
    return {
        **{name: part[name] for name in ("case", "arm", "workload", "role")},
        "unit": part["fom_unit"],
        "better": part["fom_better"],
        "factors": _named_values(parsed_levels(part["factors"])),
    }


def _treatment_values(part: Mapping[str, Any]) -> dict[str, Any]:
    values = part["fom"]
    estimate = median_interval(values)
    return {
        "nodes": ",".join(sorted({node for names in part["nodes"] for node in names.split(",")})),
        "runs": len(values),
        "fom": estimate.value if estimate else median(values),
        "fom_low": estimate.low if estimate else None,
        "fom_high": estimate.high if estimate else None,
        **{name: part[name] for name in _WRITER_COLUMNS},
    }


def _named_values(values: Mapping[str, Any]) -> list[dict[str, str]]:
    """Names and values as such a column has them; values other than text become JSON."""
    return [
        {"name": name, "value": value if isinstance(value, str) else json.dumps(value)}
        for name, value in values.items()
    ]


def how_made(header: RunHeader, provenance: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Name -> value of the facts of how the run was made; several values are joined with ` | `."""
    records = list(provenance.values())
    texts = reported_facts(all_hosts(records))
    for record in records:
        for name in _BUILD_ENTRIES:
            if isinstance(record.get(name), str):
                texts.setdefault(name.replace("_", " "), []).append(record[name])
        for name, value in _program_facts(record).items():
            texts.setdefault(name, []).append(value)
        for name, version in mapping_or_empty(record.get("programs")).items():
            texts.setdefault(f"program {name}", []).append(str(version))
    for name, version in header.versions.items():
        texts.setdefault(f"version {name}", []).append(version)
    return {name: " | ".join(sorted(set(values))) for name, values in texts.items() if values}


def _program_facts(record: Mapping[str, Any]) -> dict[str, str]:
    """The application's program and modules, as a block's first node saw them."""
    program, modules = record.get("program"), record.get("modules")
    texts = {}
    if isinstance(program, Mapping):
        name = program.get("name")
        facts = {key: program.get(key) for key in ("sha256", "mpi")}
        compilers = program.get("compilers")
        if isinstance(compilers, list):
            facts["compilers"] = ", ".join(map(str, compilers))
        facts["images"] = " ".join(
            f"{image} {digest}" for image, digest in mapping_or_empty(program.get("images")).items()
        )
        texts = {f"{name} {key}": str(value) for key, value in facts.items() if value}
    if isinstance(modules, list) and modules:
        texts["modules"] = " ".join(map(str, modules))
    return texts
