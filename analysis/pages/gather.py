"""What is known of all machines, from a store and the folder of runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import polars as pl

from analysis.effects.caveats import emulations
from analysis.effects.verdict import Verdict
from analysis.history import files
from analysis.history.alarms import survey
from analysis.history.files import Naming
from analysis.history.store import entry_of, load_nights, load_runs
from analysis.pages.data import MachineHistory, PageNight
from nimc.base.errors import InputError
from nimc.records.run import RunHeader, load_header
from nimc.records.run_folder import distrust_run

#: Caveat of a machine whose transports are no longer stored.
_EMULATED = "writes were emulated, as the verdicts of its last nights say"


def gather(
    store: Path,
    results: Path,
    output: Path,
    outcomes: Mapping[str, Sequence[PageNight]],
    left_out: Naming,
) -> list[MachineHistory]:
    """The machines of the store and of `outcomes`, by name; addresses are for pages in `output`.

    What cannot be read is named to `left_out`. Raises InputError if there is no store.
    """
    runs = load_runs(store, left_out=left_out)
    nights = load_nights(store, left_out=left_out)
    surveyed = survey(nights, runs)
    found = []
    for machine in sorted({*runs["machine"], *outcomes}):
        own_runs, own_nights = runs.filter(machine=machine), nights.filter(machine=machine)
        headers = [_header(results / run) for run in _latest(own_runs)]
        latest = [header for header in headers if header and header.machine == machine]
        reports = {
            run: quote(os.path.relpath(report, output / machine))
            for run in own_runs["run"]
            if (report := results / run / "report" / "report.html").exists()
        }
        found.append(
            MachineHistory(
                machine=machine,
                runs=own_runs,
                nights=own_nights,
                alarms=[each for each in surveyed.alarms if each.machine == machine],
                watches=[each for each in surveyed.watches if each.machine == machine],
                outcomes=list(outcomes.get(machine, [])),
                facts=latest[-1].facts if latest else {},
                emulated=_emulated(store, latest, own_nights),
                reports=reports,
            )
        )
    return found


def _latest(runs: pl.DataFrame) -> list[str]:
    """The last run of each campaign, in order of time."""
    last = runs.sort("started_s").unique("campaign", keep="last", maintain_order=True)
    return last["run"].to_list()


def _header(run: Path) -> RunHeader | None:
    """The run's header; None if the run is gone, spoilt or somebody else's."""
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
