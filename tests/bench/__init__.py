"""Benchmarks: `make bench` runs every module here that has `run() -> list[BenchRow]`."""

import json
import re
import subprocess
import sys
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


def below(name: str, value: float, unit: str, most: float, command: str) -> BenchRow:
    """A figure that must be below a limit."""
    return BenchRow(name, value, unit, f"under {most:g} {unit}".rstrip(), value < most, command)


def in_own_process(module: str, *words: object) -> list[float]:
    """The figures that a module here prints as JSON, called as a program."""
    command = [sys.executable, "-m", f"tests.bench.{module}", *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: list[float] = json.loads(done.stdout)
    return found
