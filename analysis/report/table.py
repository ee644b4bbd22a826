"""The results of runs as one tidy table, `results.parquet`: a row per run, case and treatment.

History, alarms and pages read only these tables of runs. The columns are facts of the run, the
fields of `Result` in their form for JSON, and facts of the treatment's runs
(docs/nights.md#the-table).
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

#: Version of the table's schema, which is also a column. It is raised if a column is removed or
#: changes its meaning.
SCHEMA = 1
#: Type of a column of names and values. The names are factors, or facts about how a run was made.
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
    # Null while the run is unfinished.
    "finished_s": pl.Float64(),
    "commit": pl.String(),
    # Number of the run's integrity faults. History leaves out runs with faults.
    "faults": pl.Int64(),
    # How the run was made: kernel, microcode, compiler, MPI, versions. If a fact has several
    # values, they are joined with ` | `.
    "facts": _NAMED_VALUES,
}
#: Columns that are computed from the runs of a treatment that count. A baseline has no result of
#: its own, but has a row with these columns.
_TREATMENT_COLUMNS: dict[str, Any] = {
    # Target nodes, sorted and joined with commas.
    "nodes": pl.String(),
    "runs": pl.Int64(),
    # Median of the figures of merit, in `unit`, and its interval, which is null below six runs.
    "fom": pl.Float64(),
    "fom_low": pl.Float64(),
    "fom_high": pl.Float64(),
    # Intervals of `off_median` and `on_median`; null below six runs.
    **dict.fromkeys(("off_low", "off_high", "on_low", "on_high"), pl.Float64()),
    # Number of its writers.
    "writers": pl.Int64(),
    "injector": pl.String(),
    "transport": pl.String(),
    "message_b": pl.Int64(),
    # Requested rate of all its writers together, median over runs; null at full rate.
    "asked_b_s": pl.Float64(),
}
#: Columns on writers that are the same in all runs of a treatment.
_CONSTANT_WRITER_COLUMNS = ("writers", "injector", "transport", "message_b")


def _column_type(hint: Any) -> pl.DataType | type[pl.DataType]:
    """The type of the column for a field of a record with this type hint."""
    origin = get_origin(hint)
    if origin is list:
        return pl.List(pl.String)
    if origin is dict:
        return _NAMED_VALUES
    if NoneType in get_args(hint):
        return _column_type(next(arg for arg in get_args(hint) if arg is not NoneType))
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return pl.Struct({field.name: _column_type(hints[field.name]) for field in fields(hint)})
    number_types = {bool: pl.Boolean(), int: pl.Int64(), float: pl.Float64()}
    return number_types.get(hint, pl.String())


def _result_columns() -> dict[str, Any]:
    """Columns of `Result`. Rejected runs are left out, since they are in the table of samples."""
    hints = get_type_hints(Result)
    return {
        key: pl.Float64() if attribute else _column_type(hints[name])
        for key, (name, attribute) in json_keys(Result).items()
        if name != "rejections"
    }


#: Column -> its type.
COLUMNS: dict[str, Any] = {**_RUN_COLUMNS, **_result_columns(), **_TREATMENT_COLUMNS}


def results_table(runs: Sequence[RunData]) -> pl.DataFrame:
    """The table of `runs`, with the columns `COLUMNS`."""
    return pl.DataFrame([row for run in runs for row in _rows(run)], schema=COLUMNS)


def _rows(run: RunData) -> list[dict[str, Any]]:
    """The rows of one run: treatments without a result, such as baselines, come first."""
    header_fields = ("machine", "campaign", "run", "commit", "started_s", "finished_s")
    run_values = {
        **{name: getattr(run.header, name) for name in header_fields},
        "schema": SCHEMA,
        "faults": run.integrity.fault_count,
        "facts": _named_values(build_facts(run.header, run.provenance)),
    }
    # Columns that are the same in all runs of a treatment.
    constant_columns = (
        "workload",
        "role",
        "fom_unit",
        "fom_better",
        "factors",
        *_CONSTANT_WRITER_COLUMNS,
    )
    # (case, arm) -> the columns of its runs that count; `fom` has a value per run.
    treatments: dict[tuple[str, str], dict[str, Any]] = {}
    # Cases are handled one at a time to save memory, since the runs that count are copied.
    for case in run.samples["case"].unique(maintain_order=True):
        samples = run.samples.lazy().filter(pl.col("case") == case)
        runs = counted_runs(samples, *constant_columns, "asked_b_s", "nodes", "fom")
        case_treatments = runs.group_by("case", "arm", maintain_order=True).agg(
            pl.col(constant_columns).first(),
            pl.col("asked_b_s").median(),
            pl.col("nodes").unique(),
            pl.col("fom"),
        )
        rows = case_treatments.drop("fom").to_dicts()
        for row, foms in zip(rows, case_treatments["fom"], strict=True):
            treatments[row["case"], row["arm"]] = row | {"fom": foms.to_numpy()}
    treatment_values = {key: _treatment_values(row) for key, row in treatments.items()}
    results = {(row.case, row.arm): _result_values(row, treatment_values) for row in run.results}
    baselines = {
        key: _baseline_values(row) for key, row in treatments.items() if key not in results
    }
    return [
        {**run_values, **values, **treatment_values.get(key, {})}
        for key, values in {**baselines, **results}.items()
    ]


def _result_values(
    row: Result, treatment_values: Mapping[tuple[str, str], Mapping[str, Any]]
) -> dict[str, Any]:
    """Columns of `Result` for a result, and the intervals of its two medians."""
    values = {key: value for key, value in flat_record(row).items() if key in COLUMNS}
    values |= {"verdict": str(row.verdict), "factors": _named_values(row.factors)}
    for side, arm in (("off", row.baseline), ("on", row.arm)):
        arm_values = treatment_values.get((row.case, arm), {})
        for ending in ("_low", "_high"):
            values[f"{side}{ending}"] = arm_values.get(f"fom{ending}")
    return values


def _baseline_values(treatment: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of `Result` for a treatment that has no result, such as a baseline."""
    return {
        **{name: treatment[name] for name in ("case", "arm", "workload", "role")},
        "unit": treatment["fom_unit"],
        "better": treatment["fom_better"],
        "factors": _named_values(parsed_levels(treatment["factors"])),
    }


def _treatment_values(treatment: Mapping[str, Any]) -> dict[str, Any]:
    """`_TREATMENT_COLUMNS` without the intervals of `off_median` and `on_median`."""
    foms = treatment["fom"]
    estimate = median_interval(foms)
    nodes = {node for names in treatment["nodes"] for node in names.split(",")}
    return {
        "nodes": ",".join(sorted(nodes)),
        "runs": len(foms),
        "fom": estimate.value if estimate else median(foms),
        "fom_low": estimate.low if estimate else None,
        "fom_high": estimate.high if estimate else None,
        **{name: treatment[name] for name in (*_CONSTANT_WRITER_COLUMNS, "asked_b_s")},
    }


def _named_values(values: Mapping[str, Any]) -> list[dict[str, str]]:
    """Names and values in the form of `_NAMED_VALUES`. Values other than text become JSON."""
    return [
        {"name": name, "value": value if isinstance(value, str) else json.dumps(value)}
        for name, value in values.items()
    ]


def build_facts(header: RunHeader, provenance: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Name -> value of each fact about how the run was made; several values are joined by ` | `."""
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
    """Name -> text of the facts of the application's program and modules in a block's record."""
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
