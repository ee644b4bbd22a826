"""Rows and arrivals as the project's own writers print them: `mpi_put`, and those in Python."""

from __future__ import annotations

import re

from nimc.node.evidence.rates import Bursts
from nimc.node.injectors.base import Arrived, Fault, Row

_ROW = re.compile(
    r"^row (\d{1,9}\.\d{6}) s (\d{1,18}) B(?:, (\d{1,9}) bursts, (\d{1,9}\.\d{6}) s of writing)?$"
)
_ARRIVED = re.compile(
    r"^arrived (\d{1,18}) B by (shared|unshared) memory, target (sleeps|polls),"
    r" (\d{1,9}\.\d{6}) s of its processor$"
)
_FAULT = re.compile(r"^(?:mpi_put|writer): (.+)|^(Fatal error in .+|Abort\(.+|\w*Error: .+)")
#: From so much of its processor's time on the target takes part in receiving: seconds per byte, the
#: report's limit of onload, and as a share of a core, since it sleeps and looks at its memory.
_TAKES_PART_S_B = 0.05e-9
_TAKES_PART_SHARE = 0.01
TWO_SIDED = "two-sided"


class ReportParser:
    """Lines of both ends of a writer, mixed."""

    def __init__(self, transport: str, received: str) -> None:
        """What it goes over unless ends share memory, and if the target's processor receives."""
        self._transport, self._received = transport, received
        self._claimed_b = self._claimed_s = 0.0

    def parse(self, line: str) -> Row | Arrived | Fault | None:
        """What a line means; None for any other line."""
        line = line.rstrip("\n")
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
            if seen[3] == "polls" or is_costly:
                return Arrived(int(seen[1]), self._received)
            over = "shared memory" if seen[2] == "shared" else self._transport
            return Arrived(int(seen[1]), over)
        fault = _FAULT.match(line)
        return Fault(fault[1] or fault[2]) if fault else None
