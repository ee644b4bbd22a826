"""One-sided puts and gets with `ucx_perftest`, over shared memory, verbs or tcp.

Shared memory is used if both ends are on one host.

The origin sends its options to the passive side, which then works with these. By default the
passive side spins on a core. Over shared memory and verbs the writes do not need it, so the agent
suspends it. Over tcp it must receive every byte. There the origin is given the wait mode `sleep`,
so that the passive side sleeps between messages.
"""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
from pathlib import Path

from conductor.injectors.base import Fault, FaultFinder, Injector, Row, Total, Writer
from conductor.shared_memory import FOLDER_VARIABLE
from conductor.wire import INTERFACE_VARIABLE
from records.machine import devices
from records.sample import Direction

_WHEEL_FOLDER = Path(sysconfig.get_paths()["purelib"]) / "libucx"
WHEEL_PROGRAM = _WHEEL_FOLDER / "bin" / "ucx_perftest"
#: How to install `ucx_perftest` with verbs. The wheel's `ucx_perftest` is built without them.
_INSTALL_WITH_VERBS = "'apt install ucx-utils', or 'dnf install ucx'"
_MIB = 2**20
#: Number of writes for which no campaign has enough time.
_ENDLESS_WRITES = 10**15
#: Number of writes over tcp. Before the passive side serves the first write, it counts through all
#: of them, which takes about 20 ns for each. Over tcp, the origin waits until it has counted, which
#: takes 2 s once a block.
_WRITES_OVER_TCP = 10**8
_TESTS: dict[Direction, str] = {"write": "ucp_put_bw", "read": "ucp_get"}
#: Number of outstanding messages, which is the program's default for writes. With its default for
#: reads, 1, latency would limit the rate of reads between two hosts.
_OUTSTANDING_MESSAGES = 32
#: Maximum of outstanding bytes of a writer that the agent paces, except that there is at least one
#: outstanding message. While the process is suspended, the device still sends what was posted.
_PACED_OUTSTANDING_B = 2 * _MIB
#: Transports over shared memory. Over POSIX shared memory, UCX has no one-sided gets, so the
#: target's CPU would send the bytes. With cma, the kernel copies between the processes, and the
#: target takes no part.
_SHARED_MEMORY_TRANSPORTS: dict[Direction, str] = {"write": "posix,self", "read": "posix,cma,self"}
#: Variable of the GID's index. Many sites set it. Without it, the two ends may choose GIDs of
#: different networks.
_GID_INDEX_VARIABLE = "UCX_IB_GID_INDEX"
#: The table's header, with the names of the columns after the number of iterations. The first of
#: these columns is a percentile or 'typical'.
_HEADER = re.compile(r"^\|.*# iterations \|(?P<columns>.*)\|$")
_COLUMNS = ["average", "overall"] * 3
#: A row: stage (not before UCX 1.9); iterations; percentile, average and overall microseconds of an
#: iteration; average and overall MiB/s; average and overall messages per second.
_ROW = re.compile(
    r"^(?P<stage>\[thread \d+\]|Final:)?\s+(?P<iterations>\d{1,18})"
    r"\s+\S+\s+(?P<average_us>\d{1,18}\.\d+)\s+\S+"
    r"\s+\S+\s+(?P<overall_mib_s>\d{1,18}\.\d+)\s+\S+\s+\S+\s*$"
)
_FAULT = re.compile(r"ERROR\s*(.*)|(.*(?:invalid|unrecognized) option.*)")
_CAUSE = re.compile(r"\bUCX\s+(?:WARN|DIAG)\s+(.*)")


class _Parser:
    """Parses rows of about one second, and the row of the whole test at its end."""

    def __init__(self, message_b: int, messages: int | None) -> None:
        self._message_b, self._messages = message_b, messages
        self._fault_finder = FaultFinder(_FAULT, _CAUSE)

    def parse(self, line: str) -> Row | Total | Fault | None:
        line = line.rstrip()
        if (header := _HEADER.match(line)) and not _are_known(header["columns"]):
            return Fault(f"a table of another version of the program: {' '.join(line.split())}")
        row = _ROW.match(line)
        if row is None:
            return self._fault_finder.find(line)
        self._fault_finder.forget()
        # Before UCX 1.9, and in some later builds, only the number of messages marks the last row.
        messages = int(row["iterations"])
        if row["stage"] == "Final:" or (row["stage"] is None and messages == self._messages):
            return Total(messages, float(row["overall_mib_s"]) * _MIB)
        message_us = float(row["average_us"])
        return Row(self._message_b / (message_us * 1e-6)) if message_us else None


def _are_known(columns: str) -> bool:
    """Return whether the table's columns after the iterations are those that `_ROW` expects."""
    return [column.strip() for column in columns.split("|")][1:] == _COLUMNS


class Ucx(Injector):
    """`ucx_perftest`, which prints a row per second."""

    name = "ucx"
    paced_by = "agent"
    footprint_by = "message"
    takes_gid = True
    program = "ucx_perftest"
    install = f"'pip install libucx-cu13', {_INSTALL_WITH_VERBS}"

    def transport(self, writer: Writer) -> str:
        """Return shared memory on one host; between hosts the RDMA device's transport, or tcp."""
        if writer.origin == writer.target:
            return "shared memory"
        return devices.transport(writer.device) if devices.is_rdma(writer.device) else "tcp"

    def target_command(self, writer: Writer) -> list[str]:
        """Return the command that waits for one origin."""
        return [self._program(writer), "-p", str(writer.port)]

    def origin_command(self, writer: Writer) -> list[str]:
        """Return the command that puts or gets, after one warm-up to set up the connection."""
        over_tcp = self.transport(writer) == "tcp"
        command = [self._program(writer), writer.address, "-p", str(writer.port)]
        command += ["-t", _TESTS[self.direction], "-O", str(_outstanding_messages(writer))]
        command += ["-s", str(writer.message_b), "-w", "1"]
        most_writes = _WRITES_OVER_TCP if over_tcp else _ENDLESS_WRITES
        command += ["-n", str(writer.messages or most_writes)]
        return [*command, "-E", "sleep"] if over_tcp else command

    def environment(self, writer: Writer) -> dict[str, str]:
        """Return the variables for transports and device, and the library path of the wheel."""
        transport = self.transport(writer)
        if transport == "shared memory":
            variables = {"UCX_TLS": _SHARED_MEMORY_TRANSPORTS[self.direction]}
            if folder := os.environ.get(FOLDER_VARIABLE):
                variables["UCX_POSIX_DIR"] = folder
        elif transport == "tcp":
            variables = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": writer.device or "all"}
        else:
            device_port = str(devices.resolve(writer.device or ""))
            variables = {"UCX_TLS": "rc,self", "UCX_NET_DEVICES": device_port}
            index = self.gid_index(writer.device, os.environ.get(INTERFACE_VARIABLE))
            if index is not None and _GID_INDEX_VARIABLE not in os.environ:
                variables[_GID_INDEX_VARIABLE] = str(index)
        if self._program(writer).startswith(str(_WHEEL_FOLDER)):
            variables["LD_LIBRARY_PATH"] = str(_WHEEL_FOLDER / "lib")
        if writer.messages:
            # Memory hooks take 0.4 s to set up, and a short write's program frees no memory.
            variables["UCX_MEM_EVENTS"] = "n"
        return variables

    def may_hang(self, writer: Writer) -> bool:
        """Return true over tcp. In four of 25 starts of reads by UCX 1.22, both ends hung."""
        return self.transport(writer) == "tcp"

    def freezes_target(self, writer: Writer) -> bool:
        """Return true except over tcp, where the target's CPU takes part in every write."""
        return self.transport(writer) != "tcp"

    def parser(self, writer: Writer) -> _Parser:
        """Return a parser for the lines of one end."""
        return _Parser(writer.message_b, writer.messages)

    def why_missing(self, device: str | None = None) -> str | None:
        """Return why it cannot run; None if it can.

        An RDMA device needs a program with verbs, on PATH. Without one, the wheel's program is
        enough.
        """
        if not devices.is_rdma(device):
            return None if WHEEL_PROGRAM.is_file() else super().why_missing()
        if shutil.which(self.program):
            return None
        return (
            f"{self.program} with verbs is missing for {device}: {_INSTALL_WITH_VERBS}; the"
            " wheel's is built without verbs"
        )

    def _program(self, writer: Writer) -> str:
        """Return the program on PATH; where no verbs are needed, the wheel's if it is installed."""
        if self.transport(writer) in ("shared memory", "tcp") and WHEEL_PROGRAM.is_file():
            return str(WHEEL_PROGRAM)
        return shutil.which(self.program) or self.program


def _outstanding_messages(writer: Writer) -> int:
    """Return the number of outstanding messages of a writer."""
    if writer.rate_b_s is None or writer.messages:
        return _OUTSTANDING_MESSAGES
    return min(max(_PACED_OUTSTANDING_B // writer.message_b, 1), _OUTSTANDING_MESSAGES)
