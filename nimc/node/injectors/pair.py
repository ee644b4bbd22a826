"""What the project's own writers share.

All, `mpi_put` included, print rows and arrivals in one form. Those in Python are two processes with
a connection and a pace: the target's end listens on the writer's port, to which the origin's end
connects. Over that connection they exchange what their library needs to know, and the target
reports what it has found in its memory, which the origin prints among its rows. A file of such an
injector has both ends' programs, which are started as `main` of that file.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from nimc.base.checkout import python_code, python_main
from nimc.base.programs import ask
from nimc.node.evidence.rates import Bursts
from nimc.node.injectors.base import Arrived, Fault, Faults, Injector, Row, Writer
from nimc.records.treatment import Burst

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
        self._faults = Faults(_FAULT)

    def parse(self, line: str) -> Row | Arrived | Fault | None:
        """What a line means; None for any other line."""
        line = line.rstrip("\n")
        if (row := _ROW.match(line)) and (over_s := float(row[1])):
            self._claimed_b += int(row[2])
            self._claimed_s += over_s
            self._faults.forget()
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
        return self._faults.find(line)


#: Time between two rows, and between two reports of arrivals; the most that a limited writer
#: catches up with, seconds.
_ROW_S, _LATE_S = 0.25, 0.25
#: How long an end waits for the other's words, seconds.
_ANSWER_S = 30.0
#: Bytes read at a time, and of a line at most.
_CHUNK_B, _MOST_B = 1 << 16, 1 << 20


class Paired(Injector):
    """An injector whose ends are programs of its own file, on a library that may be missing."""

    row_s = _ROW_S
    reports_arrivals = True
    writes_short = False
    spaces_bursts = True
    #: The module that its ends import, and the extra that installs it.
    module: str
    extra: str

    def transport(self, writer: Writer) -> str:
        """The connection's, of which the target reports whether its processor receives."""
        return "tcp"

    def target_command(self, writer: Writer) -> list[str]:
        """Listens on the writer's port."""
        return self._command("target", writer)

    def origin_command(self, writer: Writer) -> list[str]:
        """Connects to the target's port, and writes until it is stopped."""
        return self._command("origin", writer)

    def _command(self, role: str, writer: Writer) -> list[str]:
        burst = writer.burst or Burst(0.0, 0.0)
        numbers = (writer.rate_b_s or 0.0, burst.length_s, burst.pause_s)
        # On one host they are bound to the loopback interface.
        device = writer.device or ("lo" if writer.origin == writer.target else "")
        words = [role, writer.address, str(writer.port), str(writer.message_b), device]
        module = f"nimc.node.injectors.{self.name}"
        return python_main(module, *words, *(f"{number:.9g}" for number in numbers))

    def parser(self, writer: Writer) -> ReportParser:
        """Parses the origin's lines, among which are the target's."""
        transport = self.transport(writer)
        return ReportParser(transport, f"{transport}+{TWO_SIDED}")

    def missing(self) -> str | None:
        """Imports the library, as its ends do."""
        if ask(python_code(f"import {self.module}")).ok:
            return None
        return f"{self.module} is missing: 'sh scripts/setup.sh {self.extra}' in the checkout"


@dataclass(frozen=True)
class Ends:
    """Settings of both ends, from the command line."""

    address: str
    port: int
    message_b: int
    #: RDMA device or network interface; empty is the library's choice.
    device: str
    #: Bytes per second; 0 is full rate.
    rate_b_s: float
    #: Bursts of which that is the mean; without, both are 0.
    burst: Burst


def run(target: Callable[[Ends, Link], None], origin: Callable[[Ends, Link], None]) -> None:
    """Run the end that the command line names."""
    role, address, port, message_b, device, rate_b_s, length_s, pause_s = sys.argv[1:]
    burst = Burst(float(length_s), float(pause_s))
    ends = Ends(address, int(port), int(message_b), device, float(rate_b_s), burst)
    if role == "origin":
        with socket.create_connection((address, ends.port)) as connection:
            origin(ends, Link(connection))
        return
    with socket.create_server((address, ends.port), backlog=1) as server:
        connection, _ = server.accept()
    with connection:
        target(ends, Link(connection))


class Link:
    """One end of the connection: lines of text both ways. Each end exits when the other has."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._text = b""
        #: When the last report was, and the processor time before the first; None before it.
        self._reported_s = 0.0
        self._before_s: float | None = None

    @property
    def own_address(self) -> str:
        """This host's address, as the other end sees it."""
        return str(self._connection.getsockname()[0])

    def send(self, line: str) -> None:
        """Send a line, without its end."""
        self._connection.settimeout(_ANSWER_S)
        try:
            self._connection.sendall(line.encode() + b"\n")
        except OSError:
            _gone()

    def receive(self) -> str:
        """The next line; exits if none comes in time."""
        self._connection.settimeout(_ANSWER_S)
        while b"\n" not in self._text:
            self._more()
        line, _, self._text = self._text.partition(b"\n")
        return line.decode()

    def has_line(self) -> bool:
        """Whether a line has come."""
        self._connection.setblocking(False)
        self._more()
        return b"\n" in self._text

    def _more(self) -> None:
        try:
            text = self._connection.recv(_CHUNK_B)
        except BlockingIOError:
            return
        except TimeoutError:
            sys.exit(f"writer: the other end said nothing for {_ANSWER_S:.0f} s")
        except OSError:
            text = b""
        if not text or len(self._text) > _MOST_B:
            _gone()
        self._text += text

    def report(self, bytes_b: int) -> None:
        """At the target: tell the origin what has arrived, a quarter of a second after the last."""
        if self._before_s is None:  # what setting up has taken is no receiving
            self._before_s = time.process_time()
        if (now_s := time.monotonic()) - self._reported_s >= _ROW_S:
            used_s = time.process_time() - self._before_s
            self.send(
                f"arrived {bytes_b} B by unshared memory, target sleeps,"
                f" {used_s:.6f} s of its processor"
            )
            self._reported_s = now_s


def _gone() -> NoReturn:
    """Exit at once: libraries that still have a stream would wait for the other end."""
    print("writer: the other end has gone", flush=True)
    os._exit(1)


def write(ends: Ends, link: Link, step_b: int, put: Callable[[int], None]) -> None:
    """At the origin: `put` steps of so many bytes, evenly spaced, or as fast as possible.

    `put` is given the bytes before. Prints the target's reports, and rows, which end where a burst
    begins.
    """
    pace = _Pace(ends.rate_b_s, ends.burst)
    row_s, total_b, row_b = time.monotonic(), 0, 0
    while True:
        begins_burst = pace.wait(step_b)
        now_s = time.monotonic()
        if now_s - row_s >= _ROW_S and begins_burst:
            print(f"row {now_s - row_s:.6f} s {total_b - row_b} B", flush=True)
            row_s, row_b = now_s, total_b
        while link.has_line():
            print(link.receive(), flush=True)
        put(total_b)
        total_b += step_b


class _Pace:
    """Spaces steps evenly, within bursts if there are any."""

    def __init__(self, rate_b_s: float, burst: Burst) -> None:
        """A rate of 0 is full rate; a burst of 0 s none."""
        self._length_s, self._pause_s = burst.length_s, burst.pause_s
        self._peak_b_s = rate_b_s / burst.duty if burst.length_s else rate_b_s
        self._began_s = time.monotonic()
        #: The time that all steps so far take, without pauses, and the bursts that they had.
        self._written_s, self._bursts = 0.0, 0

    def wait(self, step_b: int) -> bool:
        """Wait until the next step is due. Whether a burst begins with it; without bursts, always.

        A late step goes at once, and at most a quarter of a second is made up for.
        """
        if not self._peak_b_s:
            return True
        bursts = int(self._written_s // self._length_s) if self._length_s else self._bursts + 1
        due_s = self._began_s + self._written_s
        due_s += bursts * self._pause_s if self._length_s else 0.0
        late_s = max(time.monotonic() - _LATE_S - due_s, 0.0)
        self._began_s += late_s
        time.sleep(max(due_s + late_s - time.monotonic(), 0.0))
        self._written_s += step_b / self._peak_b_s
        begins, self._bursts = bursts > self._bursts, bursts
        return begins
