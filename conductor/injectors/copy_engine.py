"""A GPU's copy engine writes memory of its host: `copy_engine`, this project's own program.

The device moves the bytes over PCIe, as a network card does, and no processor copies. It is no
RDMA: samples say so. The program needs the NVIDIA driver and nothing of CUDA's toolkit.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from conductor.injectors.base import Arrived, Fault, Faults, Injector, Row, Writer
from conductor.pcie import PREFIX
from records.programs import ask
from records.sample import Direction

_FOLDER = Path(__file__).parents[1] / "copy_engine"
TRANSPORT = "copy engine"
_ROW = re.compile(r"^row (\d{1,9}\.\d{6}) s (\d{1,18}) B$")
#: The line of the first GPU with its PCI address, and how long the driver may take to list them.
_FIRST = re.compile(r"^0 ([0-9A-Fa-f:.]{7,16}) ")
_LIST_S = 30
_ARRIVED = re.compile(r"^arrived (\d{1,18}) B$")
_OPTIONS: dict[Direction, list[str]] = {"write": [], "read": ["--get"], "both": ["--both"]}


class ReportParser:
    """Lines of the program."""

    def __init__(self) -> None:
        self._faults = Faults(re.compile(r"^copy_engine: (.+)"))

    def parse(self, line: str) -> Row | Arrived | Fault | None:
        """What a line means; None for any other line."""
        line = line.rstrip("\n")
        if (row := _ROW.match(line)) and (over_s := float(row[1])):
            return Row(int(row[2]) / over_s, over_s)
        if arrived := _ARRIVED.match(line):
            return Arrived(int(arrived[1]), TRANSPORT)
        return self._faults.find(line)


class CopyEngine(Injector):
    """`copy_engine`, which prints four rows a second and limits its own rate."""

    name = "copy_engine"
    row_s = 0.25
    on_own_host = True
    footprint_by = "place"
    writes_short = False

    def __init__(self, name: str = "", direction: Direction = "write") -> None:
        super().__init__(name, direction)
        self.reports_arrivals = direction != "read"

    def transport(self, writer: Writer) -> str:
        """PCIe: no network is involved."""
        return TRANSPORT

    def footprint_b(self, writer: Writer) -> int:
        """Its memory, of each direction."""
        return (writer.places(writer.message_b) or 1) * writer.message_b

    def origin_command(self, writer: Writer) -> list[str]:
        """Copies until it is stopped."""
        command = [_program(), "--size", str(writer.message_b), *_OPTIONS[self.direction]]
        command += ["--footprint", str(self.footprint_b(writer))] if writer.footprint_b else []
        command += ["--rate", f"{writer.rate_b_s:.9g}"] if writer.rate_b_s else []
        command += ["--every", f"{writer.burst.period_s:g}"] if writer.burst else []
        command += [] if writer.buffer_node is None else ["--node", str(writer.buffer_node)]
        return command

    def device(self) -> str | None:
        """The PCIe link of the first visible GPU."""
        first = _FIRST.search(ask([_program(), "--list"], timeout_s=_LIST_S).stdout)
        return f"{PREFIX}{first[1].lower()}" if first else None

    def parser(self, writer: Writer) -> ReportParser:
        """Parses the program's lines."""
        return ReportParser()

    def missing(self, device: str | None = None) -> str | None:
        """Looks for the program on PATH and where it is made, for the driver and for a GPU."""
        if not shutil.which(_program()):
            return f"copy_engine is missing: 'make -C {_FOLDER}'"
        listed = ask([_program(), "--list"], timeout_s=_LIST_S)
        return None if listed.ok else listed.last.removeprefix("copy_engine: ")


def _program() -> str:
    return shutil.which("copy_engine") or str(_FOLDER / "copy_engine")
