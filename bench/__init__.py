"""Benchmarks: `make bench` runs every module here that has `run() -> list[BenchRow]`."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path


@dataclass(frozen=True)
class BenchRow:
    """One measured figure and its aim."""

    name: str
    value: float
    unit: str = ""
    aim: str = ""
    #: Whether the aim is met; None if the figure only informs.
    ok: bool | None = None


def below(name: str, value: float, unit: str, most: float) -> BenchRow:
    """A figure that must be below a limit."""
    return BenchRow(name, value, unit, f"under {most:g} {unit}".rstrip(), value < most)


def at_least(name: str, value: float, unit: str, least: float) -> BenchRow:
    """A figure that must reach a limit."""
    return BenchRow(name, value, unit, f"at least {least:g} {unit}".rstrip(), value >= least)


@dataclass(frozen=True)
class Cost:
    """What a piece of work took; the most memory that its process has had."""

    wall_s: float
    cpu_s: float
    memory_b: float


def cost_of(work: Callable[[], object]) -> Cost:
    """Do it in this process."""
    begun_s, cpu_s = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - begun_s, time.process_time() - cpu_s, peak_memory_b())


def print_cost(work: Callable[[], object]) -> None:
    """Do it in this process, which `in_own_process` has started."""
    print(json.dumps(astuple(cost_of(work))))


def in_own_process(module: str, *words: object) -> Cost:
    """What a module here prints of a piece of work, called as a program."""
    command = [sys.executable, "-m", f"bench.{module}", *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Cost(*json.loads(done.stdout))


def peak_memory_b() -> float:
    """The most memory that this process has had, bytes.

    `ru_maxrss` would begin with the memory of the process that started it.
    """
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak
    return float(peak[1]) * 1024
