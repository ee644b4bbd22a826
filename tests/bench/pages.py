"""Pages from a store of made nights, each size in a process of its own.

python -m tests.bench.pages 10000000
"""

import json
import sys
import tempfile
import time
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
from tests.bench import BenchRow, below, in_own_process, peak_memory_b
from tests.captures import RUN_QUICK

#: Samples of one machine with a year of nights, and most seconds and bytes for its page.
_SIZES = (1_000_000, 10_000_000)
_MOST_S, _MOST_B = 10.0, 1 << 30
#: The page is made of the nights: ten times the samples should cost nothing.
_GROWTH = 2.0
#: Nights of twelve workloads on five machines, and most seconds for all pages.
_NIGHTS = (91, 365)
_MOST_ALL_S = 30.0


def run() -> list[BenchRow]:
    """Time and memory of one machine's page at two sizes, and of all pages at two."""
    command = "python -m tests.bench.pages"
    one = {size: _in_own_process("samples", size) for size in _SIZES}
    rows = []
    for size, (took_s, peak_b) in one.items():
        name = f"page of a machine, store of {size:,} samples"
        memory = f"its memory, {size:,} samples"
        rows += [
            below(name, took_s, "s", _MOST_S, command),
            below(memory, peak_b / 2**20, "MiB", _MOST_B / 2**20, command),
        ]
    growth = one[_SIZES[1]][0] / one[_SIZES[0]][0]
    name = "its time, 10,000,000 against 1,000,000 samples"
    rows.append(below(name, growth, "x", _GROWTH, command))
    for nights in _NIGHTS:
        took_s, _ = _in_own_process("nights", nights)
        name = f"pages of {nights} nights, 12 workloads, 5 machines"
        rows.append(below(name, took_s, "s", _MOST_ALL_S, command))
    return rows


def _in_own_process(kind: str, size: int) -> tuple[float, float]:
    """Seconds and peak bytes of the pages of a store."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        nights = size if kind == "nights" else _NIGHTS[1]
        histories = made_histories(nights=nights)[: None if kind == "nights" else 1]
        for history in histories:
            write_store(store, history, size if kind == "samples" else 0)
            _write_header(Path(folder), history)
        took_s, peak_b = in_own_process("pages", "--pages", folder)
    return took_s, peak_b


def write_store(store: Path, history: MachineHistory, samples: int) -> None:
    """A store with the nights of a machine, and as many samples in all."""
    each = _samples(samples // history.runs.height) if samples else pl.DataFrame()
    for row in history.runs.iter_rows(named=True):
        place = files.partition(history.machine, row["campaign"], row["started_s"])
        nights = history.nights.filter(run=row["run"]).select(list(NIGHTS))
        written = files.write(store / "nights" / place, row["run"], nights, {})
        stored = None
        if samples:
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
    """Recorded samples, over and over."""
    recorded = load_run(RUN_QUICK).samples
    return pl.concat([recorded] * (count // recorded.height + 1))[:count]


def main() -> None:
    """Make the pages of a store in this process, and print what it took as JSON."""
    if sys.argv[1] != "--pages":
        print(_in_own_process("samples", int(sys.argv[1])))
        return
    folder = Path(sys.argv[2])
    start_s = time.perf_counter()
    make_pages(folder / "store", folder, folder / "pages", print)
    took_s = time.perf_counter() - start_s
    peak_b = peak_memory_b()
    print(json.dumps([took_s, peak_b]))


if __name__ == "__main__":
    main()
