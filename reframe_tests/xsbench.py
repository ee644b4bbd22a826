"""XSBench with and without RDMA writes (Groves, Grant and Arnold 2016, section V)."""

import re

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import ProgramTest, ThreadsMixin
from reframe_tests.mixin import add_short_form
from reframe_tests.workload import FomError, Near, Workload, last_match

#: Memory of one rank's grids at size `large`, bytes: 355 nuclides with 11,303 points each. A point
#: has six numbers and an energy of 8 bytes each, and a 4-byte index for each nuclide.
_LARGE_B = 355 * 11_303 * (6 * 8 + 8 + 355 * 4)


@rfm.simple_test
class xsbench(ProgramTest, ThreadsMixin):
    """Lookups of cross-sections; unless `layout` says otherwise, one rank per core."""

    workload = "xsbench"
    stack = "proxyapps"
    package = "xsbench"
    program = executable = "XSBench"
    within_block = ("layout", "size", "method")
    comparable_across_cores = True

    #: `small`, `large` or `auto`. `auto` is `large` if the grids of one rank per core fit into the
    #: share of memory that the site file allows, else `small`.
    size = variable(str, value="auto")

    #: `history` or `event`.
    method = variable(str, value="history")

    def lay_out(self):
        """Lay out ranks and threads, and choose the size of the problem."""
        ranks, threads = self.ranks_and_threads(self.app_cores)
        self.set_ranks(ranks, threads)
        # Every rank holds the whole grid. `sized_cores` does not depend on reserved cores.
        memory_b = self.machine.memory_share * self.machine.memory_b()
        large_fits = self.sized_cores * _LARGE_B <= memory_b
        size = self.size
        if size == "auto":
            size = "large" if large_fits else "small"
        self.executable_opts = ["-m", self.method, "-s", size, "-t", str(threads)]


add_short_form(xsbench, size="small", method="event")

#: Checksum of version 20 by method and size, for the default numbers of lookups and grid points.
#: XSBench compares with the same numbers, but its source could have been edited.
CHECKSUMS = {
    ("history", "small"): 941535,
    ("history", "large"): 954318,
    ("event", "small"): 945990,
    ("event", "large"): 952131,
}


def _known_checksum(stdout: str) -> float:
    """Return the known checksum for the method and the size."""
    method = last_match(r"^Simulation Method:\s*(\w+)", stdout, "method")[1].lower()
    size = last_match(r"^H-M Benchmark Size:\s*(\S+)", stdout, "size")[1]
    if (method, size) not in CHECKSUMS:
        raise FomError(f"no checksum is known for the {method} method at size {size}")
    return CHECKSUMS[method, size]


WORKLOAD = Workload(
    title="XSBench 20",
    fom="cross-section lookups per second",
    unit="1/s",
    better="higher",
    figure="lookups_1_s",
    numbers={
        "lookups_1_s": re.compile(r"^Total Lookups/s:\s*([\d,.]+)\s*$"),
        "ranks": re.compile(r"^MPI ranks:\s*([\d,]+)\s*$"),
        "threads": re.compile(r"^Threads:\s*([\d,]+)\s*$"),
        "checksum": re.compile(r"^Verification checksum:\s*(\d+)"),
        "known_checksum": _known_checksum,
    },
    extra=("ranks", "threads"),
    proof={
        "the first rank's verification checksum is the known one for the method and size (every"
        " rank runs the whole problem)": Near("checksum", lambda numbers: numbers.known_checksum),
        "found valid by XSBench": r"^Verification checksum:.*\(Valid\)",
    },
)
