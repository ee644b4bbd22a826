"""The cost of the chain, digests and kept outputs of 10,000 samples, and of verifying them.

python -m bench.chain FOLDER
"""

import json
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from bench import BenchRow, below, cost_of, in_own_process, print_cost
from conductor.block.store import Store
from nimc.run.verify import verify
from tests.analysis.integrity.outputs import output_of
from tests.analysis.synthetic import STREAM, asked_for, header, samples
from tests.nimc.stored import rows_of, store_run, with_figures

_SIZE = 10_000
_MOST_S = 5.0
#: The conductor makes runs longer until two rows of a second fit in (`conductor.judge.length`).
_SHORTEST_S = 2.0
#: Largest share of a run's time that the chain may add.
_MOST_SHARE = 0.01
#: Samples that are stored with and without it, by turns.
_STORED = 500


def run() -> list[BenchRow]:
    """Return what storing takes with and without the chain, and what verifying takes."""
    with tempfile.TemporaryDirectory() as folder:
        with_s, without_s = _storing(Path(folder))
        make(Path(folder) / "run", _SIZE)
        verified = in_own_process("chain", folder)
    most_s = _MOST_SHARE * _SIZE * _SHORTEST_S
    name = f"what chain, digests and kept outputs add to {_SIZE:,} samples"
    return [
        below(name, (with_s - without_s) * _SIZE, "s", most_s),
        below(f"nimc verify, {_SIZE:,} samples", verified.wall_s, "s", _MOST_S),
        BenchRow("its peak memory", verified.memory_b / 2**20, "MiB"),
    ]


def _storing(folder: Path) -> tuple[float, float]:
    """Seconds a sample: as a conductor stores it, and the same lines appended without a chain."""
    stored = [with_figures(sample) for sample in samples(STREAM, pairs=_STORED // 4)]
    logs = folder / "with/logs/stream/0"
    logs.mkdir(parents=True)
    store = Store(folder / "with", STREAM.name)
    with_s = without_s = 0.0
    for number, sample in enumerate(stored):
        output = logs / f"{number}.out"
        output.write_text(output_of(sample.as_dict()))
        with_s += cost_of(partial(store.append, sample, rows_of(sample), [output])).wall_s
        without_s += cost_of(partial(_plainly, folder, rows_of(sample), [sample.as_dict()])).wall_s
    return with_s / len(stored), without_s / len(stored)


def _plainly(folder: Path, *files: list[dict[str, Any]]) -> None:
    """Append records to a file each, on disk when this returns."""
    for number, records in enumerate(files):
        lines = (json.dumps(record, separators=(",", ":"), allow_nan=False) for record in records)
        with (folder / f"plain-{number}.jsonl").open("ab", buffering=0) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
            os.fsync(file.fileno())


def make(run_folder: Path, size: int) -> None:
    """A run of about so many samples with two counts and an output each."""
    pairs = size // 4
    run_samples = samples(STREAM, pairs=pairs)
    head = header(pairs_cap=pairs, run=run_folder.name)
    store_run(run_folder, run_samples, asked_for(head, run_samples))


def _verify() -> None:
    verified = verify(Path(sys.argv[1]) / "run")
    assert verified.is_sound
    assert verified.reread > _SIZE


if __name__ == "__main__":
    print_cost(_verify)
