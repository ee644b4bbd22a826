"""A run as rows of the store: one of `runs`, those of its night, and its samples."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import polars as pl

from analysis.effects.facts import known
from analysis.history.tables import COUNTER, KEY, NIGHTS
from analysis.report.data import RunData
from analysis.samples.columns import read_samples
from analysis.samples.counts import role_values, totals
from analysis.samples.pairs import counted, judged
from analysis.samples.provenance import all_hosts, mapping
from analysis.samples.roles import ROLES
from analysis.statistics.interval import median_interval
from nimc.records.run import RunHeader

#: Text of a block's provenance that says what was built and with what.
_BUILT = ("compiler", "environment", "reframe", "spack", "spack_inputs")
_WATCHED = ("baseline", "effect")
_NAMES = ("machine", "campaign", "run")
_OF_ARM = ["case", "arm"]


def run_row(data: RunData, sha256: str, size_b: int, outcome: str | None = None) -> dict[str, Any]:
    """The run's row of `tables.RUNS`."""
    header, samples = data.header, data.samples
    return {
        **_named(header),
        "finished_s": header.finished_s,
        "digest": header.digest,
        "commit": header.commit,
        "samples": samples.height,
        "rejected": samples.filter(status="rejected").height,
        "outcome": outcome,
        "made": json.dumps(made(header, data.provenance), sort_keys=True),
        "nodes": _joined(samples["nodes"]),
        "size_b": size_b,
        "sha256": sha256,
        "head": data.integrity.head,
    }


def samples_frame(data: RunData) -> pl.DataFrame:
    """The run's samples (`pairs.judged`), each with machine, campaign and run."""
    named = (pl.lit(str(getattr(data.header, name)), pl.Categorical).alias(name) for name in _NAMES)
    return data.samples.select(*named, pl.all())


def samples_schema() -> pl.Schema:
    """Columns of `samples_frame` and their types."""
    own = judged(read_samples([]).frame).schema
    return pl.Schema({**dict.fromkeys(_NAMES, pl.Categorical()), **own})


def nights_frame(data: RunData) -> pl.DataFrame:
    """The run's rows of `tables.NIGHTS`."""
    columns = ("role", "fom", "fom_unit", "fom_better", "writer_rate_b_s", "nodes", "key")
    runs = counted(data.samples.lazy(), *columns).with_columns(pl.col(*_OF_ARM).cast(pl.String))
    watched = runs.filter(pl.col("role").cast(pl.String).is_in(_WATCHED))
    of_arm = {
        (case, arm): part
        for (case, arm), part in watched.partition_by(_OF_ARM, as_dict=True).items()
    }
    rows = [
        *(row for each in of_arm.values() for row in _figures(each)),
        *_slowdowns(data),
        *_counters(data, watched),
    ]
    night = datetime.datetime.fromtimestamp(data.header.started_s, datetime.timezone.utc).date()
    named = {**_named(data.header), "night": night}
    empty: dict[str, Any] = {"low": None, "high": None, "verdict": None}
    whole = [
        {**named, **empty, **row, "nodes": _joined(of_arm[row["case"], row["arm"]]["nodes"])}
        for row in rows
        if (row["case"], row["arm"]) in of_arm
    ]
    return pl.DataFrame(whole, schema=NIGHTS).sort(KEY)


def made(header: RunHeader, provenance: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Flat name -> value of what made the run; several values are joined with ` | `."""
    records = list(provenance.values())
    found = known(all_hosts(records))
    for record in records:
        for name in _BUILT:
            if isinstance(record.get(name), str):
                found.setdefault(name.replace("_", " "), []).append(record[name])
        for name, value in _of_program(record).items():
            found.setdefault(name, []).append(value)
        for name, version in mapping(record.get("programs")).items():
            found.setdefault(f"program {name}", []).append(str(version))
    for name, version in header.versions.items():
        found.setdefault(f"version {name}", []).append(version)
    return {name: " | ".join(sorted(set(values))) for name, values in found.items() if values}


def _of_program(record: Mapping[str, Any]) -> dict[str, str]:
    """The application's program and modules, as a block's first node saw them."""
    program, modules = record.get("program"), record.get("modules")
    found = {}
    if isinstance(program, Mapping):
        name = program.get("name")
        facts = {key: program.get(key) for key in ("sha256", "mpi")}
        compilers = program.get("compilers")
        if isinstance(compilers, list):
            facts["compilers"] = ", ".join(map(str, compilers))
        found = {f"{name} {key}": str(value) for key, value in facts.items() if value}
    if isinstance(modules, list) and modules:
        found["modules"] = " ".join(map(str, modules))
    return found


def _named(header: RunHeader) -> dict[str, object]:
    return {name: getattr(header, name) for name in (*_NAMES, "started_s")}


def _joined(nodes: pl.Series) -> str:
    """Nodes of some samples, each of which has its own joined with commas."""
    return ",".join(sorted({node for each in nodes.unique() for node in str(each).split(",")}))


def _figures(runs: pl.DataFrame) -> Iterable[dict[str, Any]]:
    """Figure of merit and writers' rate of one treatment, from its runs that count."""
    first = runs.row(0, named=True)
    of = {"case": first["case"], "arm": first["arm"]}
    unit, better = str(first["fom_unit"]), str(first["fom_better"])
    yield of | _night("fom", unit, better, runs["fom"].to_list())
    rates = runs["writer_rate_b_s"].drop_nulls().to_list()
    if first["role"] == "effect" and rates:
        yield of | _night("writer_rate", "B/s", "higher", rates)


def _slowdowns(data: RunData) -> Iterable[dict[str, Any]]:
    for row in data.results:
        if row.role == "effect" and (of := row.slowdown):
            named = {"case": row.case, "arm": row.arm, "verdict": str(row.verdict)}
            kind = {"quantity": "slowdown", "unit": "1", "better": "lower", "count": row.pairs}
            yield named | kind | {"value": of.value, "low": of.low, "high": of.high}


def _counters(data: RunData, watched: pl.DataFrame) -> Iterable[dict[str, Any]]:
    """Medians of the sums over ranks (of shares, of the means), of runs with every rank's value."""
    values = role_values(data.counters).join(watched.select("key", "arm"), on="key", how="inner")
    per_run = totals(values, "case", "arm", "role", "key")
    groups = per_run.partition_by("case", "arm", "role", as_dict=True, maintain_order=True)
    for (case, arm, role), part in groups.items():
        unit = ROLES[role].unit
        night = _night(f"{COUNTER}{role}", unit, "lower", part["value"].to_list())
        yield {"case": case, "arm": arm, **night}


def _night(quantity: str, unit: str, better: str, values: Sequence[float]) -> dict[str, Any]:
    """The median with its interval, which too few values do not have."""
    estimate = median_interval(values)
    return {
        "quantity": quantity,
        "unit": unit,
        "better": better,
        "value": median(values),
        "low": estimate.low if estimate else None,
        "high": estimate.high if estimate else None,
        "count": len(values),
    }
