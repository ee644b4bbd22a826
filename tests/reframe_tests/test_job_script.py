"""The job of a check whose application is one process, as Slurm gets it: nodes of both roles."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from nimc.base.checkout import ROOT

REFRAME = str(Path(sys.executable).parent / "reframe")


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
    done = subprocess.run(
        [
            *(REFRAME, "-C", f"{ROOT}/configs/minicluster.py"),
            *("--prefix", str(tmp_path), "-n", "^stream_quick$", "--dry-run"),
            *("-c", f"{ROOT}/reframe_tests/stream.py"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NIMC_MINICLUSTER": str(short_folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (script,) = tmp_path.glob("stage/*/*/*/stream_quick/rfm_job.sh")
    asked = {
        line.removeprefix("#SBATCH ")
        for line in script.read_text().splitlines()
        if line.startswith("#SBATCH")
    }
    assert lines <= asked
    # Sites have jobs submitted with --export=NONE, which steps inherit through this variable.
    assert "export SLURM_EXPORT_ENV=ALL\n" in script.read_text()
