"""Tests of the tool perf_stat with real programs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reframe_tests.tools.perf_stat import EVENTS, TOOL
from tests.reframe_tests.reframe_call import run_tool

WHY = TOOL.why_missing()
needs_perf = pytest.mark.skipif(WHY is not None, reason=str(WHY))
MPIEXEC = Path(sys.executable).parent / "mpiexec"
needs_mpi = pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec of the wheel mpich")

#: A program that uses a core for 0.3 s, sleeps 100 times, prints the counts that the kernel has of
#: it, and ends at once. An ordinary end of the interpreter takes long on a busy host, and only perf
#: would count this time.
PROGRAM = """
import json, os, resource, time
while sum(os.times()[:2]) < 0.3:
    pass
for _ in range(100):
    time.sleep(0.001)
own = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "rank": int(os.environ.get("PMI_RANK", 0)),
    "time": own.ru_utime + own.ru_stime,
    "switches": own.ru_nvcsw + own.ru_nivcsw,
    "faults": own.ru_minflt + own.ru_majflt,
}), flush=True)
os._exit(0)
"""
#: The most that perf may count in addition, for a shell and for the end of a process.
MORE_TIME_S, MORE_SWITCHES, MORE_FAULTS = 0.05, 30, 400


def run(folder: Path, *application: str, launcher=(), **variables: str):
    ranks = ("PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
    kept = {name: value for name, value in os.environ.items() if name not in ranks}
    options = {"stdin": subprocess.DEVNULL, "env": kept | variables}
    return run_tool(TOOL, folder, *application, launcher=launcher, **options)


def agree(counts: dict, own: dict) -> None:
    assert own["time"] <= counts["task-clock"].value + 0.02
    assert counts["task-clock"].value <= own["time"] * 1.1 + MORE_TIME_S
    switches = counts["context-switches"]
    if switches.state == "counted":
        assert own["switches"] >= 100
        assert abs(switches.value - own["switches"]) <= MORE_SWITCHES
    assert own["faults"] - 50 <= counts["page-faults"].value <= own["faults"] + MORE_FAULTS


def plain(rows, rank: int) -> dict:
    return {row.event.partition(":")[0]: row for row in rows if row.rank == rank}


@needs_perf
def test_the_status_of_a_failed_application_is_kept(tmp_path):
    assert run(tmp_path, "/nowhere/program").returncode == 127
    # perf itself would end with status 0 here.
    assert run(tmp_path, "sh", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL


@needs_perf
@needs_mpi
def test_the_counts_of_each_rank_agree_with_those_of_the_kernel(tmp_path):
    # Rank 1 sleeps 100 times more than rank 0.
    more = PROGRAM.replace("range(100)", "range(100 + 100 * int(os.environ['PMI_RANK']))")
    done = run(tmp_path, sys.executable, "-c", more, launcher=(str(MPIEXEC), "-n", "2"))
    assert done.returncode == 0, done.stderr
    accounts = {own["rank"]: own for own in map(json.loads, done.stdout.splitlines())}
    assert set(accounts) == {0, 1}
    rows = TOOL.parse(tmp_path, 2)
    assert len(rows) >= 2 * len(EVENTS)
    for rank, own in accounts.items():
        agree(plain(rows, rank), own)
