"""A run with everything that its report shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl

from analysis.effects.annotations import (
    compare_with_references,
    name_contention,
    note_link_share,
    note_provenance_changes,
)
from analysis.effects.contrasts import Contrast, contrasts
from analysis.effects.estimate import StoppingRule, results_of
from analysis.effects.result import Result
from analysis.effects.verdict import emulation_caveats
from analysis.samples.columns import read_run
from analysis.samples.counts import counters_of, read_counts
from analysis.samples.integrity import Integrity, check_run, refuse_faults
from analysis.samples.pairs import judge_samples, pair_table
from analysis.samples.provenance import hosts_of, read_provenance
from analysis.statistics.interval import flat_record
from records.arms import natural_key
from records.block_plan import UNREAD_FILE
from records.calls import RunCommands
from records.commands import Shell
from records.errors import InputError
from records.failed_cases import load_failures
from records.json_limits import read_json
from records.measured import command_of, reworded_for_measure, rewording
from records.run import RunHeader, load_header
from records.run_folder import run_folders
from records.units import plural


@dataclass(frozen=True)
class UnfinishedBlock:
    """A block that ended before its last pair."""

    case: str
    block: str
    #: The failure: `node_failed`, `time_limit`, `cancelled`, `application_failed`, ...
    outcome: str
    reason: str


def _block_files(run: Path, name: str) -> list[Path]:
    """The files `name` of all blocks of a run, in order of case and block."""
    return sorted(
        (run / "logs").glob(f"*/*/{name}"),
        key=lambda file: [natural_key(folder) for folder in file.parts[-3:-1]],
    )


def unfinished_blocks(run: Path) -> list[UnfinishedBlock]:
    """Blocks whose `job.json` has an outcome other than `done`, in order of case and block.

    A `job.json` that cannot be read is ignored.
    """
    unfinished = []
    for file in _block_files(run, "job.json"):
        with suppress(OSError, InputError, KeyError, TypeError):
            job = read_json(file)
            outcome, reason = str(job["outcome"]), str(job["reason"] or "")
            if outcome != "done":
                case, block = file.parts[-3:-1]
                unfinished.append(UnfinishedBlock(case, block, outcome, reason))
    return unfinished


def unread_runs(run: Path) -> list[str]:
    """A line for each block with runs that its check has not read, in order of case and block.

    A session that is killed leaves runs unread. A crash may leave an incomplete line, which is not
    counted.
    """
    lines = []
    for file in _block_files(run, UNREAD_FILE):
        case, block = file.parts[-3:-1]
        with suppress(OSError):
            if run_count := file.read_bytes().count(b"\n"):
                runs = plural(run_count, "run")
                lines.append(
                    f"{case}, block {block}: {runs} to be read by the check: resume this run"
                )
    return lines


@dataclass(frozen=True, kw_only=True)
class RunData:
    """One run: the content of its folder, and the results that follow from it."""

    path: Path
    header: RunHeader
    #: All samples with their `status` (`analysis.samples.pairs.judge_samples`).
    samples: pl.DataFrame
    #: The table that `analysis.samples.pairs.pair_table` makes from the samples.
    pairs: pl.DataFrame
    results: list[Result]
    #: Counts of tools and nodes in each run (`analysis.samples.counts.counters_of`).
    counters: pl.DataFrame
    #: Blocks that ended before their last pair.
    unfinished_blocks: list[UnfinishedBlock]
    #: The lines that the function `unread_runs` returns.
    unread_runs: list[str]
    #: Case that could not be measured in the last session -> why.
    failures: dict[str, str]
    #: Sample files whose last line was cut off.
    cut_off_files: list[str]
    #: SHA-256 -> content of the file in `provenance/`.
    provenance: dict[str, Any]
    integrity: Integrity
    _tables: dict[str, pl.DataFrame] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def contrasts(self) -> list[Contrast]:
        """Prices and gains of the levels of factors."""
        return contrasts(self.samples, self.results)

    def cached(self, name: str, make: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """The table `name` of this run. The first call makes it by `make`; later calls reuse it."""
        if name not in self._tables:
            self._tables[name] = make()
        return self._tables[name]

    def emulation_caveats(self, cases: Collection[str] | None = None) -> list[str]:
        """A caveat for each emulated transport of the writers in `cases`.

        If `cases` is None, all cases are included. The list is empty if all writers used RDMA
        hardware.
        """
        rows = self._transports
        if cases is not None:
            rows = rows.filter(pl.col("case").cast(pl.String).is_in(list(cases)))
        return emulation_caveats(rows["transport"])

    @cached_property
    def _transports(self) -> pl.DataFrame:
        """A row for each case and each transport of the case's writers."""
        return self.samples.select("case", "transport").unique(maintain_order=True)

    @cached_property
    def cases(self) -> list[CaseData]:
        """The cases that have results, in their order."""
        return [CaseData(self, name) for name in dict.fromkeys(row.case for row in self.results)]

    @property
    def effect_table_rows(self) -> list[Result]:
        """The rows of the table of effects. If a case has no effects, all its results are rows."""
        return [row for case in self.cases for row in (case.effects or case.rows)]

    @property
    def ended_s(self) -> float | None:
        """Unix time at which the last sample ended; None if the run is unfinished or empty."""
        last_end_s: Any = (self.samples["start_s"] + self.samples["elapsed_s"]).max()
        return None if self.header.finished_s is None else last_end_s

    @property
    def pair_s(self) -> dict[str, float]:
        """Return case -> mean time of a pair, seconds: time of its blocks / number of its pairs.

        The time of a block lasts from the start of its first run to the end of its last run. The
        number of pairs is that of the treatment with the most pairs, since rejected runs may leave
        other treatments with fewer pairs.
        """
        pairs: dict[str, int] = {}
        for row in self.results:
            pairs[row.case] = max(row.pairs, pairs.get(row.case, 0))
        end_s = pl.col("start_s") + pl.col("elapsed_s")
        blocks = self.samples.group_by(pl.col("case").cast(pl.String), "block").agg(
            took_s=end_s.max() - pl.col("start_s").min()
        )
        cases = blocks.group_by("case").agg(pl.sum("took_s")).iter_rows()
        return {case: took_s / pairs[case] for case, took_s in cases if pairs.get(case)}

    def commands(self, shell: Shell | None) -> RunCommands:
        """Commands that continue the run in `shell`. It is None for commands on another host."""
        return RunCommands(self.path, self.header.campaign, self.header.machine, shell)

    @property
    def reword(self) -> Callable[[str], str]:
        """A function that rewrites a text so that it fits the command that made the run."""
        return rewording(self.header)

    def count_earlier_runs(self) -> int:
        """Count the runs of the same campaign and machine that started before this one.

        The headers of all runs in the same results folder are read. A run whose header cannot be
        read does not count.
        """
        count = 0
        with suppress(InputError, OSError):
            for folder in run_folders(self.path.absolute().parent):
                with suppress(InputError, OSError):
                    header = load_header(folder)
                    is_same = header.digest == self.header.digest
                    if is_same and header.started_s < self.header.started_s:
                        count += 1
        return count

    def document(self) -> dict[str, Any]:
        """Return the run's results, as commands print them with `--json`.

        Keys: machine, campaign, run, head (of its chain), results and contrasts (lists of `Result`
        and of `Contrast`), and integrity_faults (a list of lines).
        """
        return {
            "machine": self.header.machine,
            "campaign": self.header.campaign,
            "run": self.header.run,
            "head": self.integrity.head,
            "results": list(map(flat_record, self.results)),
            "contrasts": list(map(flat_record, self.contrasts)),
            "integrity_faults": self.integrity.faults,
        }


def page_rewording(runs: Sequence[RunData]) -> Callable[[str], str]:
    """A function that rewrites texts for a page of `runs`.

    If `nimc measure` made all runs, the texts then name options of this command, not keys of a
    campaign.
    """
    return reworded_for_measure if all(command_of(run.header) for run in runs) else str


@dataclass(frozen=True)
class CaseData:
    """One case of a run."""

    run: RunData
    name: str

    @property
    def samples(self) -> pl.LazyFrame:
        """The case's samples with their `status`."""
        return self.run.samples.lazy().filter(pl.col("case") == self.name)

    @cached_property
    def rows(self) -> list[Result]:
        """The case's results: effects, controls and repeated baselines."""
        return [row for row in self.run.results if row.case == self.name]

    @property
    def effects(self) -> list[Result]:
        """The case's results of treatments with writers."""
        return [row for row in self.rows if row.role == "effect"]

    @cached_property
    def emulation_caveats(self) -> list[str]:
        """A caveat for each emulated transport of the case's writers."""
        return self.run.emulation_caveats([self.name])


def hosts_of_targets(run: RunData) -> list[dict[str, Any]]:
    """The facts of the target nodes, from the records of all blocks; origins are left out."""
    targets = {name for names in run.samples["nodes"].unique() for name in str(names).split(",")}
    return [
        facts
        for record in run.provenance.values()
        for name, facts in hosts_of(record).items()
        if name in targets
    ]


def table_of_runs(
    runs: Sequence[RunData], table: Literal["samples", "pairs", "counters"]
) -> pl.DataFrame:
    """One table of several runs; the column `run` names the run of a row."""
    frames: list[pl.DataFrame] = [
        getattr(run, table).with_columns(run=pl.lit(run.header.run, pl.Categorical)) for run in runs
    ]
    return pl.concat(frames)


def load_run(path: Path, *, force: bool = False) -> RunData:
    """Read the run in the folder `path` and estimate its results.

    Raises InputError if the run cannot be read. Raises InputError also if the run has integrity
    faults, unless `force` is true.
    """
    header = load_header(path)
    stored_samples = read_run(path)
    counts = read_counts(path)
    provenance = read_provenance(path)
    integrity = check_run(path, header, stored_samples, provenance)
    if not force:
        refuse_faults(integrity)
    samples = judge_samples(stored_samples.frame)
    pairs = pair_table(samples)
    counters = counters_of(counts, samples)
    results = results_of(samples, pairs, StoppingRule.from_header(header))
    results = compare_with_references(results, header)
    results = name_contention(results, samples, counters, provenance.records)
    results = note_provenance_changes(results, samples, provenance.records)
    results = note_link_share(results, samples, header)
    return RunData(
        path=path,
        header=header,
        samples=samples,
        pairs=pairs,
        results=results,
        counters=counters,
        unfinished_blocks=unfinished_blocks(path),
        unread_runs=unread_runs(path),
        failures=load_failures(path),
        cut_off_files=stored_samples.cut_off_files,
        provenance=provenance.records,
        integrity=integrity,
    )
