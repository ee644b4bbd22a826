"""Compares the rates of membench, STREAM, a plain loop and likwid-bench on the same cores."""

import json
import platform
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import BenchRow, row_with_lower_limit
from records.checkout import ROOT
from reframe_tests import membench, stream

ROUNDS = 7
#: Length of one run of a contender, seconds. STREAM has a length of its own.
RUN_S = 0.5
MEMBENCH = ROOT / "reframe_tests" / "src" / "membench"
#: Bytes of one element of each of the triad's three arrays of doubles.
TRIAD_ELEMENTS_B = 3 * 8
#: likwid-bench's kernels for a(i) = b(i) * s + c(i), and for a store, with stores past the caches.
TRIADS = ["stream_mem_avx512", "stream_mem_avx_fma", "stream_mem_avx", "stream_mem_sse"]
STORES = ["store_mem_avx512", "store_mem_avx", "store_mem_sse", "store_mem"]

FLAGS = ["-O3", "-march=native", "-fopenmp"]
#: The plain loop, written for x86-64.
PLAIN_LOOP = "triad.c"

#: A function that runs a program to be compared once, and returns its rate, bytes per second.
Contender = Callable[[], float]


def run() -> list[BenchRow]:
    """Compare rates, as medians over rounds; a missing contender has no row."""
    if shutil.which("cc") is None or shutil.which("make") is None:
        print("skipped: membench: needs cc and make", file=sys.stderr)
        return []
    rates = measure()
    rows = [
        _ratio_row("membench triad / STREAM triad", "triad", ["STREAM"], rates, 1.0),
        _ratio_row(
            "membench triad / a loop with streaming stores", "triad", [PLAIN_LOOP], rates, 0.98
        ),
        _ratio_row("membench triad / likwid-bench's best", "triad", TRIADS, rates, 0.98),
        _ratio_row("membench nt_write / likwid-bench's best", "nt_write", STORES, rates, 0.98),
    ]
    return [row for row in rows if row is not None]


def measure() -> dict[str, list[float]]:
    """Return contender -> its rate in each round. A round runs all of them in random order."""
    generator = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        contenders = _contenders(Path(folder))
        rates: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(ROUNDS):
            for name in generator.sample(sorted(contenders), len(contenders)):
                rates[name].append(contenders[name]())
    return rates


def _ratio_row(
    name: str, kernel: str, others: list[str], rates: dict[str, list[float]], aim: float
) -> BenchRow | None:
    """Compare a kernel of membench with the fastest of other programs, in the same rounds.

    None if no other program ran.
    """
    available = [other for other in others if other in rates]
    if not available:
        print(f"skipped: {name}: absent, or cannot run here", file=sys.stderr)
        return None
    fastest = max(available, key=lambda other: statistics.median(rates[other]))
    rounds = zip(rates[kernel], rates[fastest], strict=True)
    ratio = statistics.median(kernel_rate / other_rate for kernel_rate, other_rate in rounds)
    return row_with_lower_limit(f"{name} ({fastest})", ratio, "", aim)


def _contenders(folder: Path) -> dict[str, Contender]:
    _call("make", "-s", "-C", str(MEMBENCH), f"OUT={folder}")
    program = str(folder / "membench")
    probe = json.loads(_call(program, "triad", "-d", "0.5", "-j", "-"))
    cpus = ",".join(str(core["cpu"]) for core in probe["cores"])
    cores = len(probe["cores"])
    total_b = probe["array_b"] * probe["arrays"] * cores
    pages = "transparent" if _always_transparent() else "normal"

    def membench_rate(kernel: str) -> float:
        arguments = (kernel, "--cpus", cpus, "-d", str(RUN_S), "--pages", pages)
        return membench.WORKLOAD.parse(_call(program, *arguments)).value

    contenders: dict[str, Contender] = {
        "triad": partial(membench_rate, "triad"),
        "nt_write": partial(membench_rate, "nt_write"),
        "STREAM": _stream(folder, cpus, cores, total_b),
    }
    if platform.machine() == "x86_64":
        contenders[PLAIN_LOOP] = _plain_loop(folder, cpus, cores, total_b)
    if shutil.which("likwid-bench"):
        for kernels in (TRIADS, STORES):
            contenders |= _likwid(kernels, cores, total_b)
    return contenders


def _stream(folder: Path, cpus: str, cores: int, total_b: int) -> Contender:
    program = folder / "stream"
    size = f"-DSTREAM_ARRAY_SIZE={total_b // TRIAD_ELEMENTS_B}"
    options = (*FLAGS, *stream.LARGE_DATA_FLAGS, size, "-DNTIMES=10")
    _call("cc", *options, str(stream.SOURCE), "-o", str(program))
    binding = _binding(cpus, cores)
    return lambda: stream.WORKLOAD.parse(_call(*binding, str(program))).value


def _plain_loop(folder: Path, cpus: str, cores: int, total_b: int) -> Contender:
    program = folder / "triad"
    _call("cc", *FLAGS, str(Path(__file__).with_name(PLAIN_LOOP)), "-o", str(program))
    arguments = (str(total_b // TRIAD_ELEMENTS_B), str(RUN_S))
    command = (*_binding(cpus, cores), str(program), *arguments)
    return lambda: float(_call(*command))


def _binding(cpus: str, cores: int) -> tuple[str, ...]:
    """Return the words before a command that bind one of its OpenMP threads to each processor."""
    places = ",".join(f"{{{cpu}}}" for cpu in cpus.split(","))
    return ("env", f"OMP_NUM_THREADS={cores}", f"OMP_PLACES={places}", "OMP_PROC_BIND=close")


def _likwid(kernels: list[str], cores: int, total_b: int) -> dict[str, Contender]:
    """Return the two fastest kernels that this processor can run, found by a short run of each."""

    def rate(kernel: str, iterations: int) -> float:
        work = f"S0:{total_b // 1000}kB:{cores}"
        options = ("-t", kernel, "-W", work, "-i", str(iterations))
        output = _call("likwid-bench", *options, check=False)
        rate_mb_s = re.search(r"^MByte/s:\s+([0-9.]+)", output, re.MULTILINE)
        return float(rate_mb_s[1]) * 1e6 if rate_mb_s else 0.0

    short_rates = {kernel: rate(kernel, 4) for kernel in kernels}
    runnable = [kernel for kernel in kernels if short_rates[kernel] > 0]
    fastest = sorted(runnable, key=lambda kernel: -short_rates[kernel])[:2]
    return {
        kernel: partial(rate, kernel, max(4, int(RUN_S * short_rates[kernel] / total_b)))
        for kernel in fastest
    }


def _always_transparent() -> bool:
    """Return whether the kernel uses transparent huge pages without a request."""
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return setting.exists() and "[always]" in setting.read_text()


def _call(*words: str, check: bool = True) -> str:
    completed = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if check and completed.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {completed.stderr.strip()}")
    return completed.stdout
