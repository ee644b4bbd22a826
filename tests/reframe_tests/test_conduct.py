"""Tests of the modules that conductor and agents import on compute nodes, and of a check's job.

The application of the check is one process. The tests read the job script that Slurm gets: the
script asks for target nodes and for origin nodes.
"""

import os
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from records.block_plan import BlockPlan
from records.checkout import ROOT
from reframe_tests import conduct
from reframe_tests.tools.base import LOCAL_RANK, RANK
from tests.reframe_tests.reframe_call import ran, reframe, succeeded

READERS = """
import sys
from records.block_plan import BlockPlan
from reframe_tests.conduct import readers
import conductor.agent.agent
name, read_by_check = sys.argv[1], sys.argv[2] == "by_check"
block = BlockPlan(
    case="case", workload=name, block=0, seed=0, treatments=[], pairs=1, warmups=0,
    nimc_dir="run", read_by_check=read_by_check,
)
found = readers(block)
files = {module.__file__ for module in list(sys.modules.values()) if hasattr(module, "WORKLOAD")}
print(found.unit, found.better, *sorted(path.rpartition("/")[2] for path in files))
"""


def readers(*words, options=(), path=""):
    environment = {**os.environ, "PYTHONPATH": f"{path}:{ROOT}"}
    return ran(sys.executable, *options, "-c", READERS, *words, env=environment)


def test_outputs_that_the_check_reads_need_the_standard_library_only():
    # The option -S hides site-packages, so each import of another package fails.
    done = readers("stream", "by_check", options=["-S"])
    assert (done.returncode, done.stdout.split()) == (0, ["lower"]), done.stderr
    assert "No module named 'reframe'" in readers("stream", "here", options=["-S"]).stderr


@pytest.mark.slow
def test_only_the_workload_of_the_block_is_imported(tmp_path):
    # Environment modules may put packages into PYTHONPATH. These packages must not replace those of
    # this checkout.
    for package in ("reframe", "pydantic"):
        (tmp_path / f"{package}.py").write_text("raise ImportError('for another Python')\n")
    done = readers("lammps_scaling", "here", path=tmp_path)
    assert done.stdout.split() == ["s", "lower", "lammps.py", "lammps_scaling.py"], done.stderr


def test_variables_of_an_interactive_step_do_not_number_the_ranks(tmp_path, monkeypatch):
    """`srun --mpi=pmix --pty bash` sets PMIX_RANK=0, and hydra's mpiexec sets only PMI_RANK."""
    for name in ("PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID"):
        monkeypatch.setenv(name, "0")
    monkeypatch.delenv("SLURM_LOCALID", raising=False)
    BlockPlan(
        case="c", workload="stream", block=0, seed=0, treatments=[], pairs=1, warmups=0, nimc_dir=""
    ).save(tmp_path / "plan.json")
    numbers = []

    def conducted(*_):
        numbers.append(succeeded(ran("env", "PMI_RANK=3", "sh", "-c", f"echo {RANK} {LOCAL_RANK}")))

    monkeypatch.setattr(conduct.conductor, "main", conducted)
    monkeypatch.setattr(sys, "argv", ["conduct", str(tmp_path / "plan.json")])
    conduct.main()
    assert numbers == ["3 3\n"]


@pytest.fixture
def short_folder():
    """A folder with a short path: a minicluster makes sockets in it, whose paths must be short."""
    with tempfile.TemporaryDirectory(prefix="nimc-") as folder:
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("origins", "lines"),
    [
        # The target and both origins are nodes of one allocation, and each node gets one task.
        (
            {"policy": "same_job", "nodes": 2},
            {"--nodes=3", "--ntasks=3", "--ntasks-per-node=1", "--no-requeue", "--time=0:09:00"},
        ),
        # The origins are nodes of a second component of the job. The options of the first component
        # do not hold for the second component.
        (
            {"policy": "hetjob", "nodes": 2, "partition": "origin"},
            {
                "--ntasks=1",
                "--nodes=1",
                "--no-requeue",
                "--time=0:09:00",
                "hetjob",
                "--nodes=2 --ntasks=2 --ntasks-per-node=1 --no-requeue --exclusive"
                " --partition=origin",
            },
        ),
    ],
    ids=["same_job", "hetjob"],
)
def test_a_job_asks_for_the_nodes_and_tasks_of_both_roles(tmp_path, short_folder, origins, lines):
    (short_folder / "machine.yaml").write_text(yaml.safe_dump({"origins": origins}))
    (tmp_path / "tmp").mkdir()
    variables = {"NIMC_MINICLUSTER": str(short_folder), "TMPDIR": str(tmp_path / "tmp")}
    words = ("minicluster", "stream", "--dry-run", "-Jtime=0:09:00")
    succeeded(reframe(tmp_path, *words, name="stream_quick", **variables))
    # ReFrame's default settings would create a log file there before ReFrame reads its
    # configuration.
    assert not list((tmp_path / "tmp").glob("rfm-*"))
    (script,) = tmp_path.glob("stage/*/*/*/stream_quick/rfm_job.sh")
    text = script.read_text()
    # What users give with -J holds for the targets, which are in the first component.
    assert "time" not in text.partition("hetjob")[2]
    assert lines <= {line.removeprefix("#SBATCH ") for line in text.splitlines() if "#S" in line}
    # Some sites submit jobs with --export=NONE, and steps would inherit this option. The variable
    # prevents this.
    assert "export SLURM_EXPORT_ENV=ALL\n" in text
