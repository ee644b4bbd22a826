"""One-sided calls of MPI between two ranks: `mpi_put`, this project's own program (`mpi_put/`).

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
from pathlib import Path

from nimc.base.programs import ask
from nimc.machine import devices
from nimc.node.evidence.rates import Bursts
from nimc.node.injectors.base import Arrived, Fault, Injector, Row, Total, Writer
from nimc.records.sample import Direction

_FOLDER = Path(__file__).parents[1] / "mpi_put"
_ROW = re.compile(
    r"^row (\d{1,9}\.\d{6}) s (\d{1,18}) B(?:, (\d{1,9}) bursts, (\d{1,9}\.\d{6}) s of writing)?$"
)
_ARRIVED = re.compile(
    r"^arrived (\d{1,18}) B by (shared|unshared) memory, target (sleeps|polls),"
    r" (\d{1,9}\.\d{6}) s of its processor$"
)
_FAULT = re.compile(r"^mpi_put: (.+)|^(Fatal error in .+|Abort\(.+)")
#: From so much of its processor's time on the target takes part in receiving: seconds per byte, the
#: report's limit of onload, and as a share of a core, since it sleeps and looks at its memory.
_TAKES_PART_S_B, _TAKES_PART_SHARE = 0.05e-9, 0.01
TWO_SIDED = "two-sided"
#: For Open MPI, which others ignore: where processes run is the agent's choice.
_OPEN_MPI = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}
#: Options of both ranks on one host, and of one on each of two; in a heterogeneous job, targets are
#: in the first component and origins in the second, and each has a command of its own.
_ON_ONE = {"srun": "--overlap --cpu-bind=none --nodes=1 --ntasks=2", "mpiexec": "-n 2"}
_ON_TWO = {
    "srun": "--overlap --cpu-bind=none --nodes=2 --ntasks=2 --nodelist={target},{origin}",
    "mpiexec": "-n 2 -host {target},{origin}",
}
_A_TASK = "--overlap --cpu-bind=none --nodes=1 --ntasks=1 --het-group"
_ON_COMPONENTS = f"{_A_TASK}=0 --nodelist={{target}} : {_A_TASK}=1 --nodelist={{origin}}"


class _Parser:
    """Lines of both ranks, which the launcher mixes."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._claimed_b = self._claimed_s = 0.0

    def parse(self, line: str) -> Row | Total | Arrived | Fault | None:
        if (row := _ROW.match(line)) and (over_s := float(row[1])):
            self._claimed_b += int(row[2])
            self._claimed_s += over_s
            bursts = None
            if row[3] is not None:
                bursts = Bursts(int(row[3]), float(row[4]), max(over_s - float(row[4]), 0.0))
            return Row(int(row[2]) / over_s, over_s, bursts=bursts)
        if seen := _ARRIVED.match(line):
            least_s = max(_TAKES_PART_S_B * self._claimed_b, _TAKES_PART_SHARE * self._claimed_s)
            is_costly = self._claimed_s > 0 and float(seen[4]) > least_s
            takes_part = seen[3] == "polls" or is_costly
            return Arrived(int(seen[1]), self._over(seen[2] == "shared", takes_part))
        fault = _FAULT.match(line)
        return Fault(fault[1] or fault[2]) if fault else None

    def _over(self, shared: bool, takes_part: bool) -> str:
        """The transport, as the ranks found it: `+two-sided` if the target receives messages."""
        if takes_part:
            device = self._writer.device
            kind = [devices.transport(device)] if devices.is_rdma(device) else []
            return "+".join([*kind, TWO_SIDED])
        return "shared memory" if shared else _transport(self._writer)


class MpiPut(Injector):
    """`mpi_put`, which prints four rows a second and limits its own rate."""

    name = "mpi_put"
    row_s = 0.25
    #: Its launcher's processes are not all in the group that the agent can suspend.
    holds = "never"
    writes_short = False
    spaces_bursts = True

    def __init__(self, name: str = "", direction: Direction = "write") -> None:
        super().__init__(name, direction)
        self.reports_arrivals = direction != "read"

    def transport(self, writer: Writer) -> str:
        """What it goes over, until its program has reported that (`Arrived`)."""
        return _transport(writer)

    def origin_command(self, writer: Writer) -> list[str]:
        """Starts both ranks; the target's is the first, or the one on the target's node."""
        launcher = shlex.split(_launcher(_program()))
        kind = "srun" if launcher and Path(launcher[0]).name == "srun" else "mpiexec"
        options = (_ON_ONE if writer.on_one_host else _ON_TWO)[kind]
        if options == _ON_TWO["srun"] and "SLURM_HET_SIZE" in os.environ:
            options = _ON_COMPONENTS
        command: list[str] = []
        for part in options.format(target=writer.target, origin=writer.origin).split(":"):
            command += [":", *launcher[1:]] if command else launcher
            command += [*part.split(), *self._rank(writer)]
        return command

    def _rank(self, writer: Writer) -> list[str]:
        command = [_program(), "--size", str(writer.message_b)]
        command += [] if writer.on_one_host else ["--target", writer.target]
        command += {"write": [], "read": ["--get"], "both": ["--both"]}[self.direction]
        command += ["--rate", f"{writer.rate_b_s:.9g}"] if writer.rate_b_s else []
        if burst := writer.burst:
            command += ["--burst", f"{burst.length_s:g}", "--pause", f"{burst.pause_s:g}"]
        return command if writer.buffer_node is None else [*command, "-m", str(writer.buffer_node)]

    def environment(self, writer: Writer) -> dict[str, str]:
        """Both ranks stay on the processors that the agent chose, and use the writer's device."""
        device = None if writer.on_one_host else writer.device
        return _OPEN_MPI | (devices.mpi_over(device) if device else {})

    def parser(self, writer: Writer) -> _Parser:
        """Parses the lines of both ranks."""
        return _Parser(writer)

    def missing(self) -> str | None:
        """Looks for the program on PATH and where it is made, and for its launcher."""
        if not shutil.which(_program()):
            return f"mpi_put is missing: 'make -C {_FOLDER}', with an MPI's mpicc on PATH"
        launcher = _launcher(_program()) or "a launcher"
        if shutil.which(shlex.split(launcher)[0]):
            return None
        return f"{launcher} of mpi_put is missing: 'make -B -C {_FOLDER} LAUNCHER=...'"


def _transport(writer: Writer) -> str:
    """What one-sided calls can go over: one host's memory, or the named device."""
    if writer.on_one_host:
        return "shared memory"
    return devices.transport(writer.device) if devices.is_rdma(writer.device) else "RDMA"


def _program() -> str:
    return shutil.which("mpi_put") or str(_FOLDER / "mpi_put")


@functools.cache
def _launcher(program: str) -> str:
    """How the program's MPI starts programs, as its makefile found it."""
    return ask([program, "--launcher"], timeout_s=10).stdout.strip()
