"""Renders the runs of one machine as one self-contained HTML page; writes it and its data."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from analysis.effects.result import Result, Verdict
from analysis.effects.verdict import emulations
from analysis.report import words
from analysis.report.data import RunData, all_rows, load_run
from analysis.report.plots import View, ratios_plot, render_page, samples_plot, steady, variable
from analysis.report.sections import SUBJECTS, Files, Part, data_files, shown
from analysis.report.sentences import MEANING
from analysis.report.table import results_table
from analysis.report.words import DASH, utc
from analysis.samples.columns import write_table
from analysis.samples.pairs import kinds
from analysis.samples.provenance import all_hosts
from analysis.statistics.interval import ends
from records import units
from records.arms import BASELINE
from records.commands import Shell
from records.errors import InputError
from records.files import distrust, make_folder, replace_text
from records.groups import grouped
from records.notes import Note, remedy_of
from records.text import some
from records.units import plural, quantity

#: Most cases named in one sentence.
_NAMED = 4
#: What is to be done about notes on rejected runs.
_DOUBTS = {Note.FIRST_ATTEMPTS.remedy, Note.MANY_REJECTED.remedy}


def summary(run: RunData, shell: Shell | None = None) -> list[str]:
    """The first sentences on a run: what disturbed it and was measured, is lost, what to do next.

    The commands in them are for this `shell`.
    """
    if run.samples.is_empty():
        return ["Nothing was measured: the run has no samples."]
    effects = [row for row in run.results if row.role == "effect"]
    step = words.next_step(run.results, run.header, run.commands(shell), run.pair_s)
    hosts = all_hosts(run.provenance.values())
    disturbed = words.disturbance(run.samples, [host.get("threads") for host in hosts])
    return [*filter(None, [disturbed]), _measured(run), _lost(effects), step]


def _measured(run: RunData) -> str:
    header, samples, earlier = run.header, run.samples, run.earlier()
    lacking = words.unmeasured(run.results, header)
    cases = [case for case in samples["case"].unique(maintain_order=True) if case not in lacking]
    nodes = {name for names in samples["nodes"].unique() for name in str(names).split(",")}
    rejected = samples.filter(status="rejected").height
    end = "; the run is not finished" if run.ended_s is None else f" to {utc(run.ended_s)}"
    warned = dict.fromkeys(
        row.case
        for row in run.results
        if row.case not in lacking and _DOUBTS & {*map(remedy_of, row.notes)}
    )
    said = (
        f"Measured: {some(cases, _NAMED) or 'nothing'} on {plural(len(nodes), 'node')} of "
        f"{header.machine}, {plural(samples.height, 'run')}, {rejected or 'none'} rejected, from "
        f"{utc(header.started_s)}{end}."
    )
    if lacking:
        said += f" Not measured: {some(lacking, _NAMED)}."
    if warned:
        said += f" Rejected runs put {some(warned, _NAMED)} in doubt: see the warnings below."
    if earlier:
        runs = plural(earlier, "earlier run")
        said += f" Beside it: {runs} of the same campaign; verdicts hold for one, not the best."
    return said


def _lost(effects: Sequence[Result]) -> str:
    """Node-hours lost, of every effect whose verdict carries a loss; from the means."""
    slower = sorted(
        (row for row in effects if row.verdict.is_loss),
        key=lambda row: row.mean.value if row.mean else 0.0,
        reverse=True,
    )
    shown = "; ".join(_loss(row) for row in slower[:_NAMED])
    if len(slower) > _NAMED:
        shown += f"; the table has {len(slower) - _NAMED} more"
    none = [row for row in effects if row.verdict is Verdict.NO_EFFECT]
    ruled_out = ""
    if none:
        below = max(row.margin for row in none) * 100
        cases = some([words.named(row) for row in none], _NAMED)
        ruled_out = f"; for the typical run {below:.3g} % or more is ruled out for {cases}"
    if not shown:
        return f"Lost: no verdict shows a loss of node-hours{ruled_out}."
    return f"Lost: work of 100 node-hours takes on average {shown}{ruled_out}."


def _loss(row: Result) -> str:
    cost = row.cost
    assert cost
    ends = f"{cost.low:.1f} to {cost.high:.1f}"
    if cost.low < 0:
        pairs = plural(row.pairs, "pair")
        ends = f"{-cost.low:.1f} fewer to {cost.high:.1f} more"
        ends += f"; {pairs} do not show the mean more closely"
    kind = f"{'emulated ' if row.emulated else ''}{words.kind(row.direction)[0]}"
    rate = quantity(row.writer_rate_b_s, "B/s", 3)
    return f"{cost.value:.1f} more ({ends}) in {words.named(row)} under {kind} at {rate}"


#: Most rejected runs listed one by one; samples.parquet has all.
_LISTED = 200
#: Columns used by the page: in words and in the picture of all samples.
_SHOWN = [
    *("status", "seed", "nodes", "origin_nodes", "transport", "same_host"),
    *("foreign_cpus", "steal_share"),
]
_DRAWN = ["key", "arm", "status", "outcome", "reason", "fom", "nodes"]


def render(runs: Sequence[RunData], shell: Shell | None = None) -> str:
    """The page of `runs` of one machine, the newest first; its commands are for this `shell`."""
    ordered = sorted(runs, key=lambda run: run.header.started_s, reverse=True)
    views = [run_view(run, f"r{index}", shell) for index, run in enumerate(ordered)]
    machine = ordered[0].header.machine
    return render_page(
        SUBJECTS,
        f"Slowdown under network writes: {machine}",
        {
            "utc": utc,
            "with_code": words.with_code,
            "sentence": words.sentence,
            "breakable": words.breakable,
        },
        machine=machine,
        untrusted=[run.integrity for run in ordered if run.integrity.count],
        runs=views,
        sections=shown("machine", ordered),
        facts=words.facts(ordered[0].header.facts),
        emulated=sorted({text for run in views for text in run.emulated}),
        meaning=MEANING,
        outcomes=words.OUTCOMES,
        fom=fom,
        ratio=words.ratio,
        interval=lambda of: ends(of).replace("-", DASH),
        variable=variable,
        steady=steady,
        quantity=lambda *figure: units.quantity(*figure).replace(units.NONE, DASH),
    )


def run_view(run: RunData, anchor: str, shell: Shell | None) -> View:
    """One run: `data`, `shown` (rows of the table of results), its `cases` and `sections`."""
    names = list(dict.fromkeys(row.case for row in run.results))
    cases = [_case_view(run, name, f"{anchor}c{i}") for i, name in enumerate(names)]
    parts: tuple[Part, ...] = ("lead", "run", "end")
    return View(
        data=run,
        anchor=anchor,
        headline=words.headline([row for row in run.results if row.role == "effect"]),
        summary=summary(run, shell),
        provenance=_provenance(run),
        cases=cases,
        shown=[row for case in cases for row in (case.effects or case.rows)],
        sections={part: shown(part, run, anchor) for part in parts},
        # Whether a treatment is paired with a baseline other than plain `off`.
        baselines=any(row.baseline != BASELINE for row in run.results),
        emulated=sorted({text for case in cases for text in case.emulated}),
    )


def _case_view(run: RunData, name: str, anchor: str) -> View:
    """One case of a run."""
    of_case = run.samples.lazy().filter(pl.col("case") == name)
    samples = of_case.select(_SHOWN).collect()
    counted, lost = (of_case.filter(pl.col("status") == of) for of in ("counts", "rejected"))
    rows = [row for row in run.results if row.case == name]
    caveats = emulations(samples["transport"])
    effects = [row for row in rows if row.role == "effect"]
    rejected = lost.select("key", "start_s", "outcome", pl.col("reason").fill_null("")).collect()
    pairs = run.pairs.filter(pl.col("case") == name)
    return View(
        name=name,
        anchor=anchor,
        rows=rows,
        effects=effects,
        notes=[
            words.with_remedy(note)
            for note in words.notes_of(effects or rows)
            if note not in caveats
        ],
        conditions=words.conditions(samples),
        emulated=caveats,
        control=words.control(
            rows,
            same_host=bool(samples["same_host"].any()),
            cpu_shares=counted.select("cpu_share").drop_nulls().collect().to_series().to_list(),
        ),
        pictures=[
            *(
                samples_plot(
                    of_case.filter(pl.col("fom_unit") == unit).select(_DRAWN).collect(),
                    unit,
                    f"{name} runs",
                )
                for unit in dict.fromkeys(row.unit for row in rows)
            ),
            ratios_plot(pairs, rows, f"{name} pairs"),
        ],
        samples=samples.height,
        warmups=samples.filter(status="warm-up").height,
        # The first rejected runs: key, time, outcome, reason.
        listed=[
            (key, utc(start_s), outcome, reason)
            for key, start_s, outcome, reason in rejected.head(_LISTED).iter_rows()
        ],
        rejected_kinds=kinds(rejected.select("outcome", "reason").iter_rows()),
        rejected=rejected.height,
        writers=_writers(counted),
        seeds=some(samples["seed"].unique(maintain_order=True), 12),
        nodes=some(samples["nodes"].unique(maintain_order=True), 12),
        origins=some(samples["origin_nodes"].unique(maintain_order=True), 12),
    )


def _provenance(run: RunData) -> View:
    """What all blocks have in common of how they were made, and what differs in each of them."""
    columns = ("provenance", "case", "block")
    rows = run.samples.select(columns).unique(maintain_order=True)
    blocks = grouped((str(sha), f"{case}, block {block}") for sha, case, block in rows.iter_rows())
    facts = {sha: words.facts(run.provenance.get(sha, {})) for sha in blocks}
    present = [set(of) for of in facts.values() if of]
    shared = set.intersection(*present) if present else set()
    return View(
        shared=[fact for fact in next(filter(None, facts.values()), []) if fact in shared],
        blocks=[
            View(
                sha=sha,
                names=some(names, _NAMED),
                facts=[fact for fact in facts[sha] if fact not in shared],
                missing=sha not in run.provenance,
            )
            for sha, names in blocks.items()
        ],
    )


def _writers(counted: pl.LazyFrame) -> list[str]:
    """A line for each kind of writers: what they are, and how well they kept their rate."""
    kind = ("arm", "writers", "injector", "transport", "message_b", "footprint_b", "queue_pairs")
    kinds = (
        counted.filter(pl.col("message_b") > 0)
        .group_by(*kind, "direction", maintain_order=True)
        .agg(pl.col("writer_share").min())
    )
    return [_writers_line(**row) for row in kinds.collect().iter_rows(named=True)]


def _writers_line(
    *,
    arm: str,
    writers: int,
    injector: str,
    transport: str,
    message_b: int,
    footprint_b: int | None,
    queue_pairs: int | None,
    direction: str,
    writer_share: float | None,
) -> str:
    over = f" over {queue_pairs} queue pairs each" if (queue_pairs or 1) > 1 else ""
    return (
        f"{arm}: {plural(writers, 'writer')}, {injector} over {transport},"
        f" {words.kind(direction)[0]} of {words.binary(message_b)}{_through(footprint_b)}{over};"
        f" never below {writer_share or 0:.0%} of the rate alone"
    )


def _through(footprint_b: int | None) -> str:
    """The memory that each writer's messages pass through, if it is recorded."""
    return "" if footprint_b is None else f" through {words.binary(footprint_b)} each"


def fom(value: float | None, row: Result) -> str:
    """A figure of merit in the unit that suits the row's baseline median."""
    factor, unit = units.scale(row.off_median, row.unit)
    return DASH if value is None else f"{units.number(value / factor)} {unit}"


# Reports: runs are read, one page per machine and its data are written.

#: Who reads a page has a shell on this host, in some folder.
_ON_THIS_HOST = Shell()
#: Of the JSON files next to a report, raised if a key goes or changes its meaning.
SCHEMA = 2


@dataclass(frozen=True)
class Report:
    """The page of one machine, its data files and its runs."""

    machine: str
    page: Path
    data: list[Path]
    runs: list[RunData]

    def document(self) -> dict[str, Any]:
        """Keys: machine, page, data (paths), runs (`analysis.report.data.RunData.document`)."""
        return {
            "machine": self.machine,
            "page": str(self.page),
            "data": [str(path) for path in self.data],
            "runs": [run.document() for run in self.runs],
        }


def make_reports(
    paths: Sequence[Path],
    output: Path | None = None,
    *,
    force: bool = False,
    shell: Shell | None = _ON_THIS_HOST,
) -> list[Report]:
    """Writes a report for each machine among the run folders `paths`.

    The report of a single run goes to its own `report/`; others need the folder `output`, with one
    subfolder per machine if there are several. Commands on the page are for this `shell`, or, if
    others read the page elsewhere, for none. Raises InputError for an invalid run, for a folder
    of another user and, unless `force`, for a run with faults, before anything is written.
    """
    folders = list(dict.fromkeys(Path(os.path.realpath(path)) for path in paths))
    if output is None and len(folders) > 1:
        raise InputError("--output: a folder is required for the report of more than one run")
    target = output or folders[0] / "report"
    if output is None:
        for path in (folders[0], target):
            with suppress(FileNotFoundError, NotADirectoryError):
                if reason := distrust(path):
                    raise InputError(f"{path}: {reason}; allowed: --output with another folder")
    loaded = (load_run(folder, force=force) for folder in folders)
    of_machine = grouped((run.header.machine, run) for run in loaded)
    return [
        _write(target / machine if len(of_machine) > 1 else target, machine, runs, shell)
        for machine, runs in of_machine.items()
    ]


def _write(folder: Path, machine: str, runs: list[RunData], shell: Shell | None) -> Report:
    make_folder(folder)
    data = write_data(folder, runs)
    page = folder / "report.html"
    replace_text(page, render(runs, shell))
    return Report(machine, page, data, runs)


def write_data(folder: Path, runs: Sequence[RunData]) -> list[Path]:
    """Writes results.json and results.parquet, samples.parquet and pairs.parquet of `runs`.

    And the files that sections declare (`analysis.report.sections`), if they have rows.
    """
    files: Files = {
        "results.json": {
            "machine": runs[0].header.machine,
            "runs": [run.document() for run in runs],
        },
        "samples.parquet": all_rows(runs, "samples"),
        "pairs.parquet": all_rows(runs, "pairs"),
        "results.parquet": results_table(runs),
        **data_files(runs),
    }
    for name, data in files.items():
        if isinstance(data, pl.DataFrame):
            write_table(folder / name, data)
        else:
            text = json.dumps({"schema": SCHEMA, **data}, indent=1)
            replace_text(folder / name, text + "\n")
    return [folder / name for name in files]
