"""Tests of the launch lines of checks on several nodes of example_slurm, with 64 cores a node."""

import os
from pathlib import Path

import pytest

from records.checkout import ROOT
from tests.reframe_tests.reframe_call import plan_of, reframe, script

#: (Check, unit that gets one rank) -> ranks, threads, and words of the program's options.
LAID_OUT = {
    ("umt", "core"): (512, 1, []),
    # A rank has the same mesh, whether it is that of a core or of a socket.
    ("umt", "socket"): (16, 32, ["-d", "8,8,8"]),
    ("amg", "core"): (512, 1, ["-P", "8", "8", "8", "-n", "96", "96", "96"]),
    ("amg", "socket"): (16, 32, ["-P", "2", "2", "4", "-n", "96", "96", "96"]),
    ("quicksilver", "core"): (512, 1, ["-i", "coral2_p1.inp"]),
    # 22 x 22 of the 512 cores form a square, and the square of a core has edges of 40 zones.
    ("mcb", "socket"): (16, 32, ["--nCores=32", "--nThreadCore=1", "--nZonesX=880"]),
    ("lulesh", "core"): (512, 1, ["-s", "60"]),
    ("lulesh", "socket"): (8, 64, ["-s", "60"]),  # the largest cube of at most 16 ranks
    ("minife", "core"): (512, 1, ["-nx", "800"]),  # 100 elements for each of 8 x 8 x 8 ranks
}


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """(Check, unit that gets one rank) -> plan of the check."""
    plans = {}
    for per in ("core", "socket"):
        folder = tmp_path_factory.mktemp(per)
        names = [check for check, unit in LAID_OUT if unit == per]
        words = ["--system=example_slurm", "-p", "spack", "--dry-run"]
        for name in names:
            words += ["-c", f"{ROOT}/reframe_tests/{name}.py"]
        for setting in ("nodes=8", f"rank_per={per}", "factors={mpi_rail: [nic1]}"):
            words += ["-S", setting]
        reframe(folder, "example_slurm", names[0], *words, name=f"({'|'.join(names)})")
        plans |= {(name, per): plan_of(folder, name) for name in names}
    return plans


@pytest.mark.slow
@pytest.mark.parametrize("case", LAID_OUT)
def test_a_check_starts_its_ranks_and_threads_on_eight_nodes(planned, case):
    ranks, threads, options = LAID_OUT[case]
    plan = planned[case]
    assert plan["rails"] == ["mlx5_0", "mlx5_1"]
    for treatment in plan["treatments"]:
        start = treatment["start"]
        assert (start["ranks"], start["threads"]) == (ranks, threads)
        assert start["ranks_per_node"] == ranks // 8
        assert start["devices"] == ["mlx5_1"]
        assert start["environment"]["UCX_NET_DEVICES"] == "mlx5_1:1"
        assert start["environment"]["OMP_NUM_THREADS"] == str(threads)
        words = " ".join(start["command"])
        assert f"--ntasks={ranks}" in words
        assert " ".join(options) in words


@pytest.mark.slow
def test_a_layout_replaces_a_rank_per_socket_and_keeps_the_work_of_a_rank_per_core(
    tmp_path: Path,
) -> None:
    """Two ranks instead of 64 have a cube of 96 x 32^(1/3) = 304.8 points along each edge."""
    words = ["--system=example_slurm", "-p", "spack", "--dry-run"]
    for setting in ("nodes=8", "rank_per=socket", "layout=2x32"):
        words += ["-S", setting]
    reframe(tmp_path, "example_slurm", "amg", *words)
    for treatment in plan_of(tmp_path, "amg")["treatments"]:
        start = treatment["start"]
        assert (start["ranks_per_node"], start["threads"]) == (2, 32)
        assert "-n 305 305 305" in " ".join(start["command"])


@pytest.mark.slow
@pytest.mark.parametrize(("version", "overlaps"), [("21.08.5", True), ("22.05.8", False)])
def test_an_application_shares_cpus_with_agents_if_slurm_is_old(
    tmp_path: Path, version: str, overlaps: bool
) -> None:
    """The script that stands in for `srun` prints its version only."""
    program = script(tmp_path / "bin/srun", f"echo 'slurm-wlm {version}'")
    path = f"{program.parent}:{os.environ['PATH']}"
    words = ["--system=example_slurm", "-p", "spack", "--dry-run"]
    reframe(tmp_path, "example_slurm", "lulesh", *words, PATH=path)
    treatments = plan_of(tmp_path, "lulesh")["treatments"]
    commands = [treatment["start"]["command"] for treatment in treatments]
    assert {("--overlap" in command) for command in commands} == {overlaps}
