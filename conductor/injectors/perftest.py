"""RDMA with perftest. `ib_write_bw` makes writes, and `ib_read_bw` makes reads.

At full rate the program writes until it is stopped, and prints a row per second. With a rate limit
it prints only one row, at its end. Rows then come from the byte counter of the origin's device.
"""

from __future__ import annotations

import functools
import os
import re

from conductor.injectors.base import Fault, FaultFinder, Injector, Row, RowSource, Total, Writer
from conductor.wire import INTERFACE_VARIABLE
from records.machine import devices
from records.programs import ask
from records.sample import Direction

#: Unit in the table's header -> bytes per second. The MB of older versions is a MiB.
_UNITS = {"MB/sec": 2.0**20, "MiB/sec": 2.0**20, "Gb/sec": 1e9 / 8}
_HEADER = re.compile(
    r"^\s*#bytes\s+#iterations\s.*BW average\[(?P<unit>[^\]]+)\]\s+MsgRate\[Mpps\]"
)
_ROW = re.compile(
    r"^\s*(?P<bytes>\d{1,18})\s+(?P<iterations>\d{1,18})\s+(?P<peak>\d+\.\d+)"
    r"\s+(?P<average>\d{1,18}\.\d+)\s+(?P<message_rate>\d+\.\d{6})(?P<rest>.*)$"
)
_LETTER = re.compile(r"[^\W\d_]")
#: Columns that the program may add to a row.
_EXTRA_COLUMNS = re.compile(r"^(?:\s+\d+\.\d+)*")
#: Time stamp before a line in some logs.
_TIME_STAMP = re.compile(r"^\[\s*\d+\.\d+\] ?")
_FAULT = re.compile(
    r"Couldn't |Unable to |Did not detect |Failed |Failed:|\bfailed\b|not found|not support"
    r"|[Cc]ompletion with [Ee]rror|Bad WQE status|Unexpected CM event|Problems with "
)
#: Lines that may state the cause of a later fault: all lines except those that every run prints.
_CAUSE = re.compile(
    r"^(?!$|[-*#\d]|.*\S\s+: |.*: (?:ON|OFF)$|(?:local|remote) address:|GID:|.* BW Test$"
    r"|.*BW peak won't be measured)"
)
#: Options with which the connection manager connects the two ends.
_MANAGER_OPTIONS = {"-R", "--rdma_cm", "-z", "--com_rdma_cm"}
#: Options that name a GID, or let the manager find one.
_GID_OPTIONS = {"-x", "--gid-index", "-R", "--rdma_cm"}
#: The program refuses to write fewer messages than this.
_LEAST_MESSAGES = 5
#: How long the program measures the clock's frequency before it prints a row, seconds. It waits 200
#: times: for 100, 110, 120, ... microseconds.
_FREQUENCY_S = sum(100 + 10 * i for i in range(200)) / 1e6
#: Maximum number of outstanding messages of all queue pairs together. It is the program's default
#: for one queue pair.
_MOST_OUTSTANDING = 128
#: Maximum number of queue pairs that the program accepts.
_MOST_QUEUE_PAIRS = 16384
#: Time for which a writer with a rate limit writes, seconds. It is longer than any block.
_THROTTLED_S = 7 * 86400


class _Parser:
    """Parses the result table. Its header has the unit of all rows after it.

    Before it prints a row, the program measures the clock's frequency for 0.2 s or more. Bytes that
    it writes in that time are in no row.
    """

    def __init__(self, is_short: bool) -> None:
        """`is_short`: whether it is the table of a short write, whose only row is a `Total`."""
        self._is_short = is_short
        self._unit_b_s: float | None = None
        self._fault_finder = FaultFinder(_FAULT, _CAUSE)

    def parse(self, line: str) -> Row | Total | Fault | None:
        line = _TIME_STAMP.sub("", line.rstrip("\n"))
        if header := _HEADER.match(line):
            self._unit_b_s = _UNITS.get(header["unit"])
            return None if self._unit_b_s else Fault(f"rates in unknown unit {header['unit']!r}")
        if line.lstrip().startswith("#bytes"):
            return Fault(f"a table of another version of the program: {' '.join(line.split())}")
        row = _ROW.match(line)
        if row and self._unit_b_s:
            # A client that lost its server appends a fault to the row.
            if _LETTER.search(row["rest"]):
                return Fault(_EXTRA_COLUMNS.sub("", row["rest"]).strip())
            self._fault_finder.forget()
            iterations = int(row["iterations"])
            rate_b_s = float(row["average"]) * self._unit_b_s
            if self._is_short:
                return Total(iterations, rate_b_s, _FREQUENCY_S)
            over_s = int(row["bytes"]) * iterations / rate_b_s if rate_b_s else None
            return Row(rate_b_s, over_s, _FREQUENCY_S)
        return self._fault_finder.find(line)


class Perftest(Injector):
    """A program of perftest, chosen by direction: `ib_write_bw` or `ib_read_bw`."""

    name = "perftest"
    suspendable = "after a row"
    footprint_by = "place"
    takes_options = True
    takes_gid = True
    max_message_b = 2**31 - 1  # UINT_MAX / 2 in perftest_parameters.c
    most_places = most_queue_pairs = _MOST_QUEUE_PAIRS
    install = (
        "'apt install perftest', 'dnf install perftest', or, where drivers are from MLNX_OFED or"
        " DOCA-OFED, the package perftest that comes with them"
    )

    def __init__(self, name: str = "", direction: Direction = "write") -> None:
        super().__init__(name, direction)
        self.program = f"ib_{direction}_bw"

    def transport(self, writer: Writer) -> str:
        """Return the fabric of the writer's device on this host, by default of the first device."""
        return devices.transport(writer.device)

    def footprint_b(self, writer: Writer) -> int:
        """Return the size of all buffers. Each queue pair overwrites a buffer of its own."""
        return self.queue_pairs(writer) * _buffer_b(writer)

    def queue_pairs(self, writer: Writer) -> int:
        """Return one queue pair per buffer of a chosen footprint, or else the writer's number."""
        return writer.places(_buffer_b(writer)) or writer.queue_pairs

    def target_command(self, writer: Writer) -> list[str]:
        """Return the server's command. The server sleeps until a client connects."""
        command = [self.program, "-F", "-p", str(writer.port), "-s", str(writer.message_b)]
        if (pairs := self.queue_pairs(writer)) > 1:
            command += ["-q", str(pairs), "-t", str(max(_MOST_OUTSTANDING // pairs, 1))]
        if writer.device:
            name, port = devices.resolve(writer.device)
            command += ["-d", name]
            if port != 1:
                command += ["-i", str(port)]
        command += self.options(writer)
        if self._binds_itself():
            command.append("--disable_numa")
        if writer.messages:
            command += ["-n", str(max(writer.messages, _LEAST_MESSAGES))]
        elif writer.rate_b_s is None:
            command += ["--run_infinitely", "-D", "1"]
        else:
            command += ["-D", str(_THROTTLED_S)]
        return command if writer.rate_b_s is None else [*command, *_limit_options(writer)]

    def options(self, writer: Writer) -> list[str]:
        """Return options of the fabric, a GID index for this host, options of the machine's file.

        If the machine's file has an option about the GID, no index is added.
        """
        fabric = devices.fabric(writer.device) if writer.device else None
        options = [*fabric.perftest_options] if fabric else []
        option_names = {option.partition("=")[0] for option in writer.options}
        if not option_names & _GID_OPTIONS:
            index = self.gid_index(writer.device, os.environ.get(INTERFACE_VARIABLE))
            options += ["-x", str(index)] if index is not None else []
        return [*options, *writer.options]

    def origin_command(self, writer: Writer) -> list[str]:
        """Return the client's command, which is the server's command with the target's address."""
        return [*self.target_command(writer), writer.address]

    def row_source(self, writer: Writer) -> RowSource:
        """Return `output` at full rate; with a limit `counter`, since only the end prints a row."""
        return "output" if writer.rate_b_s is None else "counter"

    def listens_over_tcp(self, writer: Writer) -> bool:
        """Return whether the ends connect over TCP, and not through the connection manager."""
        return not _MANAGER_OPTIONS & set(self.options(writer))

    def parser(self, writer: Writer) -> _Parser:
        """Return a parser for the lines of one end."""
        return _Parser(is_short=writer.messages is not None)

    def own_binding(self) -> str:
        """Return the option that turned the program's own binding off, or that there is no binding.

        Since 2026 the program binds itself to the device's NUMA node, unless an option forbids it.
        """
        return "off (--disable_numa)" if self._binds_itself() else "none in this version"

    def _binds_itself(self) -> bool:
        """Return whether this version would undo the pinning and memory binding of the agent."""
        return "--disable_numa" in help_text(self.program)


def _buffer_b(writer: Writer) -> int:
    """Return the size of a queue pair's buffer: one message, or a page for small messages.

    Messages of at most half a page step through the page.
    """
    page_b = os.sysconf("SC_PAGESIZE")
    return page_b if writer.message_b <= page_b // 2 else writer.message_b


def _limit_options(writer: Writer) -> list[str]:
    """Return the options that limit a writer's rate."""
    assert writer.rate_b_s is not None, "a writer at full rate has no limit"
    # The program takes only whole numbers of MiB/s, but decimals of Gb/s.
    gbit_s = writer.rate_b_s * 8 / 1e9
    limit = ["--rate_limit", f"{gbit_s:.6g}", "--rate_units", "g"]
    # With SW, the program waits after each message until its mean rate has fallen to the limit.
    return [*limit, "--rate_limit_type", "SW", "--burst_size", "1"]


@functools.cache
def help_text(program: str) -> str:
    """Return the help text of the installed version."""
    return ask([program, "--help"], timeout_s=10).text
