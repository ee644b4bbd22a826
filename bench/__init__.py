"""Benchmarks: `make bench` runs every module here that has `run() -> list[BenchRow]`."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path

from records.checkout import ROOT


@dataclass(frozen=True)
class BenchRow:
    """One measured figure and its aim."""

    name: str
    value: float
    unit: str = ""
    aim: str = ""
    #: True if the aim is met; None if the figure only informs.
    aim_met: bool | None = None


def row_with_upper_limit(name: str, value: float, unit: str, limit: float) -> BenchRow:
    """Return the row of a figure that must be below a limit."""
    aim = f"under {limit:g} {unit}".rstrip()
    return BenchRow(name=name, value=value, unit=unit, aim=aim, aim_met=value < limit)


def row_with_lower_limit(name: str, value: float, unit: str, limit: float) -> BenchRow:
    """Return the row of a figure that must reach a limit."""
    aim = f"at least {limit:g} {unit}".rstrip()
    return BenchRow(name=name, value=value, unit=unit, aim=aim, aim_met=value >= limit)


@dataclass(frozen=True)
class Cost:
    """The cost of a piece of work."""

    wall_s: float
    cpu_s: float
    #: Largest amount of memory that its process has had, bytes. `bench.growth` prints only what the
    #: work added to it.
    memory_b: float


def cost_of(work: Callable[[], object]) -> Cost:
    """Do the work in this process; return its cost."""
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    work()
    return Cost(
        wall_s=time.perf_counter() - begun_s,
        cpu_s=time.process_time() - begun_cpu_s,
        memory_b=peak_memory_b(),
    )


def print_cost(work: Callable[[], object]) -> None:
    """Do the work in this process, which `cost_in_own_process` started; print its cost."""
    print(json.dumps(astuple(cost_of(work))))


def cost_in_own_process(module: str, *arguments: object) -> Cost:
    """Run a module of this package as a program; return the cost that the program prints."""
    command = [sys.executable, "-m", f"bench.{module}", *map(str, arguments)]
    finished = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    wall_s, cpu_s, memory_b = json.loads(finished.stdout)
    return Cost(wall_s=wall_s, cpu_s=cpu_s, memory_b=memory_b)


def peak_memory_b() -> float:
    """Return the largest amount of memory that this process has had.

    `ru_maxrss` would include the memory of the process that started this one.
    """
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak
    return float(peak[1]) * 1024
