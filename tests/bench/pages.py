"""The page of one machine from a store of made nights, in a process of its own."""

import sys
import tempfile
from pathlib import Path

import polars as pl

from analysis.history import files
from analysis.history.store import write_entry
from analysis.history.tables import NIGHTS
from analysis.pages.data import MachineHistory
from analysis.report.data import load_run
from nimc.cli.history import make_pages
from nimc.records.run import save_header
from tests.analysis.made_nights import made_histories
from tests.analysis.synthetic import header
from tests.bench import BenchRow, below, in_own_process, print_cost
from tests.captures import RUN_QUICK

#: Samples of one machine with a year of nights, and most seconds and bytes for its page.
_SAMPLES = 10_000_000
_MOST_S, _MOST_B = 10.0, 1 << 30
_NIGHTS = 365


def run() -> list[BenchRow]:
    """Time and memory of one machine's page."""
    with tempfile.TemporaryDirectory() as folder:
        history, *_ = made_histories(nights=_NIGHTS)
        write_store(Path(folder) / "store", history, _SAMPLES)
        _write_header(Path(folder), history)
        cost = in_own_process("pages", folder)
    name = f"page of a machine, store of {_SAMPLES:,} samples"
    return [
        below(name, cost.wall_s, "s", _MOST_S),
        below("its memory", cost.memory_b / 2**20, "MiB", _MOST_B / 2**20),
    ]


def write_store(store: Path, history: MachineHistory, samples: int) -> None:
    """A store with the nights of a machine, and as many samples in all."""
    each = _samples(samples // history.runs.height)
    for row in history.runs.iter_rows(named=True):
        place = files.partition(history.machine, row["campaign"], row["started_s"])
        nights = history.nights.filter(run=row["run"]).select(list(NIGHTS))
        written = files.write(store / "nights" / place, row["run"], nights, {})
        frame = each.with_columns(run=pl.lit(row["run"]))
        stored = files.write(store / "samples" / place, row["run"], frame, {}).name
        whole = {**row, "digest": "0", "size_b": 1, "sha256": "0"}
        write_entry(store, whole, written.name, stored)


def _write_header(results: Path, history: MachineHistory) -> None:
    """The folder of the last run, of which the page wants the header."""
    last = history.runs.row(-1, named=True)
    names = {name: last[name] for name in ("machine", "campaign", "run", "started_s")}
    (results / last["run"]).mkdir(exist_ok=True)
    save_header(results / last["run"], header(**names, finished_s=None))


def _samples(count: int) -> pl.DataFrame:
    recorded = load_run(RUN_QUICK).samples
    return pl.concat([recorded] * (count // recorded.height + 1))[:count]


if __name__ == "__main__":
    place = Path(sys.argv[1])
    print_cost(lambda: make_pages(place / "store", place, place / "pages", print))
