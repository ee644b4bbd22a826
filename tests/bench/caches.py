"""membench latency at half of each cache of this host, at four times the last, and under load.

python -m tests.bench caches

Sizes are those of the kernel (sysfs). Each is measured in every round, in random order, and the
least of the fastest iterations counts: what else runs can only make a load slower.
"""

import shutil
import subprocess
import sys
import tempfile
from functools import partial
from itertools import pairwise
from pathlib import Path

from records.units import size_b
from reframe_tests import latency
from tests.bench import BenchRow, at_least
from tests.bench.membench import MEMBENCH, in_rounds

ROUNDS = 9
SECONDS = 0.3
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def run() -> list[BenchRow]:
    """Latency at each size, and how it grows from each to the next."""
    if shutil.which("cc") is None or shutil.which("make") is None or not CACHES.exists():
        print("skipped: caches: needs cc, make and the caches in sysfs", file=sys.stderr)
        return []
    sizes = {f"half of L{level}": size // 2 for level, size in caches().items()}
    last_b = max(caches().values())
    sizes["4 x last-level cache"] = 4 * last_b
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["make", "-s", "-C", str(MEMBENCH), f"OUT={folder}"], check=True)
        program = Path(folder) / "membench"
        each = {name: partial(_fastest_s, program, of_b) for name, of_b in sizes.items()}
        found = {name: min(seconds) for name, seconds in in_rounds(each, ROUNDS).items()}
    rows = [BenchRow(f"latency at {name}", 1e9 * found[name], "ns") for name in sizes]
    for (one, other), aim in zip(pairwise(sizes), (2.0, 2.0, 1.05), strict=False):
        name = f"latency at {other} / at {one}"
        rows.append(at_least(name, found[other] / found[one], "", aim))
    return rows


def caches() -> dict[int, int]:
    """Level -> size in bytes of the first processor's caches of data, by level."""
    found = {}
    for index in sorted(CACHES.glob("index*")):
        if (index / "type").read_text().strip() != "Instruction":
            size = (index / "size").read_text().strip()
            found[int((index / "level").read_text())] = size_b(f"{size}iB", str(index))
    return dict(sorted(found.items()))


def _fastest_s(program: Path, array_b: int) -> float:
    """Latency of the fastest iteration at a size."""
    words = [program, "latency", "--pages", "transparent", "-d", str(SECONDS), "-s", f"{array_b}B"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return latency.WORKLOAD.parse(done.stdout).extra["least_s"]
