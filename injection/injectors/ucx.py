"""One-sided puts and gets with `ucx_perftest`: over shared memory on one host, verbs or tcp else.

Its passive side spins on a core from the moment an origin connects, whatever wait mode it was
started with: the origin's options replace its own. Over shared memory and verbs it has no part in
the writes, so the agent suspends it. Over tcp it must receive every byte, and the wait mode `sleep`
lets it rest between them.
"""

from __future__ import annotations

import re
import shutil
import sysconfig
from pathlib import Path
from typing import Literal

from analysis.sample import Direction
from injection.injectors.base import Fault, Row, RowSource, Total, Writer
from injection.machine import devices

_WHEEL = Path(sysconfig.get_paths()["purelib"]) / "libucx"
_MIB = 2**20
#: More writes than a campaign has time for.
_FOREVER = 10**15
#: The passive side counts all writes to come before it serves the first one, at some 20 ns each.
#: Only over tcp does the origin have to wait for it: this many cost 0.4 s.
_MOST_OVER_TCP = 2 * 10**7
_TESTS: dict[Direction, str] = {"write": "ucp_put_bw", "read": "ucp_get"}
#: Messages on the way at a time, the default of writes; of reads it is 1, and latency would bound
#: the rate between two hosts.
_OUTSTANDING = 32
#: Of a paced writer they are at most so many bytes, if not a single message: a device goes on with
#: what it was given while the process pauses.
_PACED_B = 2 * _MIB
#: UCX has no one-sided gets over POSIX memory: there the target's CPU would send. The kernel copies
#: from process to process (cma) without it.
_SHARED_MEMORY: dict[Direction, str] = {"write": "posix,self", "read": "posix,cma,self"}
#: `[thread 0]  iterations  percentile  average  overall  MiB/s  MiB/s  msg/s  msg/s`.
_ROW = re.compile(r"^\[thread \d+\]\s+\d+\s+\S+\s+(\d+\.\d+)\s+\S+\s+\d+\.\d+\s")
#: Iterations; typical, average and overall microseconds of one; average and overall MiB/s.
_FINAL = re.compile(r"^Final:\s+(\d+)\s+\S+\s+\S+\s+\S+\s+\S+\s+(\S+)\s")


class _Parser:
    """Rows of about one second."""

    def __init__(self, message_b: int) -> None:
        self._message_b = message_b

    def parse(self, line: str) -> Row | Total | Fault | None:
        final = _FINAL.match(line)
        if final:
            return Total(int(final.group(1)), float(final.group(2)) * _MIB)
        row = _ROW.match(line)
        if row:
            return Row(self._message_b / (float(row.group(1)) * 1e-6))
        if "ERROR" in line:
            return Fault(line.partition("ERROR")[2].strip())
        return None


class Ucx:
    """See `base.Injector`."""

    writes = True
    rates: Literal["full", "any"] = "any"
    paced_by: Literal["program", "agent"] = "agent"
    row_s: float | None = 1.0

    def __init__(self, name: str = "ucx", direction: Direction = "write") -> None:
        self.name = name
        self.direction: Direction = direction

    def transport(self, writer: Writer) -> str:
        """Shared memory on one host; between two, verbs where an RDMA device is named, or tcp."""
        if writer.origin == writer.target:
            return "shared memory"
        return "verbs" if devices.is_rdma(writer.device) else "tcp"

    def target_command(self, writer: Writer) -> list[str]:
        """Waits for one origin."""
        return [self._program(writer), "-p", str(writer.port)]

    def origin_command(self, writer: Writer) -> list[str]:
        """Puts or gets, after one that sets up the connection: a row a second until stopped."""
        over_tcp = self.transport(writer) == "tcp"
        command = [self._program(writer), writer.address, "-p", str(writer.port)]
        command += ["-t", _TESTS[self.direction], "-O", str(_outstanding(writer))]
        command += ["-s", str(writer.message_b), "-w", "1"]
        command += ["-n", str(writer.messages or (_MOST_OVER_TCP if over_tcp else _FOREVER))]
        return [*command, "-E", "sleep"] if over_tcp else command

    def environment(self, writer: Writer) -> dict[str, str]:
        """Which transports UCX may use, and where the wheel keeps its libraries."""
        transport = self.transport(writer)
        if transport == "shared memory":
            chosen = {"UCX_TLS": _SHARED_MEMORY[self.direction]}
        elif transport == "verbs":
            chosen = {"UCX_TLS": "rc,self", "UCX_NET_DEVICES": f"{writer.device}:1"}
        else:
            chosen = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": writer.device or "all"}
        if self._program(writer).startswith(str(_WHEEL)):
            chosen["LD_LIBRARY_PATH"] = str(_WHEEL / "lib")
        if writer.messages:
            # Watching for freed memory takes 0.4 s to set up, and a write's program frees none.
            chosen["UCX_MEM_EVENTS"] = "n"
        return chosen

    def row_source(self, writer: Writer) -> RowSource:
        """It prints a row a second, flushed."""
        return "output"

    def freezes_target(self, writer: Writer) -> bool:
        """Yes, except over tcp, where the target's CPU takes part in every write."""
        return self.transport(writer) != "tcp"

    def parser(self, writer: Writer) -> _Parser:
        """Reads one end's lines."""
        return _Parser(writer.message_b)

    def own_binding(self) -> str:
        """Nothing: it has an option for CPUs, which is not used, and none for memory."""
        return "none"

    def missing(self) -> str | None:
        """Looks for the program in the wheel and on PATH."""
        if self._wheel() or shutil.which("ucx_perftest"):
            return None
        return (
            "ucx_perftest is missing: 'pip install libucx-cu13', 'apt install ucx-utils',"
            " or 'dnf install ucx'"
        )

    def _program(self, writer: Writer) -> str:
        """The wheel's, which is built without verbs; over verbs the one on PATH."""
        on_path = shutil.which("ucx_perftest") or ""
        if self.transport(writer) == "verbs":
            return on_path or "ucx_perftest"
        return self._wheel() or on_path or "ucx_perftest"

    def _wheel(self) -> str:
        program = _WHEEL / "bin" / "ucx_perftest"
        return str(program) if program.is_file() else ""


def _outstanding(writer: Writer) -> int:
    """How many messages may be on the way at a time."""
    if writer.rate_b_s is None or writer.messages:
        return _OUTSTANDING
    return min(max(_PACED_B // writer.message_b, 1), _OUTSTANDING)
