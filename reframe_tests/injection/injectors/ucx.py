"""One-sided puts with `ucx_perftest`: over shared memory on one host, over tcp between two."""

from __future__ import annotations

import re
import shutil
import sysconfig
from pathlib import Path
from typing import Literal

from reframe_tests.injection.injectors.base import Fault, Row, Writer

_WHEEL = Path(sysconfig.get_paths()["purelib"]) / "libucx"
_MIB = 2**20
#: The smallest message that counts as reaching DRAM, bytes.
_LEAST_DRAM_B = 64 * _MIB
#: Writes before the program ends by itself. It keeps eight bytes for each, so there cannot be more
#: of them at will; of 64 KiB they last 10 minutes at 2 GB/s, of 64 MiB a day at 15 GB/s.
_WRITES = "20000000"
_ROW = re.compile(r"^\[thread \d+\]\s+(\d+)\s+\S+\s+\S+\s+\S+\s+(\S+)\s")


def dram_message_b(llc_b: int) -> int:
    """Size of a write that the last-level caches (`llc_b` together) cannot hold, bytes."""
    return max(_LEAST_DRAM_B, 2 * llc_b)


class _Parser:
    """Rows of one second; the column headed 'MB/s' holds MiB/s."""

    def parse(self, line: str) -> Row | Fault | None:
        row = _ROW.match(line)
        if row:
            rate_b_s = float(row.group(2)) * _MIB
            return Row(rate_b_s, rate_b_s)
        return Fault(line.strip()) if "ERROR" in line else None


class Ucx:
    """See `base.Injector`."""

    name = "ucx"
    writes = True
    rates: Literal["full", "any"] = "full"
    row_s: float | None = 1.0

    def transport(self, writer: Writer) -> str:
        """Shared memory on one host, tcp between two."""
        return "shared memory" if writer.origin == writer.target else "tcp"

    def target_command(self, writer: Writer) -> list[str]:
        """The passive side sleeps instead of taking a core."""
        return [self._program(), "-p", str(writer.port), "-E", "sleep"]

    def origin_command(self, writer: Writer) -> list[str]:
        """Puts until it is stopped, a row a second."""
        size = ["-s", str(writer.message_b), "-n", _WRITES, "-w", "2"]
        return [self._program(), writer.address, "-p", str(writer.port), "-t", "ucp_put_bw", *size]

    def environment(self, writer: Writer) -> dict[str, str]:
        """Which transports UCX may use, and where the wheel keeps its libraries."""
        if writer.origin == writer.target:
            chosen = {"UCX_TLS": "posix,self"}
        else:
            chosen = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": writer.device or "all"}
        if self._program().startswith(str(_WHEEL)):
            chosen["LD_LIBRARY_PATH"] = str(_WHEEL / "lib")
        return chosen

    def parser(self) -> _Parser:
        """Reads one end's lines."""
        return _Parser()

    def missing(self) -> str | None:
        """Looks for the program in the wheel and on PATH."""
        if self._program():
            return None
        return "ucx_perftest is missing: 'pip install libucx-cu13', or 'apt install ucx-utils'"

    def _program(self) -> str:
        wheel = _WHEEL / "bin" / "ucx_perftest"
        return str(wheel) if wheel.is_file() else shutil.which("ucx_perftest") or ""
