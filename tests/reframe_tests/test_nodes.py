"""Ranks of checks on several nodes, from their launch lines for `example_slurm`'s 64 cores."""

import pytest

from tests.reframe_tests.command import plan_of, reframe

#: Check, settings -> ranks, threads, and words of the program's options.
LAID_OUT = {
    ("umt", "core"): (512, 1, []),
    ("umt", "socket"): (16, 32, []),
    ("amg", "core"): (512, 1, ["-P", "8", "8", "8"]),
    ("amg", "socket"): (16, 32, ["-P", "1", "4", "4"]),
    ("lulesh", "core"): (512, 1, []),
    ("lulesh", "socket"): (8, 64, []),  # the largest cube of at most 16 ranks
    ("minife", "core"): (512, 1, ["-nx", "800"]),  # 100 elements for each of 8 x 8 x 8 ranks
}


@pytest.mark.slow
@pytest.mark.parametrize(("check", "per"), LAID_OUT)
def test_ranks_and_threads_on_eight_nodes(tmp_path, check, per):
    ranks, threads, options = LAID_OUT[check, per]
    settings = {"nodes": 8, "rank_per": per, "factors": "{mpi_rail: [nic1]}"}
    words = ("--system=example_slurm", "-p", "spack", "--dry-run")
    reframe(tmp_path, "example_slurm", check, *words, settings=settings)
    plan = plan_of(tmp_path, "*")
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
