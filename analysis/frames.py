"""Gives runs and their history as Polars frames. This is what `import nimc` offers."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from analysis.effects.result import Result
from analysis.history.nights import nights_of, read_results, rows_of_machine
from analysis.report.data import RunData, load_run
from analysis.statistics.interval import flat_record, json_keys
from records.errors import InputError, MachineError

__all__ = ["History", "InputError", "MachineError", "Runs", "history", "load"]

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Runs:
    """One run or several runs. Each frame has the columns machine, campaign and run."""

    #: One row per application run, with `status`: `counts`, `warm-up` or `rejected`.
    samples: pl.DataFrame
    #: One row per pair and treatment whose runs count; `ratio` is the slowdown.
    pairs: pl.DataFrame
    #: One row per case and treatment: estimate, interval, verdict.
    results: pl.DataFrame
    #: One row per run, rank and event that a tool or a node's agent counted; empty if none did.
    counters: pl.DataFrame
    #: Integrity faults, one line each. There are none unless the runs were loaded with `force`.
    faults: list[str]


@dataclass(frozen=True)
class History:
    """All runs of results folders, or only the runs of one machine."""

    #: One row per run, case and treatment: `report/results.parquet` of all runs.
    results: pl.DataFrame
    #: One row per night and watched quantity.
    nights: pl.DataFrame
    #: Tables that were left out: a line with the reason for each.
    left_out: list[str]


def load(runs: AnyPath | Sequence[AnyPath], *, force: bool = False) -> Runs:
    """The run in a folder, or the runs in several folders.

    Raises InputError if a run cannot be read. Raises InputError also if a run has integrity faults,
    unless `force` is true.
    """
    paths = _paths(runs, "a folder of a run", argument="runs")
    loaded = [load_run(path, force=force) for path in paths]
    results = [_with_names(run, _results_frame(run.results)) for run in loaded]
    return Runs(
        samples=pl.concat([_with_names(run, run.samples) for run in loaded]),
        pairs=pl.concat([_with_names(run, run.pairs) for run in loaded]),
        results=pl.concat(results, how="vertical_relaxed"),
        counters=pl.concat([_with_names(run, run.counters) for run in loaded]),
        faults=[line for run in loaded for line in run.integrity.lines()],
    )


def history(results: AnyPath | Sequence[AnyPath], *, machine: str | None = None) -> History:
    """All runs of a results folder or of several results folders.

    Raises InputError if a folder does not exist, or if there are runs but none of `machine`.
    """
    all_results, left_out = read_results(_paths(results, "a folder of runs", argument="results"))
    machine_results = rows_of_machine(all_results, machine, argument="machine")
    return History(machine_results, nights_of(machine_results), left_out)


def _paths(
    path_or_paths: AnyPath | Sequence[AnyPath], allowed: str, *, argument: str
) -> list[Path]:
    """Return a list of the given paths without duplicates.

    Raises InputError, which names `argument`, if the list is empty.
    """
    paths = (
        [path_or_paths] if isinstance(path_or_paths, (str, os.PathLike)) else list(path_or_paths)
    )
    if not paths:
        raise InputError(f"{argument}: an empty list; allowed: {allowed}, or several")
    return list(dict.fromkeys(map(Path, paths)))


def _with_names(run: RunData, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with the names of machine, campaign and run as first columns."""
    names = ("machine", "campaign", "run")
    columns = (pl.lit(getattr(run.header, name), pl.String).alias(name) for name in names)
    return frame.select(*columns, pl.all())


def _results_frame(results: Sequence[Result]) -> pl.DataFrame:
    """Return a row per result, with its factors as JSON text.

    The column `rejections` is left out, since the frame of samples has a row per rejected run.
    """
    records = [
        {
            **flat_record(result),
            "verdict": str(result.verdict),
            "factors": json.dumps(result.factors),
        }
        for result in results
    ]
    columns = [key for key in json_keys(Result) if key != "rejections"]
    return pl.DataFrame(records, schema=columns, infer_schema_length=None)
