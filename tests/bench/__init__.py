"""Benchmarks: `make bench` runs every module here that has `run() -> list[BenchRow]`."""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class BenchRow:
    """One measured figure and its aim."""

    name: str
    value: float
    unit: str
    aim: str
    #: Whether the aim is met; None where the figure only informs.
    ok: bool | None
    #: How to get this figure again.
    command: str


def peak_memory_b() -> float:
    """The most memory that this process has had, bytes.

    `ru_maxrss` would begin with the memory of the process that started it.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return float(found[1]) * 1024
