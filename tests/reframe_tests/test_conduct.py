"""What conductor and agents import on compute nodes.

The job of a check whose application is one process, as Slurm gets it: nodes of both roles.

The page of workloads is what their records say.
"""

import os
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from records.checkout import ROOT
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
    # -S leaves site-packages out, so that any other import fails.
    done = readers("stream", "by_check", options=["-S"])
    assert (done.returncode, done.stdout.split()) == (0, ["lower"]), done.stderr
    assert "No module named 'reframe'" in readers("stream", "here", options=["-S"]).stderr


def test_the_blocks_own_workload_is_imported_and_no_other(tmp_path):
    # Packages that modules put into PYTHONPATH do not replace our own.
    for package in ("reframe", "pydantic"):
        (tmp_path / f"{package}.py").write_text("raise ImportError('for another Python')\n")
    done = readers("lammps_scaling", "here", path=tmp_path)
    assert done.stdout.split() == ["s", "lower", "lammps.py", "lammps_scaling.py"], done.stderr


@pytest.fixture
def short_folder():
    """Paths of a minicluster's state are short, since sockets are made in it."""
    with tempfile.TemporaryDirectory(prefix="nimc-") as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("origins", "lines"),
    [
        # One target and, of the same allocation, two origins, with a task on each.
        (
            {"policy": "same_job", "nodes": 2},
            {"--nodes=3", "--ntasks=3", "--ntasks-per-node=1", "--no-requeue"},
        ),
        # Origins as nodes of their own: what the first component asks for does not hold for them.
        (
            {"policy": "hetjob", "nodes": 2, "partition": "origin"},
            {
                "--ntasks=1",
                "--nodes=1",
                "--no-requeue",
                "hetjob",
                "--nodes=2 --ntasks=2 --ntasks-per-node=1 --no-requeue --exclusive"
                " --partition=origin",
            },
        ),
    ],
    ids=["same_job", "hetjob"],
)
def test_nodes_and_tasks(tmp_path, short_folder, origins, lines):
    (short_folder / "machine.yaml").write_text(yaml.safe_dump({"origins": origins}))
    (tmp_path / "tmp").mkdir()
    variables = {"NIMC_MINICLUSTER": str(short_folder), "TMPDIR": str(tmp_path / "tmp")}
    words = ("minicluster", "stream", "--dry-run")
    succeeded(reframe(tmp_path, *words, name="stream_quick", **variables))
    # ReFrame's own default logs to a new file there before it reads the configuration.
    assert not list((tmp_path / "tmp").glob("rfm-*"))
    (script,) = tmp_path.glob("stage/*/*/*/stream_quick/rfm_job.sh")
    text = script.read_text()
    assert lines <= {line.removeprefix("#SBATCH ") for line in text.splitlines() if "#S" in line}
    # Sites have jobs submitted with --export=NONE, which steps inherit through this variable.
    assert "export SLURM_EXPORT_ENV=ALL\n" in text
