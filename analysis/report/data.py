"""A run with everything its report shows, and the data files next to the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from analysis.columns import read_run
from analysis.consistency import note_provenance_changes
from analysis.contrasts import Contrast, contrasts
from analysis.counters import read_counters
from analysis.errors import InputError
from analysis.estimate import Result, StoppingRule, results_of
from analysis.pairs import judged, pair_table
from analysis.reference import compare_with_references
from analysis.report.blocks import UnfinishedBlock, unfinished_blocks
from analysis.run import RunHeader, load_header
from analysis.schema_1 import with_numa_factors
from analysis.why import why


@dataclass(frozen=True)
class RunData:
    """One run, read and estimated."""

    path: Path
    header: RunHeader
    #: All samples with their `status` (`analysis.pairs.judged`).
    samples: pl.DataFrame
    #: `analysis.pairs.pair_table`.
    pairs: pl.DataFrame
    results: list[Result]
    #: Price and gain of levels of the application's factors.
    contrasts: list[Contrast]
    #: What tools counted in each run (`analysis.counters.read_counters`).
    counters: pl.DataFrame
    #: Blocks that ended early.
    unfinished_blocks: list[UnfinishedBlock]
    #: Sample files whose last line was cut off.
    torn: list[str]
    #: SHA-256 -> content of the file in `provenance/`.
    provenance: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """The run's results as every command prints them with `--json`."""
        return run_document(self.header, self.results, self.contrasts)


def run_document(
    header: RunHeader, rows: Sequence[Result], found: Sequence[Contrast]
) -> dict[str, Any]:
    """Keys: machine, campaign, run, results and contrasts (lists of `analysis.estimate.Result` and
    of `analysis.contrasts.Contrast`)."""
    return {
        "machine": header.machine,
        "campaign": header.campaign,
        "run": header.run,
        "results": [row.as_dict() for row in rows],
        "contrasts": [each.as_dict() for each in found],
    }


def load_run(path: Path) -> RunData:
    """Reads the run in folder `path` and estimates its results. Raises InputError if invalid."""
    header = load_header(path)
    read = read_run(path)
    provenance = _provenance(path)
    samples = judged(with_numa_factors(read.frame, provenance))
    pairs = pair_table(samples)
    rows = compare_with_references(results_of(samples, pairs, StoppingRule.of(header)), header)
    return RunData(
        path=path,
        header=header,
        samples=samples,
        pairs=pairs,
        results=note_provenance_changes(rows, samples, provenance),
        contrasts=contrasts(samples, rows),
        counters=read_counters(path, samples),
        unfinished_blocks=unfinished_blocks(path),
        torn=read.torn,
        provenance=provenance,
    )


def _provenance(path: Path) -> dict[str, Any]:
    found = {}
    for file in sorted((path / "provenance").glob("*.json")):
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{file}: {error}") from error
        if not isinstance(record, dict):
            raise InputError(f"{file}: is {type(record).__name__}, must be an object")
        found[file.stem] = record
    return found


def write_data(folder: Path, runs: Sequence[RunData]) -> list[Path]:
    """Writes results.json, samples.parquet and pairs.parquet of `runs` into `folder`.

    And counters.parquet and why.json (`analysis.why.Why` of each run), where a tool counted in any.
    """
    document = {"machine": runs[0].header.machine, "runs": [run.document() for run in runs]}
    results_file = folder / "results.json"
    results_file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    files = [results_file]
    counted = any(run.counters.height for run in runs)
    for name in ("samples", "pairs", *(["counters"] if counted else [])):
        frames = [
            getattr(run, name).with_columns(run=pl.lit(run.header.run, pl.Categorical))
            for run in runs
        ]
        files.append(folder / f"{name}.parquet")
        pl.concat(frames).write_parquet(files[-1])
    if counted:
        found = {run.header.run: asdict(why(run.counters, run.samples)) for run in runs}
        files.append(folder / "why.json")
        files[-1].write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return files
