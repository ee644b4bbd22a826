"""STREAM triad with and without RDMA writes (Groves, Grant and Arnold 2016, section IV)."""

import hashlib
import re
import shlex
import sys
from math import inf
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_before, variable
from reframe.core.exceptions import ReframeError

from records.errors import InputError
from records.notes import Note
from records.units import size_b
from reframe_tests.binaries import CompiledMixin
from reframe_tests.layout import WorkingSetMixin
from reframe_tests.mixin import NimcMixin, add_short_form
from reframe_tests.workload import FLOAT, Within, Workload

#: STREAM 5.10, the official source, as the ReFrame wheel installs it.
SOURCE = Path(sys.prefix) / "share/doc/reframe-hpc/examples/tutorial/stream/src/stream.c"
SOURCE_SHA256 = "a52bae5e175bea3f7832112af9c085adab47117f7d2ce219165379849231692b"
#: Header that lets each run set the number of iterations, which is otherwise fixed when compiling.
_ITERATIONS_HEADER = Path(__file__).parent / "src/stream/iterations.h"
#: Number of arrays of doubles that STREAM allocates.
_ARRAY_COUNT = 3
_DOUBLE_B = 8
#: Least size of an array by STREAM's rule, as a multiple of all last-level caches.
_MIN_LLC_MULTIPLE = 4.0
#: Flags for more static data than the default memory model allows. Compilers for Arm have no
#: medium model.
LARGE_DATA_FLAGS = ("-fno-pie", "-no-pie", "-mcmodel=large")
#: Largest static data of the compiler's default memory model.
_MAX_DEFAULT_STATIC_B = 2**31 - 2**26


@rfm.simple_test
class stream(rfm.RegressionTest, CompiledMixin, WorkingSetMixin, NimcMixin):
    """Official STREAM at full size, one OpenMP thread per core, first touch.

    In environments with the feature `spack`, Spack builds STREAM; in others, this check does.
    """

    workload = "stream"
    build_system = "SingleSource"
    stack = package = "stream"
    tags = {"single_node"}
    lengthened_by = "iterations"
    comparable_across_cores = True
    size_variables = ("array_most",)

    #: Kernel iterations; Groves, Grant and Arnold (2016) use 300.
    iterations = variable(int, value=300)

    #: Size of each array as a multiple of all last-level caches. STREAM's rule requires 4. With
    #: 0.25, the three arrays stay in the caches.
    llc_multiple = variable(float, value=_MIN_LLC_MULTIPLE)

    #: Largest size of an array, such as `128MiB`, to save time; empty sets no limit.
    array_most = variable(str, value="")

    def elements_and_multiple(self):
        """Return the number of elements of an array, and its requested multiple of the caches.

        The size comes from the working set, if one is chosen, or else from `llc_multiple`. Memory
        and `array_most` limit it. Raises ReframeError.
        """
        try:
            llc_b = self.machine.llc_b()
            chosen_b = self.chosen_working_set_b(_ARRAY_COUNT * _DOUBLE_B)
            max_b = self.machine.memory_share * self.machine.memory_b() / _ARRAY_COUNT
            if self.array_most:
                max_b = min(max_b, size_b(self.array_most, f"{self.name}.array_most"))
        except InputError as error:
            raise ReframeError(str(error)) from None
        multiple = self.llc_multiple
        if chosen_b is not None:
            multiple = self.app_cores * chosen_b / _ARRAY_COUNT / llc_b
        return int(min(multiple * llc_b, max_b) / _DOUBLE_B), multiple

    def spack_environment(self):
        """Return the environment for this size of the arrays, which is a variant of the recipe."""
        return f"{self.stack}@{self.elements_and_multiple()[0]}"

    @run_before("compile")
    def size_arrays(self):
        """Set the size of the arrays; add a note if it is below STREAM's rule."""
        self.elements, multiple = self.elements_and_multiple()
        array_b = _DOUBLE_B * self.elements
        llc_b = self.machine.llc_b()
        self.arrays_b = float(_ARRAY_COUNT * array_b)
        sizes = {"array_mib": array_b / 2**20, "llc_mib": llc_b / 2**20}
        if multiple * _ARRAY_COUNT <= 1:
            self.notes = [*self.notes, Note.STREAM_IN_CACHE(arrays=_ARRAY_COUNT, **sizes)]
        elif self.elements < int(_MIN_LLC_MULTIPLE * llc_b / _DOUBLE_B):
            self.notes = [*self.notes, Note.STREAM_SMALL(**sizes)]

    @run_before("compile")
    def compile_official_source(self):
        """Compile the source of ReFrame's wheel, unless Spack builds STREAM.

        If the nodes have another processor than this host, set `-march=` or `-mcpu=` in the
        environment's `cflags`.
        """
        if self.uses_spack(self.current_environ):
            self.executable = "stream_c.exe"
            return
        if not SOURCE.is_file():
            raise ReframeError(
                f"{SOURCE}: missing from the package reframe-hpc; install the package again"
            )
        if hashlib.sha256(SOURCE.read_bytes()).hexdigest() != SOURCE_SHA256:
            raise ReframeError(f"{SOURCE}: not the official STREAM 5.10 (SHA-256 differs)")
        self.sourcesdir = str(SOURCE.parent)
        self.sourcepath = SOURCE.name
        processor = [
            flag
            for flag in self.current_environ.cflags
            if flag.startswith(("-march=", "-mcpu="))  # the second on Arm
        ]
        self.build_system.cflags = [
            "-O3",
            *(processor or ["-march=native"]),
            "-fopenmp",
            f"-DSTREAM_ARRAY_SIZE={self.elements}",
            "-include",
            shlex.quote(str(_ITERATIONS_HEADER)),
        ]
        if self.arrays_b > _MAX_DEFAULT_STATIC_B:
            self.build_system.cflags += LARGE_DATA_FLAGS

    def lay_out(self):
        """Set one bound thread per core, so that first touch places the pages."""
        self.thread_per_core()
        self.working_set_b = self.arrays_b / self.app_cores
        self.env_vars["STREAM_ITERATIONS"] = self.iterations


add_short_form(stream, "quick", iterations=18, array_most="128MiB")


def _triad_pattern(column: int) -> re.Pattern[str]:
    """Return the pattern of the number in a column of triad's line.

    The columns are the best rate in MB/s, and the mean, shortest and longest time in seconds.
    """
    columns = [r"\s+\S+"] * 4
    columns[column] = rf"\s+{FLOAT}"
    return re.compile(rf"^Triad:{''.join(columns)}\s*$")


WORKLOAD = Workload(
    title="STREAM 5.10",
    fom="triad bandwidth from the average time",
    unit="B/s",
    better="higher",
    figure="rate_b_s",
    numbers={
        "elements": "Array size =",
        "element_b": "This system uses",
        "best_mb_s": _triad_pattern(0),
        "average_s": _triad_pattern(1),
        "minimum_s": _triad_pattern(2),
        "maximum_s": _triad_pattern(3),
    },
    derived={
        "array_b": lambda numbers: numbers.elements * numbers.element_b,
        "best_b_s": lambda numbers: numbers.best_mb_s * 1e6,
        # Triad reads two arrays and writes one.
        "rate_b_s": lambda numbers: 3 * numbers.array_b / numbers.average_s,
        "minimum_to_average": lambda numbers: numbers.minimum_s / numbers.average_s,
        "maximum_to_average": lambda numbers: numbers.maximum_s / numbers.average_s,
    },
    extra=("best_b_s", "average_s", "minimum_s", "maximum_s", "array_b"),
    proof={
        "STREAM's own validation of the arrays": "Solution Validates",
        "the average time is no less than the shortest": Within("minimum_to_average", 0, 1),
        "the average time is no more than the longest": Within("maximum_to_average", 1, inf),
    },
)
