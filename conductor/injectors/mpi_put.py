"""One-sided calls of MPI between two ranks, or messages: `mpi_put`, this project's own program.

The origin's agent starts both ranks with the launcher of the MPI that the program was compiled
with. What it goes over is found out: the ranks say whether they share the memory, and whether the
target's processor takes part.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
from contextlib import suppress
from pathlib import Path

from conductor.injectors.base import Arrived, Fault, Faults, Injector, Row, Writer
from conductor.shared_memory import FOLDER_VARIABLE
from records.machine import devices
from records.programs import ask
from records.sample import Direction
from records.slurm import options

FOLDER = Path(__file__).parents[1] / "mpi_put"
#: For Open MPI: where processes run is the agent's choice. For MPICH: ranks look at the host
#: themselves, as a file that its launcher makes for them stays in /tmp if that is killed.
LAUNCHER_VARIABLES = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "HWLOC_XMLFILE": "",
}
#: For Open MPI, whose launcher and ranks leave what they have if they are killed: where that is, on
#: one host. It may be on a node without the agent's folder otherwise.
_FOLDERS = (
    "OMPI_MCA_orte_tmpdir_base",
    "PRTE_MCA_prte_tmpdir_base",
    "OMPI_MCA_btl_vader_backing_directory",
    "OMPI_MCA_btl_sm_backing_directory",
    "OMPI_MCA_osc_rdma_backing_directory",
    "OMPI_MCA_osc_sm_backing_directory",
)
#: Options of both ranks on one host, and of one on each of two.
_ON_ONE = {options.LAUNCHER: options.RANKS_ON_ONE, "mpiexec": "-n 2"}
_ON_TWO = {options.LAUNCHER: options.RANKS_ON_TWO, "mpiexec": "-n 2 -host {target},{origin}"}

#: Direction -> the program's options.
_OPTIONS: dict[Direction, list[str]] = {
    "write": [],
    "read": ["--get"],
    "both": ["--both"],
    "receive": ["--receive"],
}

_ROW = re.compile(r"^row (\d{1,9}\.\d{6}) s (\d{1,18}) B$")
_ARRIVED = re.compile(
    r"^arrived (\d{1,18}) B by (shared|unshared) memory, target (sleeps|polls|receives),"
    r" (\d{1,9}\.\d{6}) s of its processor$"
)
_FAULT = re.compile(r"^mpi_put: (.+)")
#: Messages of a window unless a footprint is chosen: at most so many, and at most so many bytes or
#: one, as in the program.
_BATCH, _BATCH_B = 32, 2 << 20
#: From so much of its processor's time on the target takes part in receiving: seconds per byte, the
#: report's limit of onload, and as a share of a core, since it sleeps and looks at its memory.
_TAKES_PART_S_B = 0.05e-9
_TAKES_PART_SHARE = 0.01
#: The transport if the target's processor receives what stands for writes, or messages.
_TWO_SIDED, _RECEIVES = "two-sided", "receives"


class ReportParser:
    """Lines of both ranks, mixed."""

    def __init__(self, transport: str, received: str) -> None:
        """Set what it goes over between nodes, and if the target's processor receives."""
        self._transport, self._received = transport, received
        self._claimed_b = self._claimed_s = 0.0
        self._faults = Faults(_FAULT)

    def parse(self, line: str) -> Row | Arrived | Fault | None:
        """Return what a line means; None for any other line."""
        line = line.rstrip("\n")
        if (row := _ROW.match(line)) and (over_s := float(row[1])):
            self._claimed_b += int(row[2])
            self._claimed_s += over_s
            self._faults.forget()
            return Row(int(row[2]) / over_s, over_s)
        if arrival := _ARRIVED.match(line):
            least_s = max(_TAKES_PART_S_B * self._claimed_b, _TAKES_PART_SHARE * self._claimed_s)
            is_costly = self._claimed_s > 0 and float(arrival[4]) > least_s
            if arrival[3] != "sleeps" or is_costly:
                return Arrived(int(arrival[1]), self._received)
            over = "shared memory" if arrival[2] == "shared" else self._transport
            return Arrived(int(arrival[1]), over)
        return self._faults.find(line)


class MpiPut(Injector):
    """`mpi_put`, which prints four rows a second and limits its own rate."""

    name = "mpi_put"
    row_s = 0.25
    #: Between hosts, the target's agent does not have the target's rank among its processes.
    holds = "on one host"
    is_launched = True
    writes_short = False
    footprint_by = "place"

    def __init__(self, name: str = "", direction: Direction = "write") -> None:
        super().__init__(name, direction)
        self.reports_arrivals = direction != "read"

    def transport(self, writer: Writer) -> str:
        """One host's memory, or the named device, until the program has reported it (`Arrived`)."""
        if self.direction == "receive":
            return self._received(writer)
        if not _apart(writer):
            return "shared memory"
        return devices.transport(writer.device) if devices.is_rdma(writer.device) else "RDMA"

    def footprint_b(self, writer: Writer) -> int:
        """Size of the window of each direction."""
        batch = min(max(_BATCH_B // writer.message_b, 1), _BATCH)
        return (writer.places(writer.message_b) or batch) * writer.message_b

    def origin_command(self, writer: Writer) -> list[str]:
        """Starts both ranks; the target's is the first, or the one on the target's node."""
        launcher = shlex.split(launcher_of(program_path()))
        kind = _kind(launcher)
        ranks = (_ON_TWO if _apart(writer) else _ON_ONE)[kind]
        if _apart(writer) and kind == options.LAUNCHER and "SLURM_HET_SIZE" in os.environ:
            ranks = options.RANKS_ON_COMPONENTS
        command: list[str] = []
        for part in ranks.format(target=writer.target, origin=writer.origin).split(":"):
            command += [":", *launcher[1:]] if command else launcher
            command += [*part.split(), *self.rank_command(writer)]
        return command

    def rank_command(self, writer: Writer) -> list[str]:
        """The program of either rank with its options, as words, without the launcher."""
        command = [program_path(), "--size", str(writer.message_b)]
        command += ["--footprint", str(self.footprint_b(writer))] if writer.footprint_b else []
        command += ["--target", writer.target] if _apart(writer) else []
        command += _OPTIONS[self.direction]
        command += ["--rate", f"{writer.rate_b_s:.9g}"] if writer.rate_b_s else []
        return command if writer.buffer_node is None else [*command, "-m", str(writer.buffer_node)]

    def environment(self, writer: Writer) -> dict[str, str]:
        """Both ranks stay on the processors that the agent chose, and use the writer's device."""
        if _apart(writer):
            chosen = dict[str, str]()
            with suppress(ValueError):  # no variable chooses it: what its MPI takes is counted
                chosen = devices.mpi_variables(writer.device) if writer.device else {}
            return LAUNCHER_VARIABLES | chosen
        folder = os.environ.get(FOLDER_VARIABLE)
        return LAUNCHER_VARIABLES | (dict.fromkeys(_FOLDERS, folder) if folder else {})

    def parser(self, writer: Writer) -> ReportParser:
        """Parses the lines of both ranks, which the launcher mixes."""
        return ReportParser(self.transport(writer), self._received(writer))

    def _received(self, writer: Writer) -> str:
        """The transport if the target's processor receives."""
        kind = [devices.transport(writer.device)] if devices.is_rdma(writer.device) else []
        return "+".join([*kind, _RECEIVES if self.direction == "receive" else _TWO_SIDED])

    def missing(self, device: str | None = None) -> str | None:
        """Looks for the program on PATH and where it is made, and for its launcher."""
        if not shutil.which(program_path()):
            return f"mpi_put is missing: 'make -C {FOLDER}', with an MPI's mpicc on PATH"
        launcher = launcher_of(program_path()) or "a launcher"
        is_there = shutil.which(shlex.split(launcher)[0])
        make = f"'make -B -C {FOLDER} LAUNCHER=...'"
        return None if is_there else f"{launcher} of mpi_put is missing: {make}"

    def doubt(self) -> str | None:
        """Doubt a launcher that is not srun: MPICH's stays in one component of a job."""
        launcher = launcher_of(program_path()) if shutil.which(program_path()) else ""
        if not launcher or _kind(shlex.split(launcher)) == options.LAUNCHER:
            return None
        make = f"make -B -C {FOLDER} LAUNCHER='{options.srun_launcher('...')}'"
        return f"{launcher} of mpi_put may not reach a job's other nodes: {make}"


def _apart(writer: Writer) -> bool:
    return writer.origin != writer.target


def program_path() -> str:
    """`mpi_put` on PATH, or where it is made."""
    return shutil.which("mpi_put") or str(FOLDER / "mpi_put")


def _kind(launcher: list[str]) -> str:
    """Whose options a launcher takes."""
    is_step = launcher and Path(launcher[0]).name == options.LAUNCHER
    return options.LAUNCHER if is_step else "mpiexec"


@functools.cache
def launcher_of(program: str) -> str:
    """Return how the program's MPI starts programs, as its makefile found it."""
    return ask([program, "--launcher"], timeout_s=10).stdout.strip()
