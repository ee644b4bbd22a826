"""No sample is lost or stored twice if a campaign is stopped at any moment.

`survive` stops nimc, ReFrame or a conductor again and again, at random times, and resumes the
campaign. The campaign has a check of this project and a third-party check, which run for real.
There are no writers, since they would take longer to start.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nimc.run.session import NIMC_COMMAND, processes_of
from nimc.run.verify import verify
from records.block_plan import UNREAD_FILE
from tests.faults.host import Process, read_processes, with_role
from tests.undisturbed import VERIFY

THEIRS = Path(__file__).with_name("timed_by_others.py")
CAMPAIGN = f"""\
name: kills
workloads:
  - {{check: {THEIRS.name}:theirs, set: {{num_tasks: 1, warmups: 0}}, expect: 1s}}
  - {{check: stream, set: {{iterations: 10, array_most: 1MiB, warmups: 0}}, expect: 1s}}
arms: [off, aa]
pairs: {{floor: 12, cap: 12}}
verify: {{{VERIFY}}}
"""
#: Longest time until a stop, and from a stop until all processes have ended, seconds.
LATER_S, ENDS_S = 20.0, 60.0
SIGNALS = signal.SIGTERM, signal.SIGKILL


def keys(run: Path) -> Counter[str]:
    """Return the keys of all samples of a run, also of those whose outputs are not read yet.

    Incomplete lines are ignored.
    """
    files = [*run.glob("samples/*.jsonl"), *run.glob(f"logs/*/*/{UNREAD_FILE}")]
    counted = Counter[str]()
    for file in files:
        whole, _, _ = file.read_bytes().rpartition(b"\n")
        counted.update(f"{run.name} {json.loads(line)['key']}" for line in whole.splitlines())
    return counted


def runs_in(results: Path) -> list[Path]:
    return [path for path in results.glob("kills-*") if (path / "run.json").exists()]


def keys_in(results: Path) -> Counter[str]:
    """Return the keys of the samples of all runs in a folder."""
    return sum((keys(run) for run in runs_in(results)), Counter[str]())


def processes_in(results: Path) -> list[Process]:
    """Return the processes that the runs in a folder have started."""
    return read_processes(pid for run in runs_in(results) for pid in processes_of(run))


def start(folder: Path) -> subprocess.Popen[str]:
    words = [*NIMC_COMMAND, "run", "kills.yaml", "--machine", "localhost", "--results", "results"]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, cwd=folder, stdout=pipe, stderr=pipe, text=True)


def stop(folder: Path, rng: random.Random) -> str:
    """Start or resume the campaign and stop a part of it; return a line on what was done."""
    results = folder / "results"
    name, signum = rng.choice(["nimc", "reframe", "conductor"]), rng.choice(SIGNALS)
    nimc = start(folder)
    while nimc.poll() is None and not with_role("reframe", processes_in(results)):
        time.sleep(0.1)
    after_s = rng.uniform(0.0, LATER_S)
    time.sleep(after_s)
    if name == "nimc":
        nimc.send_signal(signum)
    for process in with_role(name, processes_in(results)):
        with suppress(ProcessLookupError):
            os.kill(process.pid, signum)
    if rng.random() < 0.5:  # otherwise nimc continues with the next block or case
        nimc.terminate()
    _, err = nimc.communicate(timeout=300)
    await_end(results)
    last = err.splitlines()[-1:]
    return f"{signum.name} to {name} after {after_s:.1f} s: {nimc.returncode}: {last}"


def await_end(results: Path) -> None:
    """Wait until all processes that a run has started have ended."""
    until_s = time.monotonic() + ENDS_S
    while processes_in(results):
        assert time.monotonic() < until_s, processes_in(results)
        time.sleep(0.1)


def survive(folder: Path, stops: int, seed: int) -> list[str]:
    """Stop a campaign `stops` times; return a line on each stop.

    If a run is complete, the next start begins a new run.
    """
    rng, done, before = random.Random(seed), [], Counter[str]()
    (folder / "kills.yaml").write_text(CAMPAIGN)
    shutil.copy(THEIRS, folder)
    results = folder / "results"
    for number in range(stops):
        line = stop(folder, rng)
        now = keys_in(results)
        assert before - now == Counter(), f"lost after {line}"
        done.append(f"{number}: {line}: {now.total()} samples")
        before = Counter(dict.fromkeys(now, 1))
    last = start(folder)
    _, err = last.communicate(timeout=600)
    assert last.returncode == 0, err
    for run in runs_in(results):
        assert_complete(run, before)
    return done


def assert_complete(run: Path, before: Counter[str]) -> None:
    """Assert that a run is sound, and has each of the samples `before` exactly once."""
    samples: list[dict[str, Any]] = [
        json.loads(line)
        for file in run.glob("samples/*.jsonl")
        for line in file.read_text().splitlines()
    ]
    names = Counter(sample["key"] for sample in samples)
    assert set(names.values()) == {1}
    assert {key for key in before if key.startswith(f"{run.name} ")} <= set(keys(run))
    # The check could read every output.
    assert [sample["key"] for sample in samples if sample["fom"] is None] == []
    assert {sample["fom"] for sample in samples if sample["case"] == "theirs"} == {0.0025}
    assert not list(run.glob(f"logs/*/*/{UNREAD_FILE}"))
    assert [finding.text for finding in verify(run).findings if finding.kind != "unproven"] == []


@pytest.mark.long
def test_no_sample_is_lost_or_stored_twice(tmp_path):
    assert len(survive(tmp_path, stops=6, seed=62)) == 6
