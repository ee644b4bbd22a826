"""What a conductor stores. If it is killed, the stored chain of records is still valid.

In the chain, each sample has the hash of the sample before it.
"""

import dataclasses
import gzip
import hashlib
import json
import os
import random
import resource
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from conductor.block.store import Store
from records import chain
from tests.conductor.made_sample import SAMPLE


def test_pairs_of_all_blocks_and_outcomes_are_counted(tmp_path):
    store = Store(tmp_path, "stream")
    assert store.count_pairs() == 0
    store.append(dataclasses.replace(SAMPLE, pair=-1, warmup=True))
    for block, pair, arm in ((0, 0, "off"), (0, 0, "on"), (0, 1, "on"), (3, 0, "off")):
        store.append(dataclasses.replace(SAMPLE, block=block, pair=pair, arm=arm))
    store.append(dataclasses.replace(SAMPLE, block=3, pair=1, outcome="rejected", reason="x"))
    (tmp_path / "samples" / "lammps.jsonl").write_text("{}\n")
    with (tmp_path / "samples" / "stream.jsonl").open("ab") as file:
        file.write(b"\0" * 40 + b"\n{}\n[]\n")  # after a power failure
    assert store.count_pairs() == 4
    # Samples whose outputs the ReFrame check has not read yet are not counted.
    unread = Store(tmp_path, "stream", tmp_path / "unread.jsonl")
    assert unread.count_pairs() == 4
    unread.append(dataclasses.replace(SAMPLE, block=5))
    assert unread.count_pairs() == 4


@contextmanager
def full_after(size_b):
    """Lets no file become larger than `size_b`, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_b, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_sample_that_does_not_fit_on_the_disk_does_not_damage_earlier_ones(tmp_path):
    store = Store(tmp_path, "stream")
    store.append(SAMPLE)
    path = tmp_path / "samples" / "stream.jsonl"
    with full_after(path.stat().st_size + 100), pytest.raises(OSError, match="No space"):
        store.append(SAMPLE)
    assert [json.loads(line)["pair"] for line in path.read_text().splitlines()] == [0]


def test_provenance_is_named_by_the_sha256_of_its_text_or_leaves_no_file(tmp_path):
    store = Store(tmp_path, "stream")
    with full_after(100), pytest.raises(OSError, match="too large"):
        store.keep_provenance({"text": 200 * "x"})
    assert list((tmp_path / "provenance").iterdir()) == []
    name = store.keep_provenance({"b": 1, "a": [2]})
    text = (tmp_path / "provenance" / f"{name}.json").read_text()
    assert hashlib.sha256(text.encode()).hexdigest() == name
    assert json.loads(text) == {"a": [2], "b": 1}


KILLS = 20
#: A process is killed at most `_MAX_DELAY_S` seconds after it has stored at most this many samples.
_MAX_SAMPLES, _MAX_DELAY_S = 3, 0.002


def write_until_killed(run: Path, block: int) -> None:
    """Start a process that appends samples with counts and outputs without a pause; kill it."""
    ready, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _write(run, block, writes)
        finally:
            os._exit(1)
    os.close(writes)
    for _ in range(random.randint(0, _MAX_SAMPLES)):
        assert os.read(ready, 1)
    time.sleep(random.uniform(0.0, _MAX_DELAY_S))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)


def _write(run: Path, block: int, progress: int) -> None:
    store, logs = Store(run, "stream"), run / f"logs/stream/{block}"
    logs.mkdir(parents=True)
    for pair in range(100_000):
        key = f"stream/{block}/{pair}/off/0"
        output = logs / f"{pair}-off-0.out"
        output.write_text(f"Triad {pair}\n")
        sample = dataclasses.replace(SAMPLE, key=key, block=block, pair=pair)
        store.append(sample, [{"key": key, "value": pair}], [output])
        os.write(progress, b".")


def whole_lines(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def test_kills_leave_a_valid_chain(tmp_path: Path) -> None:
    """Each sample follows the one before it, and the counts and outputs that it names exist."""
    samples, blocks = tmp_path / "samples/stream.jsonl", set()
    for block in range(KILLS):
        write_until_killed(tmp_path, block)
    assert chain.walk_run(tmp_path).file_chains[samples].broken_lines == ()
    rows = {json.loads(row)["key"]: row for row in whole_lines(tmp_path / "counters/stream.jsonl")}
    for sample in map(json.loads, whole_lines(samples)):
        blocks.add(sample["block"])
        assert sample["counters_sha256"] == hashlib.sha256(rows[sample["key"]]).hexdigest()
        for name, sha256 in sample["logs"].items():
            text = gzip.decompress((tmp_path / f"{name}.gz").read_bytes())
            assert hashlib.sha256(text).hexdigest() == sha256
    assert len(blocks) > KILLS / 4


def test_a_last_line_that_was_cut_off_at_any_byte_is_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path, "stream")
    for pair in range(2):
        store.append(dataclasses.replace(SAMPLE, pair=pair))
    path = tmp_path / "samples/stream.jsonl"
    text = path.read_bytes()
    first = text.index(b"\n") + 1
    for length in (*range(first, len(text), 37), len(text) - 1):
        path.write_bytes(text[:length])
        Store(tmp_path, "stream").append(dataclasses.replace(SAMPLE, pair=1))
        assert path.read_bytes() == text


def test_a_last_line_without_its_newline_does_not_count_as_a_run(tmp_path: Path) -> None:
    """The process that reads the outputs of this case later will remove this line."""
    store = Store(tmp_path, "stream")
    for pair in range(2):
        store.append(dataclasses.replace(SAMPLE, key=f"stream/0/{pair}/off/0", pair=pair))
    path = tmp_path / "samples/stream.jsonl"
    path.write_bytes(path.read_bytes()[:-1])
    unread = Store(tmp_path, "stream", tmp_path / "unread.jsonl")
    assert (unread.count_pairs(), unread.keys()) == (1, {"stream/0/0/off/0"})
