"""Writes the files of the static pages: one page per machine, and one page over all machines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from analysis.display.document import json_file_text
from analysis.history.alarms import survey
from analysis.history.nights import nights_of, read_results
from analysis.pages.across import MachineHistory, runs_in_cache, side_by_side
from analysis.pages.render import PageNight, index_page, machine_page, machine_state
from analysis.samples.columns import write_table
from records.errors import InputError
from records.files import make_folder, replace_text
from records.run import load_header
from records.run_folder import reason_to_distrust_run

#: Version of the schema of index.json. It is raised if a key is removed or changes its meaning.
INDEX_SCHEMA = 2
_PAGE, _DOCUMENT = "index.html", "index.json"
#: Files in the same folder as the machines' folders. A machine with one of these names is left out.
FILES = (_PAGE, _DOCUMENT)


def machine_histories(
    folders: Sequence[Path], output: Path
) -> tuple[list[MachineHistory], list[str]]:
    """Return the history of each machine, in order of names, and a line for each omission.

    A table of results or a machine may be left out. `folders` are folders of runs. Reports are
    linked by paths relative to the pages in `output`. Raises InputError if a folder does not exist.
    """
    results, left_out = read_results(folders)
    nights = nights_of(results)
    surveyed = survey(nights, results)
    histories = []
    for machine in results["machine"].unique().sort():
        if machine in FILES:
            left_out.append(f"machine {machine}: left out, a file of the pages has this name")
            continue
        rows = results.filter(machine=machine)
        runs = rows["run"].unique(maintain_order=True)
        paths = {run: path for run in runs for folder in folders if (path := folder / run).is_dir()}
        reports = {
            run: quote(os.path.relpath(report, output / machine))
            for run, path in paths.items()
            if (report := path / "report" / "report.html").exists()
        }
        last_run = rows["run"][-1]
        histories.append(
            MachineHistory(
                machine=machine,
                nights=nights.filter(machine=machine),
                alarms=[alarm for alarm in surveyed.alarms if alarm.machine == machine],
                watched=[series for series in surveyed.watched if series.machine == machine],
                below_reference=[
                    case for case in surveyed.below_reference if case.machine == machine
                ],
                facts=_facts(paths.get(last_run)),
                emulated_runs=frozenset(rows.filter("emulated")["run"]),
                runs_in_cache=runs_in_cache(rows),
                reports=reports,
            )
        )
    return histories, left_out


def _facts(run: Path | None) -> Mapping[str, Any]:
    """Facts of the run's header; empty if the run is missing, invalid or another user's."""
    with suppress(InputError, OSError):
        if run and not reason_to_distrust_run(run):
            return load_header(run).facts
    return {}


def write_pages(
    output: Path, histories: Sequence[MachineHistory], nights: Mapping[str, Sequence[PageNight]]
) -> Path:
    """Write a page per machine and a page over all machines; return the path of the page over all.

    `nights`: machine -> the outcomes of its nights. Raises OSError if a file cannot be written.
    """
    for history in histories:
        folder = output / history.machine
        make_folder(folder)
        write_table(folder / "nights.parquet", history.nights)
        replace_text(folder / _PAGE, machine_page(history, nights.get(history.machine, ())))
    make_folder(output)
    tables = side_by_side(histories)
    states = [machine_state(history, nights.get(history.machine, ())) for history in histories]
    document = {"schema": INDEX_SCHEMA, "states": states, **tables}
    replace_text(output / _DOCUMENT, json_file_text(document))
    page = output / _PAGE
    replace_text(page, index_page(states, tables))
    return page
