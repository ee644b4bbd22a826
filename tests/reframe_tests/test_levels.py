"""Tests of what checks do at each level of a factor on the machine example_slurm.

Each node of this machine has 64 cores and 8 NUMA nodes. The network interface is on NUMA node 3, so
the level `other` means NUMA node 7.
"""

import re

import pytest

from records.checkout import ROOT
from records.errors import InputError
from reframe_tests.factors import check_level
from tests.reframe_tests.reframe_call import plan_of, ran, reframe, succeeded

MACHINE = "example_slurm"
DRY = ("--system", MACHINE, "-p", "wheels", "--dry-run")

#: Check -> the factors of its dry run, and further variables of the check.
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
        {"size": "100MB"},
    ),
    "stream_quick": ("{rate: [0, 50%]}", {"working_set": "1MiB"}),
    "lammps_quick": ("{}", {"core_spec": 2, "case": "lammps@core_spec=2"}),
}


@pytest.fixture(scope="module")
def dry(tmp_path_factory):
    """The folder of one dry run of all checks of CHECKS."""
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
    """Check -> name of a treatment -> treatment, of the dry run `dry`."""
    plans = {name: plan_of(dry, name) for name in CHECKS}
    return {name: {t["name"]: t for t in plan["treatments"]} for name, plan in plans.items()}


def words(treatment):
    return treatment["start"]["command"]


RESERVED = ("off", "off@reserved_cores=1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "names", "ranks", "size"),
    [
        # The box for 64 cores is 4 x 4 x 4, and 63 ranks share this box.
        ("lammps", RESERVED, (64, 63), "-var x 4 -var y 4 -var z 4"),
        # Two nodes run 60 or 59 ranks each, and 120 = 4 x 5 x 6.
        ("lammps_scaling", RESERVED, (120, 118), "-var x 4 -var y 5 -var z 6"),
        # Each core has a cube with edges of 100 elements, and the cube root of 64 is 4.
        ("minife", RESERVED, (64, 63), "-nx 400"),
        ("cns", RESERVED, (64, 63), "cns inputs"),
        # Half of 256 GiB holds 23 grids of 5.9 GB, and each rank has a grid. So only 21 ranks of
        # three threads run on 64 cores.
        ("xsbench", ("off@layout=63x1", "off@reserved_cores=1,layout=63x1"), (63, 63), "-s small"),
        ("xsbench", RESERVED, (21, 21), "-s small -t 3"),
    ],
)
def test_a_reserved_core_does_not_change_the_work(treatments, check, names, ranks, size):
    pair = [treatments[check][name] for name in names]
    assert tuple(treatment["start"]["ranks"] for treatment in pair) == ranks
    assert all(size in " ".join(words(treatment)) for treatment in pair)


def test_each_level_has_its_own_input_file(dry, treatments):
    (stage,) = dry.glob("stage/*/*/*/snap_quick")
    for name, angles in {"off": 16, "off@angles=32": 32, "on@angles=32": 32}.items():
        *_, source, out = words(treatments["snap_quick"][name])
        assert f"nang={angles} " in (stage / source).read_text()
        assert out == "snap.out"


def test_numa_sets_load_workers_and_buffer_for_each_treatment(dry, treatments):
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


def test_treatments_of_different_injectors_or_messages_share_a_baseline(treatments):
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


def test_a_rate_in_percent_is_a_share_of_the_full_rate(treatments):
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
        # The cube root of 4194304 / 400 is 21.9, and the cube root of 4194304 / 668 is 18.4.
        ("hpccg", "21 21 21", 21**3 * 400, None),
        ("lulesh_quick", "-s 18", 18**3 * 668, 30**3 * 668),
        # Each of 4 x 4 x 4 cores has a cube with edges of 22 elements.
        ("minife_quick", "-nx 88", 22**3 * 380, 50**3 * 380),
        # An edge of a box has 16 cells, or 24 cells with ghost cells. The box takes
        # 8 B x (25 x 24^3 + 10 x 16^3). A box with edges of 32 cells would take more.
        # By default, too, 4 x 4 x 4 boxes with 16 of the cube's 64 cells give each core a box.
        ("cns_quick", "inputs", 3_092_480, 3_092_480),
        # The array of nt_write is a multiple of 512 B: 1e8 / 512 is 195312.5.
        ("membench_quick", "-s 4194304B", 4 << 20, 195_312 * 512),
    ],
)
def test_a_working_set_is_a_number_of_whole_elements(
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
        assert "max_grid_size=16" in (stage / "inputs").read_text()


@pytest.mark.slow
def test_the_size_of_an_array_has_a_unit_that_the_program_membench_knows(treatments, membench):
    (size,) = (word for word in words(treatments["membench_quick"]["off"]) if word.endswith("B"))
    assert size == "99999744B"
    assert "of 99999744 bytes" in ran(membench, "copy", "-n", 1, "-s", size, "-d", 0.1).stdout


def test_footprints_and_working_sets_are_crossed_with_rates(treatments):
    """The case has two baselines. Two footprints are crossed with two rates for each baseline."""
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
    """The application has four ways to start.

    Each way is measured with as many writers as there are origins, and with two writers.
    """
    xsbench = treatments["xsbench"]
    assert len([name for name in xsbench if name.startswith("on")]) == 8
    assert {
        treatment["writes"]["clients"] for treatment in xsbench.values() if treatment["writes"]
    } == {None, 2}


def test_a_job_asks_for_the_layout_with_the_most_tasks(dry, treatments):
    """Slurm refuses 63 tasks of 3 CPUs on 64 cores. The job's whole node has CPUs for each layout.

    On a minicluster, a job with 6 tasks of 1 CPU on 8 CPUs ran steps of 1 x 8, 4 x 2 and 6 x 1;
    `sbatch` refused the job with 6 tasks of 2 CPUs.
    """
    (script,) = dry.glob("stage/*/*/*/xsbench/rfm_job.sh")
    lines = script.read_text().splitlines()
    sizes = ["--ntasks=63", "--ntasks-per-node=63", "--cpus-per-task=1"]
    assert [f"#SBATCH {size}" for size in sizes] == lines[2:5]
    starts = [words(treatment) for treatment in treatments["xsbench"].values()]
    assert {line[1] for line in starts} == {"--cpus-per-task=1", "--cpus-per-task=3"}


def test_injectors_are_crossed_with_free_cores(treatments):
    minife = treatments["minife"]
    writes = [treatment["writes"] for name, treatment in minife.items() if name.startswith("on")]
    assert sorted(written["injector"] for written in writes) == 2 * ["mpi_put"] + 2 * ["ucx"]


def test_the_working_set_of_stream_is_compiled_into_the_program(dry, treatments):
    """64 threads have 1 MiB each, which are 2796202 elements in each of three arrays.

    The number of elements is rounded down, so a thread has a quarter of a byte less than 1 MiB.
    """
    (script,) = dry.glob("stage/*/*/*/stream_quick/rfm_build.sh")
    assert "-DSTREAM_ARRAY_SIZE=2796202 " in script.read_text()
    assert treatments["stream_quick"]["off"]["start"]["working_set_b"] == 1_048_575.75


def test_core_spec_takes_cores_from_the_job_and_leaves_its_runs_unpaired(dry, treatments):
    off = treatments["lammps_quick"]["off"]
    assert off["start"]["ranks"] == 62
    # The box is the box for all 64 cores, so that its times can be compared with other times.
    assert "-var x 4 -var y 4 -var z 4" in " ".join(words(off))
    (script,) = dry.glob("stage/*/*/*/lammps_quick/rfm_job.sh")
    text = script.read_text()
    assert text.index("#SBATCH --core-spec=2") < text.index("#SBATCH hetjob")
    notes = plan_of(dry, "lammps_quick")["notes"]
    assert any(note.startswith("unpaired: ") for note in notes)


@pytest.mark.parametrize("check", ["membench", "numa"])
def test_openmp_does_not_bind_the_threads_that_membench_binds(treatments, check):
    environments = [treatment["start"]["environment"] for treatment in treatments[check].values()]
    assert {environment["OMP_PROC_BIND"] for environment in environments} == {"false"}


def test_membench_leaves_out_reserved_cores(treatments):
    # One of the two sockets has 32 cores.
    assert "-n 32" in " ".join(words(treatments["membench"]["off"]))
    assert "-n 31" in " ".join(words(treatments["membench"]["off@reserved_cores=2"]))


def test_ranks_are_bound_and_each_core_of_the_level_has_one_thread(treatments):
    lammps = treatments["lammps"]
    assert all("--cpu-bind=cores" in words(treatment) for treatment in lammps.values())
    assert len(lammps) == 4
    threads = [
        treatments["stream"][name]["start"]["environment"]["OMP_NUM_THREADS"] for name in RESERVED
    ]
    assert threads == ["64", "63"]


def test_membench_can_use_all_sockets_and_a_note_says_so(treatments):
    all_sockets = treatments["membench"]["off@reserved_cores=2,socket=all"]
    assert "-n 62" in " ".join(words(all_sockets))
    assert words(all_sockets)[-2:] == ["--socket", "all"]
    assert any("all sockets" in note for note in all_sockets["notes"])
    assert not any("all sockets" in note for note in treatments["membench"]["off"]["notes"])
    # The order of cores and the size of pages also depend on the treatment.
    spread = treatments["membench"]["off@order=spread"]
    assert " ".join(words(spread)).endswith("-n 32 -d 5.0 --order spread")
    assert words(treatments["membench"]["off"])[-1] == "compact"
    assert words(treatments["membench"]["off@pages=huge"])[-2:] == ["--pages", "huge"]


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
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
def test_a_factor_refuses_a_level_that_it_does_not_allow(name, allowed, refused):
    for level in allowed:
        check_level(name, level)
    for level in refused:
        with pytest.raises(InputError, match=re.escape(f"{name}: {level} found; allowed: ")):
            check_level(name, level)
