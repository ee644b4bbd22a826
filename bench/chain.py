"""Measures two costs of 10,000 samples: to chain them and keep their outputs, and to verify them.

The first is measured with 500 samples. `run` starts `python -m bench.chain FOLDER`, which only
verifies the run in FOLDER/run.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from bench import BenchRow, cost_in_own_process, cost_of, print_cost, row_with_upper_limit
from conductor.block.store import Store
from nimc.run.verify import verify
from tests.analysis.integrity.outputs import output_of
from tests.analysis.synthetic import STREAM, header, header_suited_to, samples
from tests.nimc.stored import counter_rows, store_run, with_figures

#: Number of samples that are verified.
_SAMPLE_COUNT = 10_000
#: Aim: largest time of verifying them, seconds.
_MAX_VERIFY_S = 5.0
#: Length of the shortest run, seconds. A writer reports once a second, and the conductor makes runs
#: longer until they have two such reports (`conductor.judge.length`).
_SHORTEST_RUN_S = 2.0
#: Aim: largest share of a run's time that the chain may add.
_MAX_SHARE = 0.01
#: Number of samples that are stored twice, with the chain and without it, in turn.
_STORED_COUNT = 500
#: Number of treatments of the synthetic runs: the baseline, and those that are paired with it.
_TREATMENT_COUNT = 1 + len(STREAM.effects)


def run() -> list[BenchRow]:
    """Measure what the chain adds to storing samples, and what verifying takes."""
    with tempfile.TemporaryDirectory() as folder:
        chained_s, unchained_s = _storing_s(Path(folder))
        write_run(Path(folder) / "run", _SAMPLE_COUNT)
        verify_cost = cost_in_own_process("chain", folder)
    max_added_s = _MAX_SHARE * _SAMPLE_COUNT * _SHORTEST_RUN_S
    name = f"time to chain {_SAMPLE_COUNT:,} samples, and to digest and keep their outputs"
    return [
        row_with_upper_limit(name, (chained_s - unchained_s) * _SAMPLE_COUNT, "s", max_added_s),
        row_with_upper_limit(
            f"nimc verify, {_SAMPLE_COUNT:,} samples", verify_cost.wall_s, "s", _MAX_VERIFY_S
        ),
        BenchRow("its peak memory", verify_cost.memory_b / 2**20, "MiB"),
    ]


def _storing_s(folder: Path) -> tuple[float, float]:
    """Return the time to store a sample as a conductor does, and the time to append only JSON.

    The JSON is that of the sample and of its counters. Both are means over samples, seconds.
    """
    pairs = _STORED_COUNT // _TREATMENT_COUNT
    synthetic_samples = [with_figures(sample) for sample in samples(STREAM, pairs=pairs)]
    logs = folder / "with/logs/stream/0"
    logs.mkdir(parents=True)
    store = Store(folder / "with", STREAM.name)
    chained_s = unchained_s = 0.0
    for number, sample in enumerate(synthetic_samples):
        output = logs / f"{number}.out"
        output.write_text(output_of(sample.as_dict()))
        chained_s += cost_of(partial(store.append, sample, counter_rows(sample), [output])).wall_s
        records_of_files = counter_rows(sample), [sample.as_dict()]
        unchained_s += cost_of(partial(_append, folder, records_of_files)).wall_s
    return chained_s / len(synthetic_samples), unchained_s / len(synthetic_samples)


def _append(folder: Path, records_of_files: Iterable[list[dict[str, Any]]]) -> None:
    """Append each list of records to a file of its own. They are on disk when this returns."""
    for number, records in enumerate(records_of_files):
        lines = (json.dumps(record, separators=(",", ":"), allow_nan=False) for record in records)
        with (folder / f"plain-{number}.jsonl").open("ab", buffering=0) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
            os.fsync(file.fileno())


def write_run(run_folder: Path, size: int) -> None:
    """Write a run of about `size` samples, each with counters and an output."""
    pairs = size // _TREATMENT_COUNT
    run_samples = samples(STREAM, pairs=pairs)
    run_header = header(pairs_cap=pairs, run=run_folder.name)
    store_run(run_folder, run_samples, header_suited_to(run_samples, run_header))


def _verify() -> None:
    verified = verify(Path(sys.argv[1]) / "run")
    assert verified.is_sound
    # The number is larger, since the outputs of warm-up runs are re-read too.
    assert verified.reread > _SAMPLE_COUNT


if __name__ == "__main__":
    print_cost(_verify)
