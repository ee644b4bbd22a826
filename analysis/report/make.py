"""Makes reports: reads runs, writes one page per machine and its data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.errors import InputError
from analysis.report.data import RunData, load_run, write_data
from analysis.report.page import render


@dataclass(frozen=True)
class Report:
    """The page of one machine, its data files and its runs."""

    machine: str
    page: Path
    data: list[Path]
    runs: list[RunData]

    def document(self) -> dict[str, Any]:
        """Keys: machine, page, data (paths), runs (`analysis.report.data.run_document`)."""
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
    subfolder per machine if there are several. Raises InputError for an invalid run and, unless
    `force`, for one with faults, before anything is written.
    """
    folders = list(dict.fromkeys(Path(os.path.realpath(path)) for path in paths))
    if output is None and len(folders) > 1:
        raise InputError("--output: a folder is required for the report of more than one run")
    of_machine: dict[str, list[RunData]] = {}
    for folder in folders:
        run = load_run(folder, force=force)
        of_machine.setdefault(run.header.machine, []).append(run)
    target = output or folders[0] / "report"
    return [
        _write(target / machine if len(of_machine) > 1 else target, machine, runs)
        for machine, runs in of_machine.items()
    ]


def _write(folder: Path, machine: str, runs: list[RunData]) -> Report:
    folder.mkdir(parents=True, exist_ok=True)
    data = write_data(folder, runs)
    page = folder / "report.html"
    page.write_text(render(runs), encoding="utf-8")
    return Report(machine, page, data, runs)
