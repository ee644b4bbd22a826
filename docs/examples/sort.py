"""Sorting in Python with and without writers."""

import re
import sys

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.mixin import NimcMixin
from reframe_tests.workload import FLOAT, Workload

_PROGRAM = """
import random, sys, time
numbers = [random.random() for _ in range(int(sys.argv[1]))]
start_s = time.perf_counter()
numbers.sort()
print(f"sorted {len(numbers)} numbers in {time.perf_counter() - start_s:.6f} s")
print(f"in order: {all(a <= b for a, b in zip(numbers, numbers[1:]))}")
"""


@rfm.simple_test
class sort(rfm.RunOnlyRegressionTest, NimcMixin):
    """One process sorts random numbers."""

    workload = "sort"
    executable = sys.executable
    sourcesdir = None
    within_block = ("numbers",)
    lengthened_by = "numbers"

    #: Number of random numbers that are sorted.
    numbers = variable(int, value=2_000_000)

    def lay_out(self):
        """Set one process with a thread per core."""
        self.thread_per_core()
        self.executable_opts = ["-c", _PROGRAM, str(self.numbers)]


WORKLOAD = Workload(
    title="sort in Python",
    fom="time of the sort",
    unit="s",
    better="lower",
    figure="sort_s",
    numbers={
        "numbers": "sorted",
        "sort_s": re.compile(rf"^sorted \d+ numbers in {FLOAT} s$"),
    },
    extra=("numbers",),
    proof={"the numbers are in order": "in order: True"},
)
