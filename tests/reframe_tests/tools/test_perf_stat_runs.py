"""perf stat around real programs; a fake perf where only the command line matters."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reframe_tests.tools.base import FOLDER
from reframe_tests.tools.perf_stat import EVENTS, TOOL
from tests.reframe_tests.command import run_tool, script

WHY = TOOL.missing()
needs_perf = pytest.mark.skipif(WHY is not None, reason=str(WHY))
MPIEXEC = Path(sys.executable).parent / "mpiexec"
needs_mpi = pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec of the wheel mpich")

#: Uses a core for 0.3 s, sleeps 100 times, says what the kernel counted of it, and ends at
#: once: the interpreter's own end would be counted by perf only, and is long on a busy host.
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
APPLICATION = (sys.executable, "-c", PROGRAM)
#: Of a shell, and of the end of a process.
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
def test_counts_agree_with_the_kernels_own_account(tmp_path):
    done = run(tmp_path, *APPLICATION)
    assert done.returncode == 0
    rows = TOOL.parse(tmp_path, 1)
    assert len(rows) >= len(EVENTS)
    agree(plain(rows, 0), json.loads(done.stdout))


@needs_perf
@needs_mpi
def test_two_ranks_have_counts_of_their_own(tmp_path):
    # Rank 1 sleeps 100 times more.
    more = PROGRAM.replace("range(100)", "range(100 + 100 * int(os.environ['PMI_RANK']))")
    done = run(tmp_path, sys.executable, "-c", more, launcher=(str(MPIEXEC), "-n", "2"))
    assert done.returncode == 0, done.stderr
    said = {own["rank"]: own for own in map(json.loads, done.stdout.splitlines())}
    assert set(said) == {0, 1}
    rows = TOOL.parse(tmp_path, 2)
    for rank, own in said.items():
        agree(plain(rows, rank), own)


@needs_perf
@pytest.mark.parametrize(("end", "status"), [("exit 3", 3), ("kill -9 $$", 128 + signal.SIGKILL)])
def test_the_status_of_the_application_survives(tmp_path, end, status):
    # perf itself ends with 0 where a signal ended the application.
    assert run(tmp_path, "sh", "-c", end).returncode == status


@needs_perf
def test_a_program_that_is_not_there_fails(tmp_path):
    assert run(tmp_path, "/nowhere/program").returncode == 127


AWKWARD = ("two words", "it's", '"quoted"', "$HOME `id` \\n *", "", "--", "-e", "a\nb")
SHOW = "import json, sys; print(json.dumps(sys.argv[1:]))"


@needs_perf
def test_arguments_arrive_unchanged_and_the_output_is_the_applications_alone(tmp_path):
    folder = tmp_path / "a folder's $name"
    folder.mkdir()
    done = run(folder, sys.executable, "-c", SHOW, *AWKWARD)
    assert done.stdout == json.dumps(list(AWKWARD)) + "\n"
    assert done.stderr == ""
    assert TOOL.parse(folder, 1)


def test_the_launcher_comes_first_and_the_application_last():
    command = TOOL.wrap(["srun", "--comment=a b"], ["app", "-x"])
    assert command[:2] == ["srun", "--comment=a b"]
    assert command[-2:] == ["app", "-x"]
    assert command.count(FOLDER) == 1


#: Stands in for perf: notes its locale and file, then runs what it is given.
FAKE = '#!/bin/sh\necho "$LC_ALL $4" > "$NOTE"\nwhile [ "$1" != -- ]; do shift; done\nshift\n"$@"\n'


@pytest.fixture
def fake(tmp_path):
    program = script(tmp_path / "bin" / "perf", FAKE)
    return {"PATH": f"{program.parent}:/usr/bin:/bin", "NOTE": str(tmp_path / "note")}


@pytest.mark.parametrize("locale", ["de_DE.UTF-8", None])
def test_perf_has_decimal_points_and_the_application_its_own_locale(tmp_path, fake, locale):
    done = run(tmp_path, "sh", "-c", 'echo "${LC_ALL-unset}"', **fake, LC_ALL=locale or "")
    assert done.stdout.strip() == (locale or "unset")
    assert Path(fake["NOTE"]).read_text().startswith("C ")


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({}, 0),
        ({"SLURM_PROCID": "5"}, 5),
        ({"OMPI_COMM_WORLD_RANK": "12"}, 12),
        ({"PMI_RANK": "3", "SLURM_PROCID": "0"}, 3),
        ({"PMIX_RANK": "7", "SLURM_PROCID": "0"}, 7),
    ],
)
def test_the_rank_is_found_whoever_starts_it(tmp_path, fake, variables, rank):
    assert run(tmp_path, "true", **fake, **variables).returncode == 0
    assert Path(fake["NOTE"]).read_text().split()[1] == f"{tmp_path}/rank-{rank}.json"
