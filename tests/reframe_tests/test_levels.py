"""What checks do at each level of a factor, on the model cluster: nodes of 64 cores, 8 NUMA nodes,
the network interface on node 3, so that `other` is node 7."""

import re

import pytest

from records.checkout import ROOT
from records.errors import InputError
from reframe_tests.factors import check_level
from tests.reframe_tests.reframe_call import plan_of, reframe, succeeded

MACHINE = "example_slurm"
DRY = ("--system", MACHINE, "-p", "wheels", "--dry-run")

#: Check -> factors of its dry run, and other settings.
CHECKS = {
    "snap_quick": ("{angles: [16, 32]}", {}),
    "numa": (
        "{load: [idle, write], buffer: [nic, other], workers: [nic, free], local_workers: [0, 2]}",
        {},
    ),
    "lammps": ("{reserved_cores: [0, 1]}", {}),
    "stream": ("{rate: [0, 50%], message: [auto, 1MiB], reserved_cores: [0, 1]}", {}),
    "hpccg_quick": (
        "{rate: [full, 5%]}",
        {"injector": "mpi_put", "direction": "both"},
    ),
    "membench": (
        "{reserved_cores: [0, 2], order: [compact, spread], socket: [first, all],"
        " pages: [normal, huge]}",
        {},
    ),
    "lammps_scaling": ("{reserved_cores: [0, 1]}", {"nodes": 2, "spare_cores": 4}),
    "minife": (
        "{reserved_cores: [0, 1], injector: [ucx, mpi_put]}",
        {},
    ),
    "cns": ("{reserved_cores: [0, 1]}", {}),
    "xsbench": ("{reserved_cores: [0, 1], layout: [21x3, 63x1], clients: [0, 2]}", {}),
    **dict.fromkeys(
        ("hpccg", "lulesh_quick", "minife_quick", "cns_quick"),
        ("{working_set: [auto, 4MiB]}", {}),
    ),
    "membench_quick": (
        "{working_set: [auto, 4MiB], footprint: [auto, 2MiB], rate: [25%, full]}",
        {},
    ),
    "stream_quick": ("{rate: [0, 50%]}", {"working_set": "1MiB"}),
    "lammps_quick": ("{}", {"core_spec": 2, "case": "lammps@core_spec=2"}),
}


@pytest.fixture(scope="module")
def dry(tmp_path_factory):
    """The folder of one dry run of all these checks."""
    folder = tmp_path_factory.mktemp("levels")
    words = [*DRY]
    for name, (factors, settings) in CHECKS.items():
        words += ["-c", f"{ROOT}/reframe_tests/{name.removesuffix('_quick')}.py"]
        for key, value in {"arms": "off,on", "factors": factors, **settings}.items():
            words += ["-S", f"{name}.{key}={value}"]
    succeeded(reframe(folder, MACHINE, "stream", *words, name=f"({'|'.join(CHECKS)})"))
    return folder


@pytest.fixture(scope="module")
def treatments(dry):
    """Check -> name -> treatment, of that dry run."""
    plans = {name: plan_of(dry, name) for name in CHECKS}
    return {name: {t["name"]: t for t in plan["treatments"]} for name, plan in plans.items()}


def words(treatment):
    return treatment["start"]["command"]


RESERVED = ("off", "off@reserved_cores=1")


@pytest.mark.parametrize(
    ("check", "names", "ranks", "size"),
    [
        # 64 cores are a box of 4 x 4 x 4; 63 ranks share it.
        ("lammps", RESERVED, (64, 63), "-var x 4 -var y 4 -var z 4"),
        # Two nodes of 60 ranks, or 59: 120 = 4 x 5 x 6.
        ("lammps_scaling", RESERVED, (120, 118), "-var x 4 -var y 5 -var z 6"),
        # 100 elements a core along each edge, and the cube root of 64 is 4.
        ("minife", RESERVED, (64, 63), "-nx 400"),
        ("cns", RESERVED, (64, 63), "cns inputs"),
        # Half of 256 GiB holds 24 grids of 5.7 GB, too few for a rank on each of 64 cores.
        ("xsbench", ("off@layout=63x1", "off@reserved_cores=1,layout=63x1"), (63, 63), "-s small"),
        ("xsbench", RESERVED, (21, 21), "-s small -t 3"),
    ],
)
def test_work_stays_the_same_where_a_core_is_reserved(treatments, check, names, ranks, size):
    pair = [treatments[check][name] for name in names]
    assert tuple(treatment["start"]["ranks"] for treatment in pair) == ranks
    assert all(size in " ".join(words(treatment)) for treatment in pair)


def test_every_level_has_an_input_of_its_own(dry, treatments):
    (stage,) = dry.glob("stage/*/*/*/snap_quick")
    for name, angles in {"off": 16, "off@angles=32": 32, "on@angles=32": 32}.items():
        *_, source, out = words(treatments["snap_quick"][name])
        assert f"nang={angles} " in (stage / source).read_text()
        assert out == "snap.out"


def test_numa_changes_load_places_and_buffers_from_run_to_run(dry, treatments):
    numa, command = treatments["numa"], "./membench write -n 8 -d 3.0 -m"
    assert " ".join(words(numa["off@load=write"])) == f"{command} 3 --cpu-node 3"
    free = numa["off@load=write,buffer=other,workers=free"]
    assert " ".join(words(free)) == f"{command} 7 --free"
    few = numa["off@load=write,local_workers=2"]
    assert " ".join(words(few)) == f"{command} 3 --cpu-node 3".replace("-n 8", "-n 2")
    *_, program, length_s = words(numa["off"])
    assert ("time.sleep(" in program, length_s) == (True, "3.0")
    nodes = {
        name: treatment["writes"]["buffer_node"]
        for name, treatment in numa.items()
        if treatment["writes"]
    }
    assert nodes == {name: 7 if "buffer=other" in name else 3 for name in nodes}
    assert len(nodes) == 16
    known = plan_of(dry, "numa")["provenance"]["numa"]
    assert known == {"numa_nodes": 8, "nic_node": 3, "places": {"nic": 3, "other": 7}}


def test_injectors_and_messages_are_those_of_the_writers_and_share_a_baseline(treatments):
    injectors = [
        treatment for name, treatment in treatments["minife"].items() if "reserved" not in name
    ]
    used = {treatment["writes"]["injector"] for treatment in injectors if treatment["writes"]}
    assert used == {"ucx", "mpi_put"}
    assert {treatment["baseline"] for treatment in injectors} == {None, "off"}
    stream = {
        name: treatment
        for name, treatment in treatments["stream"].items()
        if "reserved" not in name
    }
    sizes_b = {
        name: treatment["writes"]["message_b"]
        for name, treatment in stream.items()
        if treatment["writes"]
    }
    assert sizes_b == {"on@rate=50%": 65536, "on@rate=50%,message=1MiB": 1 << 20}
    assert {treatment["baseline"] for treatment in stream.values()} == {None, "off"}


def test_a_rate_below_full_is_a_share_of_the_rate_alone(treatments):
    written = {
        name: treatment["writes"]
        for name, treatment in treatments["hpccg_quick"].items()
        if treatment["writes"]
    }
    assert {name: writes["rate_share"] for name, writes in written.items()} == {
        "on": None,
        "on@rate=5%": 0.05,
    }
    assert {writes["injector"] for writes in written.values()} == {"mpi_put_both"}


@pytest.mark.parametrize(
    ("check", "words_of_4_mib", "working_set_b", "auto_set_b"),
    [
        # The cube root of 4194304 / 400 is 21.9, that of 4194304 / 668 is 18.4.
        ("hpccg", "21 21 21", 21**3 * 400, None),
        ("lulesh_quick", "-s 18", 18**3 * 668, 30**3 * 668),
        # 22 elements a core and 4 x 4 x 4 cores.
        ("minife_quick", "-nx 88", 22**3 * 380, 50**3 * 380),
        # A box of 16 cells has 24 with ghosts: 8 B x (25 x 24^3 + 10 x 16^3); of 32, more.
        ("cns_quick", "inputs-2", 3_092_480, 15_421_440),
        ("membench_quick", "-s 4194304B", 4 << 20, None),
    ],
)
def test_a_working_set_is_what_whole_elements_give(
    dry, treatments, check, words_of_4_mib, working_set_b, auto_set_b
):
    by_name = treatments[check]
    assert f"{words_of_4_mib} " in " ".join([*words(by_name["off@working_set=4MiB"]), ""])
    assert by_name["on@working_set=4MiB"]["baseline"] == "off@working_set=4MiB"
    assert by_name["off@working_set=4MiB"]["start"]["working_set_b"] == working_set_b
    if auto_set_b:
        assert by_name["off"]["start"]["working_set_b"] == auto_set_b
    if check == "cns_quick":
        (stage,) = dry.glob("stage/*/*/*/cns_quick")
        assert "max_grid_size=16" in (stage / "inputs-2").read_text()


def test_footprints_and_working_sets_are_crossed_with_others(treatments):
    """Two baselines, each with two footprints at two rates."""
    membench = treatments["membench_quick"]
    assert len(membench) == 10
    writes = membench["on@working_set=4MiB,footprint=2MiB,rate=25%"]["writes"]
    assert (writes["message_b"], writes["footprint_b"], writes["rate_share"]) == (
        65536,
        2 << 20,
        0.25,
    )
    assert membench["on@working_set=4MiB"]["writes"]["footprint_b"] is None


def test_clients_are_crossed_with_layouts_and_free_cores(treatments):
    """Four ways to start it, each under as many writers as there are origins, and under two."""
    xsbench = treatments["xsbench"]
    assert len([name for name in xsbench if name.startswith("on")]) == 8
    assert {
        treatment["writes"]["clients"] for treatment in xsbench.values() if treatment["writes"]
    } == {None, 2}


def test_injectors_are_crossed_with_free_cores(treatments):
    minife = treatments["minife"]
    writes = [treatment["writes"] for name, treatment in minife.items() if name.startswith("on")]
    assert sorted(written["injector"] for written in writes) == 2 * ["mpi_put"] + 2 * ["ucx"]


def test_streams_working_set_is_compiled(dry, treatments):
    """64 threads of 1 MiB are 2796202 elements of three arrays, less a third of one a thread."""
    (script,) = dry.glob("stage/*/*/*/stream_quick/rfm_build.sh")
    assert "-DSTREAM_ARRAY_SIZE=2796202 " in script.read_text()
    assert treatments["stream_quick"]["off"]["start"]["working_set_b"] == 1_048_575.75


def test_cores_left_to_the_system_are_taken_from_the_job_and_its_runs_are_unpaired(dry, treatments):
    off = treatments["lammps_quick"]["off"]
    assert off["start"]["ranks"] == 62
    # The box is that of all 64 cores, so that times can be compared.
    assert "-var x 4 -var y 4 -var z 4" in " ".join(words(off))
    (script,) = dry.glob("stage/*/*/*/lammps_quick/rfm_job.sh")
    text = script.read_text()
    assert text.index("#SBATCH --core-spec=2") < text.index("#SBATCH hetjob")
    notes = plan_of(dry, "lammps_quick")["notes"]
    assert any(note.startswith("unpaired: ") for note in notes)


def test_membench_changes_from_run_to_run(treatments):
    assert "-n 32" in " ".join(words(treatments["membench"]["off"]))  # cores of one of two sockets
    assert "-n 31" in " ".join(words(treatments["membench"]["off@reserved_cores=2"]))


def test_ranks_are_bound_and_threads_are_the_cores_of_the_level(treatments):
    lammps = treatments["lammps"]
    assert all("--cpu-bind=cores" in words(treatment) for treatment in lammps.values())
    assert len(lammps) == 4
    threads = [
        treatments["stream"][name]["start"]["environment"]["OMP_NUM_THREADS"] for name in RESERVED
    ]
    assert threads == ["64", "63"]


def test_cores_of_all_sockets_compute_and_no_model_hides_it(treatments):
    all_sockets = treatments["membench"]["off@reserved_cores=2,socket=all"]
    assert "-n 62" in " ".join(words(all_sockets))
    assert words(all_sockets)[-2:] == ["--socket", "all"]
    assert any("all sockets" in note for note in all_sockets["notes"])
    assert not any("all sockets" in note for note in treatments["membench"]["off"]["notes"])
    # They are spread from run to run.
    spread = treatments["membench"]["off@order=spread"]
    assert " ".join(words(spread)).endswith("-n 32 -d 5.0 --order spread")
    assert words(treatments["membench"]["off"])[-1] == "compact"
    assert words(treatments["membench"]["off@pages=huge"])[-2:] == ["--pages", "huge"]


@pytest.mark.parametrize(
    ("name", "allowed", "others"),
    [
        ("rate", [0, "full", "0%", "25%", "500MB/s"], ["100%", "-5%", "5", "fast"]),
        ("message", ["auto", "dram", "64KiB"], ["64", "any"]),
        (
            "footprint",
            ["auto", "64KiB", "llc", "llc/2", "4*llc", "3*llc/4"],
            ["dram", "64", "0*llc", "llc/0", "llc*4", "2*l2", 64],
        ),
        ("comm_node", [0, 7], [-1, 1.0, True, "0"]),
        ("buffer", ["nic", "other"], ["free"]),
        ("workers", ["nic", "other", "free"], ["any"]),
        ("layout", ["8x2", "1x128"], ["8", "x2", "0x4", "8X2", "8x2x1", "auto", 8]),
        ("load", ["idle", "read", "write", "nt_write"], ["copy"]),
        (
            "writer_rail",
            ["default", "local", "nic0", "nic9"],
            ["nic", "nic-1", "nic10", "both", 0, True],
        ),
    ],
)
def test_levels_that_a_factor_allows_and_others(name, allowed, others):
    for level in allowed:
        check_level(name, level)
    for level in others:
        with pytest.raises(InputError, match=re.escape(f"{name}: {level} found; allowed: ")):
            check_level(name, level)
