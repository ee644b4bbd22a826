"""Writes by `fi_rma_bw` of libfabric's fabtests, over any fabric that libfabric has a provider for.

It prints one line, at its end, so rows are read from the byte counter of the origin's device. Of
its operations only `writedata` goes one way: a one-sided write that also leaves a completion at the
target. The target's process takes these, and answers each window of writes with a short message.
Both ends spin: where they wait asleep (`-c sread`), a signal that suspends them ends them.
"""

from __future__ import annotations

import re

from conductor.injectors.base import Fault, Faults, Injector, RowSource, Total, Writer
from records.machine import devices

_MIB = 2**20
#: Transport -> provider of libfabric.
_PROVIDERS = {
    "Slingshot": "cxi",
    "EFA": "efa",
    "Omni-Path": "opx",
    "tcp": "tcp",
    "shared memory": "shm",
}
#: The provider of devices with verbs.
_VERBS = "verbs;ofi_rxm"
#: The most that the program counts to: 39 hours of writing with 64 KiB at 1 GB/s.
_MOST = 2**31 - 1
#: Writes of a window, and the most bytes of one: all have buffers of their own at the origin.
_WINDOW, _WINDOW_B = 64, 64 * _MIB
#: The most bytes of a window of a paced writer: the device still sends what was posted.
_PACED_B = 2 * _MIB
_LAST = re.compile(r"^- \{ xfer_size: \d{1,18}, iterations: (\d{1,10}), .*MB/sec: (\d{1,12}\.\d+),")
_FAULT = re.compile(r"ret=-\d|^\[error\]|^\w+: [A-Z]|^Invalid|timeout expired")


class _Parser:
    def __init__(self) -> None:
        self._faults = Faults(_FAULT)

    def parse(self, line: str) -> Total | Fault | None:
        if last := _LAST.match(line):
            return Total(int(last[1]), float(last[2]) * 1e6)  # bytes per microsecond
        return self._faults.find(line)


class Fabtests(Injector):
    """A writer that the agent paces, and counts by its device."""

    name = "fabtests"
    paced_by = "agent"
    program = "fi_rma_bw"
    install = "'dnf install fabtests', 'spack install fabtests', or fabtests of libfabric's sources"

    def transport(self, writer: Writer) -> str:
        """That of the device of that name, tcp over an interface; without, shared memory or tcp."""
        if devices.is_rdma(writer.device):
            return devices.transport(writer.device)
        here = writer.device is None and writer.origin == writer.target
        return "shared memory" if here else "tcp"

    def target_command(self, writer: Writer) -> list[str]:
        """Waits for one origin; must be given the same messages."""
        transport = self.transport(writer)
        command = [self.program, "-p", _PROVIDERS.get(transport, _VERBS)]
        if writer.device:
            # This provider names a domain after the device and what it offers.
            name = devices.chosen(writer.device).name
            command += ["-d", f"{name}-rdm" if transport == "EFA" else name]
        command += [f"-E={writer.port}", "-o", "writedata", "-S", str(writer.message_b)]
        command += ["-W", str(_window(writer)), "-w", "0"]
        return [*command, "-I", str(min(writer.messages or _MOST, _MOST)), "-m"]

    def origin_command(self, writer: Writer) -> list[str]:
        """Connects to the target's address."""
        return [*self.target_command(writer), writer.address]

    def row_source(self, writer: Writer) -> RowSource:
        """The device: the program prints nothing before its end."""
        return "counter"

    def parser(self, writer: Writer) -> _Parser:
        """Parses one end's lines."""
        return _Parser()


def _window(writer: Writer) -> int:
    """Number of outstanding writes."""
    paced = writer.rate_b_s is not None and not writer.messages
    return min(max((_PACED_B if paced else _WINDOW_B) // writer.message_b, 1), _WINDOW)
