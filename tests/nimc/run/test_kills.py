"""No sample is lost or doubled by a stop at any moment, of a check of this project or of others.

`survive` stops nimc, ReFrame or a conductor again and again, at moments that its seed draws, and
resumes what it stopped. Both checks run for real, without writers: these take longer to start.
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
#: The longest until a stop, and until all that a stop leaves has ended, seconds.
LATER_S, ENDS_S = 20.0, 60.0
SIGNALS = signal.SIGTERM, signal.SIGKILL


def keys(run: Path) -> Counter[str]:
    """Keys of all samples, and of those that a check has yet to read; half a line is none."""
    files = [*run.glob("samples/*.jsonl"), *run.glob(f"logs/*/*/{UNREAD_FILE}")]
    counted = Counter[str]()
    for file in files:
        whole, _, _ = file.read_bytes().rpartition(b"\n")
        counted.update(f"{run.name} {json.loads(line)['key']}" for line in whole.splitlines())
    return counted


def runs_in(results: Path) -> list[Path]:
    return [path for path in results.glob("kills-*") if (path / "run.json").exists()]


def keys_in(results: Path) -> Counter[str]:
    """The same of all runs in a folder."""
    return sum((keys(run) for run in runs_in(results)), Counter[str]())


def below(results: Path) -> list[Process]:
    """Processes that the runs in a folder have started."""
    return read_processes(pid for run in runs_in(results) for pid in processes_of(run))


def start(folder: Path) -> subprocess.Popen[str]:
    words = [*NIMC_COMMAND, "run", "kills.yaml", "--machine", "localhost", "--results", "results"]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, cwd=folder, stdout=pipe, stderr=pipe, text=True)


def stop(folder: Path, rng: random.Random) -> str:
    """Start or resume the campaign and stop a part of it; what was done to whom, as a line."""
    results = folder / "results"
    name, signum = rng.choice(["nimc", "reframe", "conductor"]), rng.choice(SIGNALS)
    nimc = start(folder)
    while nimc.poll() is None and not with_role("reframe", below(results)):
        time.sleep(0.1)
    after_s = rng.uniform(0.0, LATER_S)
    time.sleep(after_s)
    if name == "nimc":
        nimc.send_signal(signum)
    for process in with_role(name, below(results)):
        with suppress(ProcessLookupError):
            os.kill(process.pid, signum)
    if rng.random() < 0.5:  # else it goes on with the next block or case
        nimc.terminate()
    _, err = nimc.communicate(timeout=300)
    await_end(results)
    last = err.splitlines()[-1:]
    return f"{signum.name} to {name} after {after_s:.1f} s: {nimc.returncode}: {last}"


def await_end(results: Path) -> None:
    """Wait until nothing that a run has started is left."""
    until_s = time.monotonic() + ENDS_S
    while below(results):
        assert time.monotonic() < until_s, below(results)
        time.sleep(0.1)


def survive(folder: Path, stops: int, seed: int) -> list[str]:
    """Stop a campaign so often; a new one begins when one is complete. What was done, as lines."""
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
        assert_whole(run, before)
    return done


def assert_whole(run: Path, before: Counter[str]) -> None:
    samples: list[dict[str, Any]] = [
        json.loads(line)
        for file in run.glob("samples/*.jsonl")
        for line in file.read_text().splitlines()
    ]
    names = Counter(sample["key"] for sample in samples)
    assert set(names.values()) == {1}
    assert {key for key in before if key.startswith(f"{run.name} ")} <= set(keys(run))
    # Every output was there when the check read it.
    assert [sample["key"] for sample in samples if sample["fom"] is None] == []
    assert {sample["fom"] for sample in samples if sample["case"] == "theirs"} == {0.0025}
    assert not list(run.glob(f"logs/*/*/{UNREAD_FILE}"))
    assert [finding.text for finding in verify(run).findings if finding.kind != "unproven"] == []


@pytest.mark.long
def test_nothing_is_lost_or_doubled(tmp_path):
    assert len(survive(tmp_path, stops=6, seed=62)) == 6
