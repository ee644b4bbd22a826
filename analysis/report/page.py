"""Renders the runs of one machine as one self-contained HTML page; writes it and its data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from analysis.display import figures
from analysis.display.document import json_file_text
from analysis.report import words
from analysis.report.data import CaseData, RunData, load_run, page_rewording, table_of_runs
from analysis.report.first_sentences import headline, summary
from analysis.report.plots import View, colour_variable, is_steady, render_page
from analysis.report.sections import SUBJECTS, Files, Part, data_files, sections_shown
from analysis.report.sentences import MEANING
from analysis.report.table import results_table
from analysis.report.words import DASH, utc_text
from analysis.samples.columns import write_table
from analysis.statistics.interval import ends_text
from records.commands import Shell
from records.errors import InputError
from records.files import make_folder, reason_to_distrust, replace_text
from records.groups import grouped
from records.measured import command_heading


def render(runs: Sequence[RunData], shell: Shell | None = None) -> str:
    """The page of `runs`, which are of one machine; newest first. Its commands are for `shell`."""
    ordered = sorted(runs, key=lambda run: run.header.started_s, reverse=True)
    views = [run_view(run, f"r{index}", shell) for index, run in enumerate(ordered)]
    machine = ordered[0].header.machine
    reword = page_rewording(ordered)
    return render_page(
        SUBJECTS,
        f"Slowdown under network writes: {machine}",
        {"utc": utc_text, "with_code": words.with_code, "breakable": words.breakable_name},
        machine=machine,
        faulty_runs=[run.integrity for run in ordered if run.integrity.fault_count],
        runs=views,
        before_runs=sections_shown("before_runs", ordered),
        after_runs=sections_shown("after_runs", ordered),
        emulation_caveats=sorted({text for run in views for text in run.emulation_caveats}),
        meaning={verdict: reword(text) for verdict, text in MEANING.items()},
        fom=words.fom_text,
        ratio=words.ratio_texts,
        interval=lambda interval: ends_text(interval).replace("-", DASH),
        colour_variable=colour_variable,
        is_steady=is_steady,
        quantity=lambda *figure: figures.quantity(*figure).replace(figures.NO_FIGURE, DASH),
    )


def run_view(run: RunData, anchor: str, shell: Shell | None) -> View:
    """The variables of the page's template for one run.

    These are its `data`, first sentences, `cases`, and `sections` by part of the page. `anchor` is
    the id of the run on the page.
    """
    parts: tuple[Part, ...] = ("lead", "before_cases", "after_cases")
    return View(
        data=run,
        anchor=anchor,
        command=command_heading(run.header),
        headline=headline([row for row in run.results if row.role == "effect"]),
        summary=summary(run, shell),
        cases=[_case_view(case, f"{anchor}c{index}") for index, case in enumerate(run.cases)],
        sections={part: sections_shown(part, run, anchor) for part in parts},
        emulation_caveats=sorted({text for case in run.cases for text in case.emulation_caveats}),
    )


def _case_view(case: CaseData, anchor: str) -> View:
    return View(
        name=case.name,
        anchor=anchor,
        emulation_caveats=case.emulation_caveats,
        sections=sections_shown("case", case, anchor),
    )


#: The shell that readers of a page are assumed to have: on this host, in any folder.
_ON_THIS_HOST = Shell()
#: Version of the schema of the JSON files next to a report. It is raised if a key is removed or
#: changes its meaning.
SCHEMA = 2


@dataclass(frozen=True)
class Report:
    """The page of one machine, its data files and its runs."""

    machine: str
    page: Path
    data_paths: list[Path]
    runs: list[RunData]

    def document(self) -> dict[str, Any]:
        """Keys: machine, page, data (paths), runs (`analysis.report.data.RunData.document`)."""
        return {
            "machine": self.machine,
            "page": str(self.page),
            "data": [str(path) for path in self.data_paths],
            "runs": [run.document() for run in self.runs],
        }


def make_reports(
    paths: Sequence[Path],
    output: Path | None = None,
    *,
    force: bool = False,
    shell: Shell | None = _ON_THIS_HOST,
) -> list[Report]:
    """Write a report for each machine of the runs in the folders `paths`.

    If there is no folder `output`, there must be a single run, and its report is written to the
    subfolder `report/` of the run. If there are several machines, each has a subfolder of `output`.
    Commands on the page are for `shell`, which is None if the page is read on another host.

    Raises InputError before anything is written, in these cases: a run is invalid; a run has
    integrity faults and `force` is false; there is no `output`, and another user may have made one
    of the run's folders.
    """
    folders = list(dict.fromkeys(Path(os.path.realpath(path)) for path in paths))
    if output is None and len(folders) > 1:
        raise InputError("--output: a folder is required for the report of more than one run")
    report_folder = output or folders[0] / "report"
    if output is None:
        for path in (folders[0], report_folder):
            with suppress(FileNotFoundError, NotADirectoryError):
                if reason := reason_to_distrust(path):
                    raise InputError(f"{path}: {reason}; allowed: --output with another folder")
    loaded_runs = (load_run(folder, force=force) for folder in folders)
    runs_by_machine = grouped((run.header.machine, run) for run in loaded_runs)
    has_subfolders = len(runs_by_machine) > 1
    return [
        _write(report_folder / machine if has_subfolders else report_folder, machine, runs, shell)
        for machine, runs in runs_by_machine.items()
    ]


def _write(folder: Path, machine: str, runs: list[RunData], shell: Shell | None) -> Report:
    make_folder(folder)
    data_paths = write_data(folder, runs)
    page = folder / "report.html"
    replace_text(page, render(runs, shell))
    return Report(machine, page, data_paths, runs)


def write_data(folder: Path, runs: Sequence[RunData]) -> list[Path]:
    """Write the data files of `runs`, and return their paths.

    These are results.json, results.parquet, samples.parquet, pairs.parquet and, if they have rows,
    the files that sections declare (`analysis.report.sections`).
    """
    files: Files = {
        "results.json": {
            "machine": runs[0].header.machine,
            "runs": [run.document() for run in runs],
        },
        "samples.parquet": table_of_runs(runs, "samples"),
        "pairs.parquet": table_of_runs(runs, "pairs"),
        "results.parquet": results_table(runs),
        **data_files(runs),
    }
    for name, content in files.items():
        if isinstance(content, pl.DataFrame):
            write_table(folder / name, content)
        else:
            replace_text(folder / name, json_file_text({"schema": SCHEMA, **content}))
    return [folder / name for name in files]
