"""A conductor that is killed leaves a chain that holds, and the next one goes on with it."""

import dataclasses
import gzip
import hashlib
import json
import os
import random
import signal
import time
from pathlib import Path

from nimc.node.conductor import Store
from nimc.records import chain
from tests.nimc.node.test_store import SAMPLE

KILLS = 200
#: Samples after which a process is killed at most, and how much later, seconds.
_MOST, _MOST_S = 3, 0.002


def write_until_killed(run: Path, block: int) -> None:
    """Append samples with counts and outputs as fast as possible, as another process."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _write(run, block, told)
        finally:
            os._exit(1)
    os.close(told)
    for _ in range(random.randint(0, _MOST)):
        assert os.read(ready, 1)
    time.sleep(random.uniform(0.0, _MOST_S))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)


def _write(run: Path, block: int, told: int) -> None:
    store, logs = Store(run, "stream"), run / f"logs/stream/{block}"
    logs.mkdir(parents=True)
    for pair in range(100_000):
        key = f"stream/{block}/{pair}/off/0"
        output = logs / f"{pair}-off-0.out"
        output.write_text(f"Triad {pair}\n")
        sample = dataclasses.replace(SAMPLE, key=key, block=block, pair=pair)
        store.append(sample, [{"key": key, "value": pair}], [output])
        os.write(told, b".")


def require_whole(run: Path) -> int:
    """Samples, each of which follows from the one before, and has what it names."""
    counters = run / "counters/stream.jsonl"
    rows = counters.read_bytes().splitlines(keepends=True) if counters.exists() else []
    counted = {json.loads(row)["key"]: row for row in rows if row.endswith(b"\n")}
    value, lines = hashlib.sha256(b"stream").hexdigest(), 0
    path = run / "samples/stream.jsonl"
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        if not line.endswith(b"\n"):
            continue
        content, _, end = line.rpartition(b',"chain":')
        value = hashlib.sha256(value.encode() + content).hexdigest()
        assert end == f'"{value}"}}\n'.encode()
        sample = json.loads(line)
        row = counted[sample["key"]]
        assert sample["counters_sha256"] == hashlib.sha256(row).hexdigest()
        for name, sha256 in sample["logs"].items():
            text = gzip.decompress((run / f"{name}.gz").read_bytes())
            assert hashlib.sha256(text).hexdigest() == sha256
        lines += 1
    return lines


def test_two_hundred_kills_leave_a_chain_that_holds(tmp_path: Path) -> None:
    before = 0
    for block in range(KILLS):
        write_until_killed(tmp_path, block)
        if block % 20 == 19:
            found = require_whole(tmp_path)
            assert found >= before
            before = found
    assert before > KILLS / 4
    assert chain.walk_run(tmp_path).cases[tmp_path / "samples/stream.jsonl"].broken == ()


def test_a_last_line_that_was_cut_anywhere_is_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path, "stream")
    for pair in range(2):
        store.append(dataclasses.replace(SAMPLE, pair=pair))
    path = tmp_path / "samples/stream.jsonl"
    text = path.read_bytes()
    first = text.index(b"\n") + 1
    for length in range(first, len(text)):
        path.write_bytes(text[:length])
        Store(tmp_path, "stream").append(dataclasses.replace(SAMPLE, pair=1))
        assert path.read_bytes() == text
