"""Ranks reach the launch line of the application, however the layout is asked for."""

import json
import os
import subprocess
import sys
from pathlib import Path

from reframe_tests.machine import ROOT

#: Check -> ranks of its launch line when laid out on 6 cores, with 3 threads a rank of XSBench.
RANKS = {"hpccg": 6, "xsbench": 2}


def test_launcher_starts_as_many_ranks_as_the_check_lays_out(tmp_path):
    reframe = [str(Path(sys.executable).parent / "reframe"), "-C", f"{ROOT}/configs/localhost.py"]
    options = ["--prefix", str(tmp_path), "-p", "wheels", "--dry-run"]
    options += [
        "-n",
        "^(hpccg|xsbench)_quick$",
        "-S",
        "layout_cores=6",
        "-S",
        "xsbench_quick.threads=3",
    ]
    for check in RANKS:
        options += ["-c", f"{ROOT}/reframe_tests/{check}.py"]
    done = subprocess.run(
        [*reframe, *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for check, ranks in RANKS.items():
        (path,) = tmp_path.glob(f"stage/*/*/*/{check}_quick/plan.json")
        plan = json.loads(path.read_text())
        assert plan["command"][:3] == ["mpiexec", "-n", str(ranks)]
        if (os.cpu_count() or 1) < 6:
            assert any("laid out on 6 cores, of which" in note for note in plan["notes"])


def test_one_host_is_not_taken_for_several_nodes(tmp_path):
    reframe = [str(Path(sys.executable).parent / "reframe"), "-C", f"{ROOT}/configs/localhost.py"]
    options = ["--prefix", str(tmp_path), "-p", "wheels", "--dry-run", "-n", "^lammps_scaling$"]
    options += ["-c", f"{ROOT}/reframe_tests/lammps_scaling.py", "-S", "lammps_scaling.nodes=4"]
    done = subprocess.run(
        [*reframe, *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert "lammps_scaling.nodes: 4 found; origins and target of localhost share one host" in (
        " ".join(done.stdout.split())
    )
