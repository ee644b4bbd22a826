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

from bench import BenchRow, cost_of, in_own_process, print_cost, row_below
from conductor.block.store import Store
from nimc.run.verify import verify
from tests.analysis.integrity.outputs import output_of
from tests.analysis.synthetic import STREAM, asked_for, header, samples
from tests.nimc.stored import rows_of, store_run, with_figures

#: Number of samples.
_SIZE = 10_000
#: Largest time of verifying them.
_MAX_VERIFY_S = 5.0
#: Length of the shortest run: the conductor makes runs longer until two rows of a second fit in
#: (`conductor.judge.length`).
_SHORTEST_RUN_S = 2.0
#: Largest share of a run's time that the chain may add.
_MAX_SHARE = 0.01
#: Samples that are stored by turns with and without the chain.
_STORED = 500


def run() -> list[BenchRow]:
    """Measure what the chain adds to storing samples, and what verifying takes."""
    with tempfile.TemporaryDirectory() as folder:
        with_s, without_s = _storing_s(Path(folder))
        make(Path(folder) / "run", _SIZE)
        verified = in_own_process("chain", folder)
    most_s = _MAX_SHARE * _SIZE * _SHORTEST_RUN_S
    name = f"what chain, digests and kept outputs add to {_SIZE:,} samples"
    return [
        row_below(name, (with_s - without_s) * _SIZE, "s", most_s),
        row_below(f"nimc verify, {_SIZE:,} samples", verified.wall_s, "s", _MAX_VERIFY_S),
        BenchRow("its peak memory", verified.memory_b / 2**20, "MiB"),
    ]


def _storing_s(folder: Path) -> tuple[float, float]:
    """Return the time to store a sample as a conductor does, and to append only its lines."""
    stored = [with_figures(sample) for sample in samples(STREAM, pairs=_STORED // 4)]
    logs = folder / "with/logs/stream/0"
    logs.mkdir(parents=True)
    store = Store(folder / "with", STREAM.name)
    with_s = without_s = 0.0
    for number, sample in enumerate(stored):
        output = logs / f"{number}.out"
        output.write_text(output_of(sample.as_dict()))
        with_s += cost_of(partial(store.append, sample, rows_of(sample), [output])).wall_s
        without_s += cost_of(partial(_append, folder, rows_of(sample), [sample.as_dict()])).wall_s
    return with_s / len(stored), without_s / len(stored)


def _append(folder: Path, *files: list[dict[str, Any]]) -> None:
    """Append the records of each file to it; they are on disk when this returns."""
    for number, records in enumerate(files):
        lines = (json.dumps(record, separators=(",", ":"), allow_nan=False) for record in records)
        with (folder / f"plain-{number}.jsonl").open("ab", buffering=0) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
            os.fsync(file.fileno())


def make(run_folder: Path, size: int) -> None:
    """Write a run of about `size` samples, each with two counts and an output."""
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
