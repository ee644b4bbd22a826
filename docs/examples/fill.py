"""An injector of a few lines, which fills memory of a shared host."""

from __future__ import annotations

import re
import sys

from conductor.injectors.base import Fault, Injector, Row, Total, Writer

#: Copies a message again and again, and prints a row every 0.25 s.
_PROGRAM = """
import mmap, sys, time
size_b = int(sys.argv[1])
data, buffer = bytes(size_b), mmap.mmap(-1, size_b)
copies, start_s = 0, time.monotonic()
while True:
    buffer[:] = data
    copies += 1
    now_s = time.monotonic()
    if now_s - start_s >= 0.25:
        print(f"filled {copies * size_b / (now_s - start_s):.0f} B/s", flush=True)
        copies, start_s = 0, now_s
"""
_ROW = re.compile(r"^filled (\d+) B/s$")


class _Parser:
    def parse(self, line: str) -> Row | Total | Fault | None:
        row = _ROW.match(line.strip())
        if row:
            return Row(float(row[1]))
        return Fault(line.strip()) if "Error" in line else None


class Fill(Injector):
    """A writer that the agent paces."""

    name = "fill"
    paced_by = "agent"
    row_s = 0.25

    def transport(self, writer: Writer) -> str:
        """Return the transport: writes stay in the memory of this host."""
        return "shared memory"

    def origin_command(self, writer: Writer) -> list[str]:
        """Return the command that copies `message_b` bytes repeatedly until it is stopped."""
        return [sys.executable, "-S", "-c", _PROGRAM, str(writer.message_b)]

    def parser(self, writer: Writer) -> _Parser:
        """Return the parser of the writer's lines."""
        return _Parser()
