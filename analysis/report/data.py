"""A run with everything its report shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl

from analysis.effects.contrasts import Contrast, contrasts
from analysis.effects.estimate import StoppingRule, results_of
from analysis.effects.facts import (
    compare_with_references,
    name_contention,
    note_link_share,
    note_provenance_changes,
)
from analysis.effects.result import Result
from analysis.effects.verdict import emulations
from analysis.samples.columns import read_run
from analysis.samples.counts import counters_of, read_counts
from analysis.samples.integrity import Integrity, check_run, refuse_faults
from analysis.samples.pairs import judged, pair_table
from analysis.samples.provenance import read_provenance
from analysis.statistics.interval import flat
from records.calls import RunCommands
from records.commands import Shell
from records.errors import InputError
from records.json_limits import read_json
from records.plan import UNREAD
from records.run import RunHeader, load_header
from records.run_folder import run_folders
from records.units import plural


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
    unfinished = []
    for file in sorted((run / "logs").glob("*/*/job.json")):
        with suppress(OSError, InputError, KeyError, TypeError):
            job = read_json(file)
            outcome, reason = str(job["outcome"]), str(job["reason"] or "")
            if outcome != "done":
                case, block = file.parts[-3:-1]
                unfinished.append(UnfinishedBlock(case, block, outcome, reason))
    return unfinished


def unread_runs(run: Path) -> list[str]:
    """A line for each block with runs that its check has yet to read, in order of case and block.

    A session that is killed leaves them. A crash leaves a part of a line, which is no run.
    """
    lines = []
    for file in sorted((run / "logs").glob(f"*/*/{UNREAD}")):
        case, block = file.parts[-3:-1]
        with suppress(OSError):
            runs = plural(file.read_bytes().count(b"\n"), "run")
            lines.append(f"{case}, block {block}: {runs} to be read by the check: resume this run")
    return lines


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
    #: What tools and nodes counted in each run (`analysis.samples.counts.counters_of`).
    counters: pl.DataFrame
    #: Blocks that ended early.
    unfinished_blocks: list[UnfinishedBlock]
    #: `unread_runs`.
    unread: list[str]
    #: Sample files whose last line was cut off.
    torn: list[str]
    #: SHA-256 -> content of the file in `provenance/`.
    provenance: dict[str, Any]
    integrity: Integrity
    _tables: dict[str, pl.DataFrame] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def contrasts(self) -> list[Contrast]:
        """Price and gain of levels of the application's factors."""
        return contrasts(self.samples, self.results)

    def once(self, name: str, work: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """The table that `work` makes of this run, worked out once: page and files share it."""
        if name not in self._tables:
            self._tables[name] = work()
        return self._tables[name]

    def emulated(self, cases: Collection[str] | None = None) -> list[str]:
        """Caveats of the transports of all writers, or of those in `cases`; none for hardware."""
        rows = self._transports
        if cases is not None:
            rows = rows.filter(pl.col("case").cast(pl.String).is_in(list(cases)))
        return emulations(rows["transport"])

    @cached_property
    def _transports(self) -> pl.DataFrame:
        """Each case with each transport of its writers."""
        return self.samples.select("case", "transport").unique(maintain_order=True)

    @cached_property
    def cases(self) -> list[CaseData]:
        """Its cases with results, in their order."""
        return [CaseData(self, name) for name in dict.fromkeys(row.case for row in self.results)]

    @property
    def shown(self) -> list[Result]:
        """The rows of the table of effects: those of a case without effects are all its rows."""
        return [row for case in self.cases for row in (case.effects or case.rows)]

    @property
    def ended_s(self) -> float | None:
        """When its last run ended, Unix time (the chain covers that); None if not finished."""
        ends_s: Any = (self.samples["start_s"] + self.samples["elapsed_s"]).max()
        return None if self.header.finished_s is None else ends_s

    @property
    def pair_s(self) -> dict[str, float]:
        """Case -> time from first to last run of its blocks / its pairs."""
        pairs = {row.case: row.pairs for row in self.results if row.pairs}
        end_s = pl.col("start_s") + pl.col("elapsed_s")
        of_blocks = self.samples.group_by(pl.col("case").cast(pl.String), "block").agg(
            took_s=end_s.max() - pl.col("start_s").min()
        )
        took = of_blocks.group_by("case").agg(pl.sum("took_s")).iter_rows()
        return {case: took_s / pairs[case] for case, took_s in took if case in pairs}

    def commands(self, shell: Shell | None) -> RunCommands:
        """Commands that continue the run, for a `shell` of this host; None: on another host."""
        return RunCommands(self.path, self.header.campaign, self.header.machine, shell)

    def earlier(self) -> int:
        """Runs of the same campaign on the same machine in its folder that started before.

        Reads the headers of all runs in its folder; those that cannot be read do not count.
        """
        earlier = 0
        with suppress(InputError, OSError):
            for other in run_folders(self.path.absolute().parent):
                with suppress(InputError, OSError):
                    header, beside = self.header, load_header(other)
                    earlier += (
                        beside.digest == header.digest and beside.started_s < header.started_s
                    )
        return earlier

    def document(self) -> dict[str, Any]:
        """The run's results as every command prints them with `--json`.

        Keys: machine, campaign, run, head (of its chain), results and contrasts (lists of `Result`
        and of `Contrast`), and integrity_faults (a list of lines).
        """
        return {
            "machine": self.header.machine,
            "campaign": self.header.campaign,
            "run": self.header.run,
            "head": self.integrity.head,
            "results": list(map(flat, self.results)),
            "contrasts": list(map(flat, self.contrasts)),
            "integrity_faults": self.integrity.faults,
        }


@dataclass(frozen=True)
class CaseData:
    """One case of a run."""

    run: RunData
    name: str

    @property
    def samples(self) -> pl.LazyFrame:
        """Its samples with their `status`."""
        return self.run.samples.lazy().filter(pl.col("case") == self.name)

    @cached_property
    def rows(self) -> list[Result]:
        """Its effects, controls and repeated baselines."""
        return [row for row in self.run.results if row.case == self.name]

    @property
    def effects(self) -> list[Result]:
        """Its rows of treatments with writers."""
        return [row for row in self.rows if row.role == "effect"]

    @cached_property
    def emulated(self) -> list[str]:
        """Caveats of the transports of its writers; none for hardware."""
        return self.run.emulated([self.name])


def all_rows(
    runs: Sequence[RunData], table: Literal["samples", "pairs", "counters"]
) -> pl.DataFrame:
    """A table of several runs, with the column `run`."""
    frames: list[pl.DataFrame] = [
        getattr(run, table).with_columns(run=pl.lit(run.header.run, pl.Categorical)) for run in runs
    ]
    return pl.concat(frames)


def load_run(path: Path, *, force: bool = False) -> RunData:
    """Reads the run in folder `path` and estimates its results.

    Raises InputError if it cannot be read or, unless `force`, has integrity faults.
    """
    header = load_header(path)
    read = read_run(path)
    counts = read_counts(path)
    provenance = read_provenance(path)
    integrity = check_run(path, header, read, provenance)
    if not force:
        refuse_faults(integrity)
    samples = judged(read.frame)
    pairs = pair_table(samples)
    counters = counters_of(counts, samples)
    rows = results_of(samples, pairs, StoppingRule.from_header(header))
    rows = compare_with_references(rows, header)
    rows = name_contention(rows, samples, counters, provenance.records)
    rows = note_provenance_changes(rows, samples, provenance.records)
    rows = note_link_share(rows, samples, header)
    return RunData(
        path=path,
        header=header,
        samples=samples,
        pairs=pairs,
        results=rows,
        counters=counters,
        unfinished_blocks=unfinished_blocks(path),
        unread=unread_runs(path),
        torn=read.torn,
        provenance=provenance.records,
        integrity=integrity,
    )
