"""Makes reports: reads runs, writes one page per machine and its data."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from analysis.report.data import RunData, all_rows, load_run
from analysis.report.page import render
from analysis.report.sections import Files, data_files
from analysis.samples.table_file import write_table
from nimc.base.errors import InputError
from nimc.base.files import distrust, make_folder, replace_text
from nimc.base.groups import grouped

#: Of the JSON files next to a report, raised if a key goes or changes its meaning.
SCHEMA = 1


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
    paths: Sequence[Path], output: Path | None = None, *, force: bool = False
) -> list[Report]:
    """Writes a report for each machine among the run folders `paths`.

    The report of a single run goes to its own `report/`; others need the folder `output`, with one
    subfolder per machine if there are several. Raises InputError for an invalid run, for a folder
    of another user and, unless `force`, for a run with faults, before anything is written.
    """
    folders = list(dict.fromkeys(Path(os.path.realpath(path)) for path in paths))
    if output is None and len(folders) > 1:
        raise InputError("--output: a folder is required for the report of more than one run")
    target = output or folders[0] / "report"
    if output is None:
        for path in (folders[0], target):
            with suppress(FileNotFoundError, NotADirectoryError):
                if reason := distrust(path, team="writes"):
                    raise InputError(f"{path}: {reason}; allowed: --output with another folder")
    loaded = (load_run(folder, force=force) for folder in folders)
    of_machine = grouped((run.header.machine, run) for run in loaded)
    return [
        _write(target / machine if len(of_machine) > 1 else target, machine, runs)
        for machine, runs in of_machine.items()
    ]


def _write(folder: Path, machine: str, runs: list[RunData]) -> Report:
    make_folder(folder)
    data = write_data(folder, runs)
    page = folder / "report.html"
    replace_text(page, render(runs))
    return Report(machine, page, data, runs)


def write_data(folder: Path, runs: Sequence[RunData]) -> list[Path]:
    """Writes results.json, samples.parquet and pairs.parquet of `runs` into `folder`.

    And the files that sections declare (`analysis.report.sections`), if they have rows.
    """
    files: Files = {
        "results.json": {
            "machine": runs[0].header.machine,
            "runs": [run.document() for run in runs],
        },
        "samples.parquet": all_rows(runs, "samples"),
        "pairs.parquet": all_rows(runs, "pairs"),
        **data_files(runs),
    }
    for name, data in files.items():
        if isinstance(data, pl.DataFrame):
            write_table(folder / name, data)
        else:
            text = json.dumps({"schema": SCHEMA, **data}, indent=1)
            replace_text(folder / name, text + "\n")
    return [folder / name for name in files]
