"""`mpi_put`, a program of this project that makes one-sided calls of MPI or sends messages.

It has two ranks, one at the origin and one at the target. The origin's agent starts both ranks with
the launcher of the MPI that the program was compiled with. The ranks report whether they share the
memory, and whether the target's processor takes part. The transport follows from these reports.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from conductor.injectors.base import Arrived, Fault, FaultFinder, Injector, Row, Writer
from conductor.shared_memory import FOLDER_VARIABLE
from records.machine import devices
from records.programs import ProgramAnswer, ask, mpi_of_wheels
from records.sample import Direction
from records.slurm import options

SOURCE_FOLDER = Path(__file__).parents[1] / "mpi_put"
#: Environment variables for the launchers. With them, Open MPI binds no process, since the agent
#: chooses where processes run. If HWLOC_XMLFILE is set, even to nothing, MPICH's launcher does not
#: write the host's topology to a file in /tmp. Such a file would stay if the launcher is killed.
LAUNCHER_VARIABLES = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "HWLOC_XMLFILE": "",
}
#: Variables for the folder with the files of Open MPI's launcher and ranks, which leave their files
#: if they are killed. They are set only for ranks on one host, since another host may lack the
#: folder.
_FOLDER_VARIABLES = (
    "OMPI_MCA_orte_tmpdir_base",
    "PRTE_MCA_prte_tmpdir_base",
    "OMPI_MCA_btl_vader_backing_directory",
    "OMPI_MCA_btl_sm_backing_directory",
    "OMPI_MCA_osc_rdma_backing_directory",
    "OMPI_MCA_osc_sm_backing_directory",
)
#: Variables for two ranks on one host. If MPI uses UCX, it opens no network interface. Otherwise it
#: opens all of them, and fails if one of them vanishes meanwhile.
_ONE_HOST_VARIABLES = {"UCX_TLS": "sm,self"}
#: Launcher -> its options for both ranks on one host, and for one rank on each of two hosts.
_ONE_HOST_OPTIONS = {options.SRUN: options.RANKS_ON_ONE, "mpiexec": "-n 2"}
_TWO_HOSTS_OPTIONS = {options.SRUN: options.RANKS_ON_TWO, "mpiexec": "-n 2 -host {target},{origin}"}

#: Beginning of the remedy if the program does not start. The command that compiles it again
#: follows.
_LOAD_REMEDY = "load the modules of its MPI, or"
#: Direction -> the program's options.
_OPTIONS: dict[Direction, list[str]] = {
    "write": [],
    "read": ["--get"],
    "both": ["--both"],
    "receive": ["--receive"],
}

_ROW = re.compile(r"^row (?P<length_s>\d{1,9}\.\d{6}) s (?P<bytes>\d{1,18}) B$")
_ARRIVED = re.compile(
    r"^arrived (?P<bytes>\d{1,18}) B by (?P<memory>shared|unshared) memory,"
    r" target (?P<activity>sleeps|polls|receives), (?P<cpu_s>\d{1,9}\.\d{6}) s of its processor$"
)
_FAULT = re.compile(r"^mpi_put: (.+)")
#: If no footprint is chosen, a window has room for at most this many messages and bytes, and for
#: at least one message. The program has the same limits (`BATCH`, `BATCH_B`).
_MAX_WINDOW_MESSAGES, _MAX_WINDOW_B = 32, 2 << 20
#: A target that sleeps takes part in the writes ('onload') if the time of its processor exceeds
#: both limits. The first is in seconds per byte. The second is a share of a core, and allows for
#: the time that the target spends on reading in its memory how much has arrived.
_TAKES_PART_S_B = 0.05e-9
_TAKES_PART_SHARE = 0.01
#: The transport if the target's processor receives emulated writes, or messages.
_TWO_SIDED, _RECEIVES = "two-sided", "receives"


class ReportParser:
    """Parses the lines of both ranks, which the launcher mixes."""

    def __init__(self, one_sided: str, two_sided: str) -> None:
        """Set the transports of one-sided writes, and of writes that the processor receives."""
        self._one_sided, self._two_sided = one_sided, two_sided
        self._claimed_b = self._claimed_s = 0.0
        self._fault_finder = FaultFinder(_FAULT)

    def parse(self, line: str) -> Row | Arrived | Fault | None:
        """Return what a rank's line reports; None if it reports nothing."""
        line = line.rstrip("\n")
        if (row := _ROW.match(line)) and (length_s := float(row["length_s"])):
            bytes_b = int(row["bytes"])
            self._claimed_b += bytes_b
            self._claimed_s += length_s
            self._fault_finder.forget()
            return Row(bytes_b / length_s, length_s)
        if arrival := _ARRIVED.match(line):
            limit_s = max(_TAKES_PART_S_B * self._claimed_b, _TAKES_PART_SHARE * self._claimed_s)
            is_costly = self._claimed_s > 0 and float(arrival["cpu_s"]) > limit_s
            if arrival["activity"] != "sleeps" or is_costly:
                transport = self._two_sided
            else:
                transport = "shared memory" if arrival["memory"] == "shared" else self._one_sided
            return Arrived(int(arrival["bytes"]), transport)
        return self._fault_finder.find(line)


class MpiPut(Injector):
    """`mpi_put`, which prints four rows a second and limits its own rate."""

    name = "mpi_put"
    row_s = 0.25
    #: Between hosts, the target's agent does not have the target's rank among its processes.
    suspendable = "on one host"
    is_launched = True
    writes_short = False
    footprint_by = "place"

    def __init__(self, name: str = "", direction: Direction = "write") -> None:
        super().__init__(name, direction)
        self.reports_arrivals = direction != "read"

    def can_be_held(self, *, on_one_host: bool) -> bool:
        """Return whether its ranks can be suspended: they must be descendants of the launcher.

        Those of `srun` are not. In a job of Slurm, MPICH's `mpiexec` starts an `srun` too.
        """
        return (
            super().can_be_held(on_one_host=on_one_host)
            and options.JOB_VARIABLE not in os.environ
            and _launcher_kind(options.words_of(launcher_of(program_path()))) != options.SRUN
        )

    def transport(self, writer: Writer) -> str:
        """Return the expected transport; the program reports the actual one (`Arrived`)."""
        if self.direction == "receive":
            return self._two_sided_transport(writer)
        if not _has_two_hosts(writer):
            return "shared memory"
        # If the writer names no RDMA device of this host, nothing more precise is known.
        return devices.transport(writer.device) if devices.is_rdma(writer.device) else "RDMA"

    def footprint_b(self, writer: Writer) -> int:
        """Return the size of the window of each direction, bytes."""
        window_messages = min(max(_MAX_WINDOW_B // writer.message_b, 1), _MAX_WINDOW_MESSAGES)
        return (writer.places(writer.message_b) or window_messages) * writer.message_b

    def origin_command(self, writer: Writer) -> list[str]:
        """Return the command that starts both ranks.

        The target is the rank on the target's node, or rank 0 if both share a host.
        """
        launcher = options.words_of(launcher_of(program_path()))
        kind = _launcher_kind(launcher)
        if not _has_two_hosts(writer):
            rank_options = _ONE_HOST_OPTIONS[kind]
        elif kind == options.SRUN and "SLURM_HET_SIZE" in os.environ:
            rank_options = options.RANKS_ON_COMPONENTS
        else:
            rank_options = _TWO_HOSTS_OPTIONS[kind]
        rank_options = rank_options.format(target=writer.target, origin=writer.origin)
        # A colon separates the options of two groups of ranks. Each group has its own command.
        first_options, *other_options = rank_options.split(":")
        rank_command = self.rank_command(writer)
        command = [*launcher, *first_options.split(), *rank_command]
        for group_options in other_options:
            command += [":", *launcher[1:], *group_options.split(), *rank_command]
        return command

    def rank_command(self, writer: Writer) -> list[str]:
        """Return the command of one rank, without the launcher."""
        command = [program_path(), "--size", str(writer.message_b)]
        command += ["--footprint", str(self.footprint_b(writer))] if writer.footprint_b else []
        command += ["--target", writer.target] if _has_two_hosts(writer) else []
        command += _OPTIONS[self.direction]
        command += ["--rate", f"{writer.rate_b_s:.9g}"] if writer.rate_b_s else []
        return command if writer.buffer_node is None else [*command, "-m", str(writer.buffer_node)]

    def environment(self, writer: Writer) -> dict[str, str]:
        """Return variables that leave binding to the agent, and choose the device or the folder.

        With them, a program that was compiled with the MPI of the wheels also loads this MPI.
        """
        variables = dict(LAUNCHER_VARIABLES)
        launcher = options.words_of(launcher_of(program_path()))
        if launcher and Path(launcher[0]).parent.resolve() == Path(sys.prefix, "bin").resolve():
            variables |= mpi_of_wheels(os.environ)
        if not _has_two_hosts(writer):
            variables |= _ONE_HOST_VARIABLES
            folder = os.environ.get(FOLDER_VARIABLE)
            return variables | (dict.fromkeys(_FOLDER_VARIABLES, folder) if folder else {})
        if writer.device:
            # If no variable can choose the device, MPI chooses one. If MPI chooses another device,
            # the bytes counted by the writer's device show this.
            with suppress(ValueError):
                variables |= devices.mpi_variables(writer.device)
        return variables

    def parser(self, writer: Writer) -> ReportParser:
        """Return a parser for the lines of both ranks."""
        return ReportParser(self.transport(writer), self._two_sided_transport(writer))

    def _two_sided_transport(self, writer: Writer) -> str:
        """Return the transport if the target's processor receives."""
        two_sided = _RECEIVES if self.direction == "receive" else _TWO_SIDED
        if not devices.is_rdma(writer.device):
            return two_sided
        return f"{devices.transport(writer.device)}+{two_sided}"

    def why_missing(self, device: str | None = None) -> str | None:
        """Return why program or launcher cannot be used, and the remedy; None if they can."""
        if not shutil.which(program_path()):
            return f"mpi_put is missing: 'make -C {SOURCE_FOLDER}', with an MPI's mpicc on PATH"
        launcher = launcher_of(program_path())
        if not launcher:  # for example because the modules of its MPI are not loaded
            words = _launcher_answer(program_path()).last_line.replace(": ", ", ")
            return f"mpi_put does not start ({words}): {_LOAD_REMEDY} 'make -B -C {SOURCE_FOLDER}'"
        if shutil.which(options.words_of(launcher)[0]):
            return None
        return f"{launcher} of mpi_put is missing: 'make -B -C {SOURCE_FOLDER} LAUNCHER=...'"

    def doubt(self) -> str | None:
        """Return a warning that the launcher may not reach all nodes of a job; None for srun.

        The launcher of MPICH stays in one component of a heterogeneous job.
        """
        launcher = launcher_of(program_path()) if shutil.which(program_path()) else ""
        if not launcher or _launcher_kind(options.words_of(launcher)) == options.SRUN:
            return None
        make_command = f"make -B -C {SOURCE_FOLDER} LAUNCHER='{options.srun_launcher('...')}'"
        return f"{launcher} of mpi_put may not reach a job's other nodes: {make_command}"


def _has_two_hosts(writer: Writer) -> bool:
    return writer.origin != writer.target


def program_path() -> str:
    """Return the path of `mpi_put` on PATH, or else in the folder in which it is compiled."""
    return shutil.which("mpi_put") or str(SOURCE_FOLDER / "mpi_put")


def _launcher_kind(launcher: list[str]) -> str:
    """Return the kind of a launcher, which decides its options: srun or mpiexec."""
    is_srun = launcher and Path(launcher[0]).name == options.SRUN
    return options.SRUN if is_srun else "mpiexec"


@functools.cache
def launcher_of(program: str) -> str:
    """Return the launcher of the program's MPI with its options, as the makefile has set it."""
    return _launcher_answer(program).stdout.strip()


def _launcher_answer(program: str) -> ProgramAnswer:
    return ask([program, "--launcher"], timeout_s=10)
