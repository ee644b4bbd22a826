"""Real RDMA with perftest: writes by `ib_write_bw`, reads by `ib_read_bw`.

At full rate it writes until stopped and prints a row per second. With a rate limit it prints only
one row at its end, so the rows are read from the byte counter of the origin's device.
"""

from __future__ import annotations

import functools
import os
import re

from conductor.injectors.base import Fault, Faults, Injector, Row, RowSource, Total, Writer
from conductor.wire import INTERFACE_VARIABLE
from records.machine import devices
from records.programs import ask
from records.sample import Direction

#: Unit in the table's header -> bytes per second. What older versions call MB is MiB.
_UNITS = {"MB/sec": 2.0**20, "MiB/sec": 2.0**20, "Gb/sec": 1e9 / 8}
_HEADER = re.compile(r"^\s*#bytes\s+#iterations\s.*BW average\[([^\]]+)\]\s+MsgRate\[Mpps\]")
_ROW = re.compile(r"^\s*(\d{1,18})\s+(\d{1,18})\s+(\d+\.\d+)\s+(\d{1,18}\.\d+)\s+(\d+\.\d{6})(.*)$")
_TEXT = re.compile(r"[^\W\d_]")
#: Columns that the program may add to a row.
_MORE = re.compile(r"^(?:\s+\d+\.\d+)*")
#: A log's time stamp before the line.
_STAMP = re.compile(r"^\[\s*\d+\.\d+\] ?")
_FAULT = re.compile(
    r"Couldn't |Unable to |Failed |Failed:|\bfailed\b|not found|not support"
    r"|[Cc]ompletion with [Ee]rror|Bad WQE status|Unexpected CM event|Problems with "
)
#: A line before a fault may give its cause unless both ends print it in any run.
_CAUSE = re.compile(
    r"^(?!$|[-*#\d]|.*\S\s+: |.*: (?:ON|OFF)$|(?:local|remote) address:|GID:|.* BW Test$"
    r"|.*BW peak won't be measured)"
)
#: Options that let the connection manager connect, and those that name a GID, or let it find one.
_BY_MANAGER = {"-R", "--rdma_cm", "-z", "--com_rdma_cm"}
_WITH_GID = {"-x", "--gid-index", "-R", "--rdma_cm"}
#: The program refuses to write fewer messages.
_LEAST_MESSAGES = 5
#: Before printing a row the program measures the clock's frequency: it waits 200
#: times, for 100, 110, 120, ... microseconds.
_FREQUENCY_S = sum(100 + 10 * i for i in range(200)) / 1e6
#: Messages of all queue pairs that may be under way, which is the program's default for one; and
#: the most queue pairs that it accepts.
_DEPTH, _MOST_QUEUE_PAIRS = 128, 16384
#: How long a throttled writer writes, seconds: longer than any run.
_LONG_S = 7 * 86400


class _Parser:
    """Rows of the result table. Their unit is in the header, and applies to all rows after it.

    Before each row the program measures the clock's frequency, for 0.2 s or more; what is written
    in that time is in no row.
    """

    def __init__(self, short: bool) -> None:
        self._short = short
        self._unit_b_s: float | None = None
        self._faults = Faults(_FAULT, _CAUSE)

    def parse(self, line: str) -> Row | Total | Fault | None:
        line = _STAMP.sub("", line.rstrip("\n"))
        if header := _HEADER.match(line):
            self._unit_b_s = _UNITS.get(header[1])
            return None if self._unit_b_s else Fault(f"rates in unknown unit {header[1]!r}")
        if line.lstrip().startswith("#bytes"):
            return Fault(f"a table of another version of the program: {' '.join(line.split())}")
        row = _ROW.match(line)
        if row and self._unit_b_s:
            iterations, average = int(row[2]), float(row[4])
            if _TEXT.search(row[6]):  # appended to the row of a client without its server
                return Fault(_MORE.sub("", row[6]).strip())
            self._faults.forget()
            rate_b_s = average * self._unit_b_s
            if self._short:
                return Total(iterations, rate_b_s, _FREQUENCY_S)
            over_s = int(row[1]) * iterations / rate_b_s if rate_b_s else None
            return Row(rate_b_s, over_s, _FREQUENCY_S)
        return self._faults.find(line)


class Perftest(Injector):
    """One program of perftest."""

    name = "perftest"
    holds = "after a row"
    footprint_by = "place"
    takes_options = True
    most_places = most_queue_pairs = _MOST_QUEUE_PAIRS
    install = (
        "'apt install perftest', 'dnf install perftest', or, where drivers are from MLNX_OFED or"
        " DOCA-OFED, the package perftest that comes with them"
    )

    def __init__(self, name: str = "", direction: Direction = "write") -> None:
        super().__init__(name, direction)
        self.program = f"ib_{direction}_bw"

    def transport(self, writer: Writer) -> str:
        """InfiniBand, RoCE or soft-RoCE, read from this host's device of that name."""
        return devices.transport(writer.device)

    def footprint_b(self, writer: Writer) -> int:
        """Every queue pair overwrites a buffer of its own."""
        return self.queue_pairs(writer) * _buffer_b(writer)

    def queue_pairs(self, writer: Writer) -> int:
        """As many as a chosen footprint has buffers, else as many as the writer has."""
        return writer.places(_buffer_b(writer)) or writer.queue_pairs

    def target_command(self, writer: Writer) -> list[str]:
        """Waits for one client, sleeping; must be given the same length as the client."""
        command = [self.program, "-F", "-p", str(writer.port), "-s", str(writer.message_b)]
        if (pairs := self.queue_pairs(writer)) > 1:
            command += ["-q", str(pairs), "-t", str(max(_DEPTH // pairs, 1))]
        if writer.device:
            name, port = devices.chosen(writer.device)
            command += ["-d", name, *(["-i", str(port)] if port != 1 else [])]
        command += self.options(writer)
        if self._binds_itself():
            command.append("--disable_numa")
        if writer.messages:
            command += ["-n", str(max(writer.messages, _LEAST_MESSAGES))]
        elif writer.rate_b_s is None:
            return [*command, "--run_infinitely", "-D", "1"]
        else:
            command += ["-D", str(_LONG_S)]
        return command if writer.rate_b_s is None else [*command, *_limit(writer)]

    def options(self, writer: Writer) -> list[str]:
        """Its fabric's, the index of a GID that fits this host, and those of the machine's file."""
        fabric, given = devices.fabric(writer.device) if writer.device else None, writer.options
        words = [*fabric.perftest] if fabric else []
        names = {word.partition("=")[0] for word in given}
        if fabric and writer.device and fabric.has_gids and not names & _WITH_GID:
            index = devices.gid_index(writer.device, os.environ.get(INTERFACE_VARIABLE))
            words += ["-x", str(index)] if index is not None else []
        return [*words, *given]

    def origin_command(self, writer: Writer) -> list[str]:
        """Connects to the target's address."""
        return [*self.target_command(writer), writer.address]

    def row_source(self, writer: Writer) -> RowSource:
        """The table at full rate; a throttled writer prints nothing before its end."""
        return "output" if writer.rate_b_s is None else "counter"

    def listens_over_tcp(self, writer: Writer) -> bool:
        """Not with the manager of connections, which replaces TCP."""
        return not _BY_MANAGER & set(self.options(writer))

    def parser(self, writer: Writer) -> _Parser:
        """Parses one end's lines."""
        return _Parser(short=writer.messages is not None)

    def own_binding(self) -> str:
        """Since 2026 it binds itself to the device's NUMA node; an option turns that off."""
        return "off (--disable_numa)" if self._binds_itself() else "none in this version"

    def _binds_itself(self) -> bool:
        """Whether it would undo the agent's pinning and buffer binding."""
        return "--disable_numa" in _help(self.program)


def _buffer_b(writer: Writer) -> int:
    """A message, or the page that messages up to half of it step through."""
    page_b = os.sysconf("SC_PAGESIZE")
    return page_b if writer.message_b <= page_b // 2 else writer.message_b


def _limit(writer: Writer) -> list[str]:
    """Options that hold a throttled writer's rate."""
    assert writer.rate_b_s is not None, "a writer at full rate has no limit"
    # Limits in MiB/s are whole numbers; those in Gb/s may have decimals.
    gbit_s = writer.rate_b_s * 8 / 1e9
    limit = ["--rate_limit", f"{gbit_s:.6g}", "--rate_units", "g"]
    # After each message it waits until their mean rate is that limit.
    return [*limit, "--rate_limit_type", "SW", "--burst_size", "1"]


@functools.cache
def _help(program: str) -> str:
    """Help text of the installed version."""
    return ask([program, "--help"], timeout_s=10).text
