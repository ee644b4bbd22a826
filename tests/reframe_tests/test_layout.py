"""Ranks reach the launch line of the application, however the layout is asked for."""

import os

import pytest

from nimc.base.checkout import commit
from nimc.machine.host import detect
from tests.reframe_tests.command import plan_of, reframe, succeeded

#: Check -> ranks of its launch line when laid out on 6 cores, with 3 threads a rank of XSBench.
RANKS = {"hpccg": 6, "xsbench": 2}
DRY = ("-p", "wheels", "--dry-run")


@pytest.mark.parametrize("check", RANKS)
def test_launcher_starts_as_many_ranks_as_the_check_lays_out(tmp_path, check):
    settings = {"layout_cores": 6} | ({"threads": 3} if check == "xsbench" else {})
    name = f"{check}_quick"
    succeeded(reframe(tmp_path, "localhost", check, *DRY, name=name, settings=settings))
    plan = plan_of(tmp_path, name)
    treatment = plan["treatments"][0]
    assert treatment["start"]["command"][:3] == ["mpiexec", "-n", str(RANKS[check])]
    assert plan["provenance"]["commit"] == commit()
    if (os.cpu_count() or 1) < 6:
        assert any("laid out on 6 cores, but has only" in note for note in treatment["notes"])


def test_each_execution_draws_a_seed_unless_one_is_given(tmp_path):
    seeds = []
    for turn, settings in enumerate([{}, {}, {"seed": 9}]):
        folder = tmp_path / str(turn)
        folder.mkdir()
        succeeded(reframe(folder, "localhost", "hpccg", *DRY, settings=settings))
        plan = plan_of(folder, "hpccg")
        assert plan["provenance"]["seed"] == plan["seed"]
        seeds.append(plan["seed"])
    assert seeds[0] != seeds[1]
    assert seeds[2] == 9
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_one_host_is_not_taken_for_several_nodes(tmp_path):
    done = reframe(tmp_path, "localhost", "lammps_scaling", *DRY, settings={"nodes": 4})
    assert "lammps_scaling.nodes: 4 found; origins and target of localhost share one host" in (
        " ".join(done.stdout.split())
    )


def test_hpccg_takes_no_more_memory_than_the_machine_allows(tmp_path):
    # The file of localhost is silent: half of the memory, 400 bytes a point.
    succeeded(reframe(tmp_path, "localhost", "hpccg", *DRY, settings={"memory_share": 0.9}))
    memory_b = detect().memory_b
    treatment = plan_of(tmp_path, "hpccg")["treatments"][0]
    command = treatment["start"]["command"]
    edge, ranks = int(command[-1]), int(command[2])
    assert edge**3 * ranks * 400 <= memory_b / 2 < (edge + 1) ** 3 * ranks * 400
    (note,) = (note for note in treatment["notes"] if "of memory" in note)
    assert "takes 50% of memory" in note
    assert note.endswith("not 90%")
