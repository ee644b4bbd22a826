"""What is known of all machines, from a store and the folder of runs, and its pages as files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from analysis.effects.verdict import Verdict, emulations
from analysis.history import files
from analysis.history.alarms import acknowledged, survey
from analysis.history.files import Naming
from analysis.history.store import entry_of, load_nights, load_runs
from analysis.pages import across
from analysis.pages.alarms import calendar_nights, shown_alarms
from analysis.pages.data import (
    FactChange,
    MachineHistory,
    PageNight,
    ReportedNights,
    fact_changes,
    history_of,
)
from analysis.pages.render import index_page, machine_page, state_of
from analysis.samples.columns import write_table
from nimc.base.errors import InputError
from nimc.base.files import make_folder, replace_text
from nimc.records.run import RunHeader, load_header
from nimc.records.run_folder import distrust_run

#: Caveat of a machine whose transports are no longer stored.
_EMULATED = "writes were emulated, as the verdicts of its last nights say"


def gather(
    store: Path,
    results: Path,
    output: Path,
    outcomes: Mapping[str, ReportedNights],
    left_out: Naming,
) -> list[MachineHistory]:
    """The machines of the store and of `outcomes`, by name; addresses are for pages in `output`.

    What cannot be read is named to `left_out`. Raises InputError if there is no store.
    """
    runs = load_runs(store, left_out=left_out)
    nights = load_nights(store, left_out=left_out)
    surveyed = survey(nights, runs)
    surveyed = replace(surveyed, alarms=acknowledged(store, surveyed.alarms, left_out))
    known_s = time.time()
    found = []
    for machine in sorted({*runs["machine"], *outcomes}):
        reported = outcomes.get(machine, ReportedNights())
        own = history_of(machine, surveyed, nights, runs, known_s)
        # The last run of each campaign.
        last = own.runs.sort("started_s").unique("campaign", keep="last", maintain_order=True)
        headers = [_header(results / run) for run in last["run"]]
        latest = [header for header in headers if header and header.machine == machine]
        reports = {
            run: quote(os.path.relpath(report, output / machine))
            for run in own.runs["run"]
            if (report := results / run / "report" / "report.html").exists()
        }
        found.append(
            replace(
                own,
                outcomes=reported.nights,
                schedules=reported.schedules,
                facts=latest[-1].facts if latest else {},
                emulated=_emulated(store, latest, own.nights),
                reports=reports,
            )
        )
    return found


def _header(run: Path) -> RunHeader | None:
    """The run's header; None if the run is gone, spoilt or another user's."""
    try:
        return None if distrust_run(run) else load_header(run)
    except (InputError, OSError):
        return None


def _emulated(store: Path, latest: Iterable[RunHeader], nights: pl.DataFrame) -> list[str]:
    """Caveats of the transports of the latest runs."""
    transports = sorted({name for header in latest for name in _transports(store, header)})
    known = emulations(transports)
    last = nights.sort("started_s").unique(["campaign", "case", "arm", "quantity"], keep="last")
    if not known and last.filter(verdict=Verdict.EMULATED.value).height:
        return [_EMULATED]
    return known


def _transports(store: Path, header: RunHeader) -> list[str]:
    """Names of the transports of a run; none if its samples were pruned or are spoilt."""
    entry = entry_of(store, header)
    if entry is None or entry.samples is None:
        return []
    try:
        path = files.read(entry.samples).path
        column = pl.scan_parquet(path, hive_partitioning=False, glob=False).select("transport")
        return [str(name) for name in column.unique().collect()["transport"] if name]
    except (files.SpoiltError, pl.exceptions.PolarsError):
        return []


#: Number of the schema of index.json.
INDEX_SCHEMA = 1
_PAGE, _DOCUMENT = "index.html", "index.json"
_ENDINGS = ("csv", "parquet")
#: Tables over all machines: their rows, and where `across.side_by_side` has them.
_TABLES: dict[str, tuple[type[Any], str]] = {
    "machines": (across.MachineFacts, "facts"),
    "triad": (across.Triad, "triads"),
    "rates": (across.CoreRates, "rates"),
    "slowdowns": (across.MachineSlowdown, "slowdowns"),
}
#: Files next to the machines' folders: no machine can have such a name.
FILES = (_PAGE, _DOCUMENT, *(f"{name}.{ending}" for name in _TABLES for ending in _ENDINGS))


def write_pages(output: Path, histories: Sequence[MachineHistory]) -> Path:
    """Write the page of each machine and that over all; returns the latter's path.

    Raises OSError, with its name, if a file cannot be written.
    """
    for history in histories:
        folder = output / history.machine
        make_folder(folder)
        _write_table(folder / "nights", history.nights)
        _write_table(folder / "changes", _frame(FactChange, fact_changes(history.runs)))
        nights = calendar_nights(history, shown_alarms(history))
        _write_table(folder / "calendar", _frame(PageNight, nights))
        replace_text(folder / _PAGE, machine_page(history))
    make_folder(output)
    found = across.side_by_side(histories)
    for name, (kind, rows) in _TABLES.items():
        _write_table(output / name, _frame(kind, getattr(found, rows)))
    document = _index_document(histories, found)
    replace_text(output / _DOCUMENT, json.dumps(document, indent=1) + "\n")
    page = output / _PAGE
    replace_text(page, index_page(histories))
    return page


def _index_document(
    histories: Sequence[MachineHistory], found: across.SideBySide
) -> dict[str, Any]:
    """Keys: schema, machines, slowdowns, ranking, triad, rates (`docs/pages.md`)."""
    machines = [
        asdict(state_of(history))
        | {
            "facts": asdict(fact),
            "alarms": [asdict(each) for each in history.alarms],
            "watches": [asdict(each) for each in history.watches],
        }
        for history, fact in zip(histories, found.facts, strict=False)
    ]
    return {
        "schema": INDEX_SCHEMA,
        "machines": machines,
        "slowdowns": [asdict(each) for each in found.slowdowns],
        "ranking": [asdict(each) for each in found.ranks],
        "triad": [asdict(each) for each in found.triads],
        "rates": [asdict(each) for each in found.rates],
    }


def _frame(kind: type[Any], rows: Iterable[Any]) -> pl.DataFrame:
    names = [each.name for each in fields(kind)]
    table = [[getattr(row, name) for name in names] for row in rows]
    return pl.DataFrame(table, schema=names, orient="row", infer_schema_length=None)


def _write_table(path: Path, frame: pl.DataFrame) -> None:
    for ending in _ENDINGS:
        write_table(path.with_name(f"{path.name}.{ending}"), frame)
