"""Ranks reach the launch line of the application, however the layout is asked for."""

import json
import os
import subprocess
import sys
from pathlib import Path

from nimc.base.checkout import ROOT, commit
from nimc.machine.host import detect

#: Check -> ranks of its launch line when laid out on 6 cores, with 3 threads a rank of XSBench.
RANKS = {"hpccg": 6, "xsbench": 2}


def dry_run(tmp_path, checks, name, settings):
    reframe = [str(Path(sys.executable).parent / "reframe"), "-C", f"{ROOT}/configs/localhost.py"]
    options = ["--prefix", str(tmp_path), "-p", "wheels", "--dry-run", "-n", name, *settings]
    for check in checks:
        options += ["-c", f"{ROOT}/reframe_tests/{check}.py"]
    return subprocess.run(
        [*reframe, *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_launcher_starts_as_many_ranks_as_the_check_lays_out(tmp_path):
    settings = ["-S", "layout_cores=6", "-S", "xsbench_quick.threads=3"]
    done = dry_run(tmp_path, [*RANKS], "^(hpccg|xsbench)_quick$", settings)
    assert done.returncode == 0, done.stdout + done.stderr
    for check, ranks in RANKS.items():
        (path,) = tmp_path.glob(f"stage/*/*/*/{check}_quick/plan.json")
        plan = json.loads(path.read_text())
        treatment = plan["treatments"][0]
        assert treatment["start"]["command"][:3] == ["mpiexec", "-n", str(ranks)]
        assert plan["provenance"]["commit"] == commit()
        if (os.cpu_count() or 1) < 6:
            assert any("laid out on 6 cores, but has only" in note for note in treatment["notes"])


def test_each_execution_draws_a_seed_unless_one_is_given(tmp_path):
    seeds = []
    for turn, settings in enumerate([[], [], ["-S", "hpccg.seed=9"]]):
        folder = tmp_path / str(turn)
        folder.mkdir()
        done = dry_run(folder, ["hpccg"], "^hpccg$", settings)
        assert done.returncode == 0, done.stdout + done.stderr
        (path,) = folder.glob("stage/*/*/*/hpccg/plan.json")
        plan = json.loads(path.read_text())
        assert plan["provenance"]["seed"] == plan["seed"]
        seeds.append(plan["seed"])
    assert seeds[0] != seeds[1]
    assert seeds[2] == 9
    assert all(0 <= seed < 2**63 for seed in seeds)


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


def test_hpccg_takes_no_more_memory_than_the_machine_allows(tmp_path):
    # The file of localhost is silent: half of the memory, 400 bytes a point.
    done = dry_run(tmp_path, ["hpccg"], "^hpccg$", ["-S", "hpccg.memory_share=0.9"])
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("stage/*/*/*/hpccg/plan.json")
    plan = json.loads(path.read_text())
    memory_b = detect().memory_b
    treatment = plan["treatments"][0]
    command = treatment["start"]["command"]
    edge, ranks = int(command[-1]), int(command[2])
    assert edge**3 * ranks * 400 <= memory_b / 2 < (edge + 1) ** 3 * ranks * 400
    (note,) = (note for note in treatment["notes"] if "of memory" in note)
    assert "takes 50% of memory" in note
    assert note.endswith("not 90%")
