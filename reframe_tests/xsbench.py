"""XSBench with and without writers (Groves, Grant and Arnold 2016, section V)."""

import re

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import BinariesMixin, ThreadsMixin
from reframe_tests.mixin import NimcMixin, short_form
from reframe_tests.workload import Fom, FomError, Workload, last_match

#: Memory of one rank's unionized grid at size `large`, as XSBench prints it.
_LARGE_B = 5.7e9


@rfm.simple_test
class xsbench(rfm.RunOnlyRegressionTest, BinariesMixin, ThreadsMixin, NimcMixin):
    """Lookups of cross-sections, on ranks and threads."""

    descr = "XSBench under RDMA writes"
    workload = "xsbench"
    mpi = True
    stack = "proxyapps"
    package = "xsbench"
    program = executable = "XSBench"
    tags = {"single_node"}
    within_block = ("layout", "size", "method")
    comparable_across_cores = True

    #: `small`, `large`, or `auto`: large if the grids of a rank on each core fit into the share of
    #: memory that the site file allows.
    size = variable(str, value="auto")

    #: `history` or `event`.
    method = variable(str, value="history")

    def lay_out(self):
        """Every rank holds the whole grid, so memory limits its size; layouts do not change it."""
        ranks, threads = self.shape(self.app_cores)
        self.ranks(ranks, threads)
        allowed_b = self.machine.memory_share * self.machine.memory_b()
        fits = self.sized_cores * _LARGE_B <= allowed_b
        size = ("large" if fits else "small") if self.size == "auto" else self.size
        self.executable_opts = ["-m", self.method, "-s", size, "-t", str(threads)]


#: The smallest form with a known checksum.
short_form(xsbench, size="small", method="event")


# Lookups per second, proved by the checksum of the sampled cross-sections.

#: Checksum of version 20 by method and size, for the default numbers of lookups and grid points.
#: (The program compares with the same numbers, but it could have been edited.)
CHECKSUMS = {
    ("history", "small"): 941535,
    ("history", "large"): 954318,
    ("event", "small"): 945990,
    ("event", "large"): 952131,
}


def parse(stdout: str) -> Fom:
    """Cross-section lookups per second, all ranks and threads together."""
    method = _text(stdout, "Simulation Method").split()[0].lower()
    size = _text(stdout, "H-M Benchmark Size")
    found = last_match(r"^Verification checksum:\s*(\d+)\s*\((.+)\)", stdout, "checksum")
    checksum, verdict = int(found.group(1)), found.group(2)
    known = CHECKSUMS.get((method, size))
    if known is None:
        raise FomError(f"no checksum is known for the {method} method at size {size}")
    if checksum != known or verdict != "Valid":
        raise FomError(f"the checksum is {checksum} ({verdict}); {known} was expected")
    extra = {"ranks": _count(stdout, "MPI ranks"), "threads": _count(stdout, "Threads")}
    return Fom(_count(stdout, "Total Lookups/s"), extra)


def _text(stdout: str, name: str) -> str:
    return last_match(rf"^{re.escape(name)}:\s*(\S.*)$", stdout, f"'{name}'").group(1).strip()


def _count(stdout: str, name: str) -> float:
    return float(_text(stdout, name).replace(",", ""))


WORKLOAD = Workload(
    title="XSBench 20",
    fom="cross-section lookups per second",
    unit="1/s",
    better="higher",
    sanity="the first rank's verification checksum as known for the method and size (every rank"
    " runs the whole problem)",
    parser=parse,
)
