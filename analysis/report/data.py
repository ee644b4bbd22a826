"""A run with everything its report shows, and the data files next to the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from analysis.counts.counters import read_counters
from analysis.counts.why import why
from analysis.effects.carry_over import OrderEffect, order_effects, with_notes
from analysis.effects.caveats import emulations
from analysis.effects.contrasts import Contrast, contrasts
from analysis.effects.estimate import Result, StoppingRule, results_of
from analysis.effects.facts import note_provenance_changes
from analysis.effects.reference import compare_with_references
from analysis.remedies.advice import advise
from analysis.remedies.offload import Processing, processing
from analysis.remedies.rails import TABLES, RailFigures, rail_figures
from analysis.remedies.sentences import advice_document
from analysis.samples.columns import read_run
from analysis.samples.integrity import Integrity, check_run, read_provenance, refuse_faults
from analysis.samples.pairs import judged, pair_table
from analysis.samples.table_file import write_table
from analysis.subjects.intensity import IntensityCurve, curves
from analysis.subjects.latency import LatencyPoint, points
from analysis.subjects.regimes import RegimePoint, regimes
from nimc.base.errors import InputError
from nimc.base.files import replace_text
from nimc.base.json_limits import read_json
from nimc.records.run import RunHeader, load_header

# Blocks that ended early, from the logs of a run.


@dataclass(frozen=True)
class UnfinishedBlock:
    """A block that ended before its last pair."""

    case: str
    block: str
    #: What failed: `node_failed`, `time_limit`, `cancelled`, `application_failed`, ...
    outcome: str
    reason: str


def unfinished_blocks(run: Path) -> list[UnfinishedBlock]:
    """Blocks whose `job.json` has an outcome other than `done`, in order of case and block."""
    found = []
    for file in sorted((run / "logs").glob("*/*/job.json")):
        with suppress(OSError, InputError, KeyError, TypeError):
            job = read_json(file)
            outcome, reason = str(job["outcome"]), str(job["reason"] or "")
            if outcome != "done":
                case, block = file.parts[-3:-1]
                found.append(UnfinishedBlock(case, block, outcome, reason))
    return found


#: Of the JSON files next to a report, raised if a key goes or changes its meaning.
SCHEMA = 1


@dataclass(frozen=True)
class RunData:
    """One run, read and estimated."""

    path: Path
    header: RunHeader
    #: All samples with their `status` (`analysis.samples.pairs.judged`).
    samples: pl.DataFrame
    #: `analysis.samples.pairs.pair_table`.
    pairs: pl.DataFrame
    results: list[Result]
    #: Price and gain of levels of the application's factors.
    contrasts: list[Contrast]
    #: Effects of the place in the pair and of the run before.
    order: list[OrderEffect]
    #: What tools and nodes counted in each run (`analysis.counts.counters.read_counters`).
    counters: pl.DataFrame
    #: Blocks that ended early.
    unfinished_blocks: list[UnfinishedBlock]
    #: Sample files whose last line was cut off.
    torn: list[str]
    #: SHA-256 -> content of the file in `provenance/`.
    provenance: dict[str, Any]
    integrity: Integrity

    def processing(self) -> list[Processing]:
        """Processor time of the traffic, if nodes counted it."""
        site = self.header.facts.get("site")
        nic = site.get("nic") if isinstance(site, dict) else None
        claim = nic.get("processing") if isinstance(nic, dict) else None
        return processing(self.samples, self.counters, claim if isinstance(claim, str) else None)

    def emulated(self) -> list[str]:
        """Caveats of the transports of all writers; empty for RDMA hardware."""
        names = self.samples["transport"].unique(maintain_order=True)
        return emulations([str(name) for name in names])

    def regimes(self) -> list[RegimePoint]:
        """Which side loses in each point of membench under writers."""
        return regimes(self.samples, self.results)

    def rails(self) -> RailFigures:
        """Figures 1 to 3 of the multirail study."""
        return rail_figures(
            self.counters, self.samples, self.results, self.contrasts, self.header.margin
        )

    def document(self) -> dict[str, Any]:
        """The run's results as every command prints them with `--json`, and the `order_effects`
        (a list of `analysis.effects.carry_over.OrderEffect`)."""
        order = [each.as_dict() for each in self.order]
        found = run_document(self.header, self.results, self.contrasts, self.integrity)
        return found | {"order_effects": order}


#: File next to the page, its key, and its rows of a run.
_FILES: tuple[
    tuple[
        str,
        str,
        Callable[[RunData], Sequence[Processing | LatencyPoint | IntensityCurve | RegimePoint]],
    ],
    ...,
] = (
    ("processing", "processing", RunData.processing),
    ("latency", "points", lambda run: points(run.samples, run.results)),
    ("intensity", "curves", lambda run: curves(run.results)),
    ("regimes", "regimes", RunData.regimes),
)


def run_document(
    header: RunHeader, rows: Sequence[Result], found: Sequence[Contrast], integrity: Integrity
) -> dict[str, Any]:
    """Keys: machine, campaign, run, results and contrasts (lists of `Result` and of
    `Contrast`), and integrity_faults (a list of lines)."""
    return {
        "machine": header.machine,
        "campaign": header.campaign,
        "run": header.run,
        "results": [row.as_dict() for row in rows],
        "contrasts": [each.as_dict() for each in found],
        "integrity_faults": integrity.faults,
    }


def load_run(path: Path, *, force: bool = False) -> RunData:
    """Reads the run in folder `path` and estimates its results.

    Raises InputError if it cannot be read or, unless `force`, has faults (`analysis.integrity`).
    """
    header = load_header(path)
    read = read_run(path)
    provenance = read_provenance(path)
    integrity = check_run(path, header, read, provenance)
    if not force:
        refuse_faults(integrity)
    samples = judged(read.frame)
    pairs = pair_table(samples)
    rows = compare_with_references(results_of(samples, pairs, StoppingRule.of(header)), header)
    order = order_effects(samples)
    return RunData(
        path=path,
        header=header,
        samples=samples,
        pairs=pairs,
        results=with_notes(note_provenance_changes(rows, samples, provenance.records), order),
        order=order,
        contrasts=contrasts(samples, rows),
        counters=read_counters(path, samples),
        unfinished_blocks=unfinished_blocks(path),
        torn=read.torn,
        provenance=provenance.records,
        integrity=integrity,
    )


def write_data(folder: Path, runs: Sequence[RunData]) -> list[Path]:
    """Writes results.json, samples.parquet and pairs.parquet of `runs` into `folder`.

    And counters.parquet and why.json (`Why` of each run), if anything was counted;
    processing.json (`analysis.remedies.offload.Processing`), if nodes counted what it needs;
    latency.json (`analysis.subjects.latency.LatencyPoint`), if latency was measured;
    intensity.json (`analysis.subjects.intensity.IntensityCurve`), if intensities were;
    regimes.json (`analysis.subjects.regimes.RegimePoint`), if membench ran under writers;
    each row of these four with `run` and `emulated` (caveats of the run's transports);
    advice.json (`analysis.remedies.advice.Advice`), if a remedy was tried;
    the CSV files of `analysis.remedies.rails`, with `run` and `emulated`, if they have rows.
    """
    document = {
        "schema": SCHEMA,
        "machine": runs[0].header.machine,
        "runs": [run.document() for run in runs],
    }
    results_file = folder / "results.json"
    replace_text(results_file, json.dumps(document, indent=1) + "\n")
    files = [results_file]
    counted = any(run.counters.height for run in runs)
    for name in ("samples", "pairs", *(["counters"] if counted else [])):
        frames = [
            getattr(run, name).with_columns(run=pl.lit(run.header.run, pl.Categorical))
            for run in runs
        ]
        files.append(folder / f"{name}.parquet")
        write_table(files[-1], pl.concat(frames))
    if counted:
        found = {run.header.run: asdict(why(run.counters, run.samples)) for run in runs}
        files.append(folder / "why.json")
        text = json.dumps({"schema": SCHEMA, "runs": found}, indent=1)
        replace_text(files[-1], text + "\n")
    for name, key, rows in _FILES:
        listed = [
            {"run": run.header.run, "emulated": run.emulated(), **each.as_dict()}
            for run in runs
            for each in rows(run)
        ]
        if listed:
            files.append(folder / f"{name}.json")
            text = json.dumps({"schema": SCHEMA, key: listed}, indent=1)
            replace_text(files[-1], text + "\n")
    advice = advise(runs)
    if advice.remedies:
        files.append(folder / "advice.json")
        text = json.dumps({"schema": SCHEMA, **advice_document(advice)}, indent=1)
        replace_text(files[-1], text + "\n")
    return [*files, *_rail_files(folder, runs)]


def _rail_files(folder: Path, runs: Sequence[RunData]) -> list[Path]:
    figures = [(run, run.rails().tables()) for run in runs]
    files = []
    for name in TABLES:
        found = [
            {"run": run.header.run, "emulated": "; ".join(run.emulated()), **row}
            for run, tables in figures
            for row in tables[name]
        ]
        if found:
            files.append(folder / f"{name}.csv")
            write_table(files[-1], pl.DataFrame(found, infer_schema_length=None))
    return files
