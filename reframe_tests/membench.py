"""membench, which makes the contention model's computations, with and without RDMA writes."""

import re

import reframe as rfm
from reframe.core.builtins import variable

from records.units import plural, size_b
from reframe_tests.binaries import CompiledMixin
from reframe_tests.factors import variable_fault
from reframe_tests.layout import WorkingSetMixin
from reframe_tests.mixin import NimcMixin, add_short_form
from reframe_tests.workload import FLOAT, NumberSource, Workload, match_count, optional_number

#: Kernel -> number of its arrays. Kernels that are not listed have one array.
_ARRAYS = {"copy": 2, "scale": 2, "add": 3, "triad": 3}
#: The size of an array is a multiple of this, bytes.
_GRAIN_B = 512


@rfm.simple_test
class membench(rfm.RegressionTest, CompiledMixin, WorkingSetMixin, NimcMixin):
    """Memory bandwidth of some cores of a socket, each with its own arrays (weak scaling)."""

    workload = "membench"
    sourcesdir = "src/membench"
    build_system = "Make"
    executable = "./membench"
    tags = {"single_node"}
    within_block: tuple[str, ...] = (
        "kernel",
        "share",
        "cores",
        "socket",
        "order",
        "node",
        "pages",
        "duration_s",
        "working_set",
    )
    lengthened_by = "duration_s"
    comparable_across_cores = True
    size_variables = ("size",)
    #: The writers' loss is a result of this check. So their rate before the run is measured over
    #: three rows (reports) of each writer.
    ready_rows = 3

    #: One of membench's kernels. The default is the kernel of the contention model (Denis, Jeannot
    #: and Swartvagher). It stores past the caches.
    kernel = variable(str, value="nt_write")

    #: Computing cores, as a share of the application's cores in the sockets that compute. At least
    #: one core computes.
    share = variable(float, value=1.0)

    #: Number of computing cores; 0 uses the share.
    cores = variable(int, value=0)

    #: Sockets whose cores compute: the `first`, or `all`.
    socket = variable(str, value="first")

    #: Order in which cores are taken: `compact` fills one last-level cache after the other,
    #: `spread` alternates between them.
    order = variable(str, value="compact")

    #: NUMA node that the arrays are bound to; -1 leaves them near the cores.
    node = variable(int, value=-1)

    #: Pages of the arrays: `normal` (4 KiB), `transparent` (2 MiB) or `huge` (reserved in advance).
    pages = variable(str, value="normal")

    #: Size of each array of a core, such as 512MiB. With the default, empty, a core's arrays
    #: together have four times the size of the last-level cache.
    size = variable(str, value="")

    #: Length of one measurement, seconds.
    duration_s = variable(float, value=5.0)

    def lay_out(self):
        """Compute on cores of the first socket, or of all; the job still gets all cores."""
        if self.socket not in ("first", "all"):
            raise variable_fault(self, "socket", "allowed: first, all")
        sockets = 1 if self.socket == "first" else self.node_facts.sockets
        max_cores = max(1, sockets * (self.app_cores // self.node_facts.sockets))
        if not self.cores and self.share > 1:
            raise variable_fault(self, "share", "allowed: numbers up to 1")
        cores = self.cores or max(1, round(self.share * max_cores))
        if not 1 <= cores <= max_cores:
            extent = f"{plural(sockets, 'socket')} of {self.machine.name}"
            limit = f"{max_cores} (the cores of {extent} for the application)"
            raise variable_fault(self, "cores", f"allowed: 1 to {limit}, or 0 to use the share")
        self.leave_binding_to_program()
        self.executable_opts = [self.kernel, "-n", str(cores), "-d", str(self.duration_s)]
        self.executable_opts += ["--order", self.order]
        if size := self.size_of_arrays():
            self.executable_opts += ["-s", size]
        if self.pages != "normal":
            self.executable_opts += ["--pages", self.pages]
        if sockets > 1:
            self.executable_opts += ["--socket", "all"]
            self.notes = [*self.notes, "cores of all sockets compute; the model is of one socket"]
        numa_node = self.machine.known_numa_node(self.node, f"{self.name}.node")
        if numa_node is not None:
            self.executable_opts += ["-m", str(numa_node)]

    def size_of_arrays(self):
        """Return the size of each array of a core, and store the working set that follows from it.

        If neither a working set nor `size` is chosen, returns an empty text, with which the program
        itself chooses the size.
        """
        arrays = _ARRAYS.get(self.kernel, 1)
        chosen_b = self.chosen_working_set_b(_GRAIN_B * arrays)
        if chosen_b is None and not self.size:
            return ""
        array_b = size_b(self.size, f"{self.name}.size") if chosen_b is None else chosen_b / arrays
        grains = max(int(array_b / _GRAIN_B), 1)
        self.working_set_b = float(arrays * grains * _GRAIN_B)
        return f"{grains * _GRAIN_B}B"  # the program knows no MB


add_short_form(membench, duration_s=1.0)

#: Numbers in the output. `node` is the NUMA node to which the arrays are bound, if they are bound.
#: `streaming` is 1 if stores bypassed the caches. `huge_b` of the `memory_b` bytes are in huge
#: pages; both are missing if the operating system does not report them.
_NUMBERS: dict[str, NumberSource] = {
    "cores": re.compile(r"^(\d+) cores?, processors?"),
    "arrays": re.compile(r"^(\d+) arrays? of \d+ bytes a core"),
    "array_b": re.compile(r"^\d+ arrays? of (\d+) bytes a core"),
    "window_s": re.compile(rf"^all cores at work for {FLOAT} s"),
    "streaming": match_count(r"^membench: .* streaming stores$"),
    "node": optional_number(r"bound to NUMA node (\d+)$"),
    "huge_b": optional_number(r"^in huge pages: (\d+) of \d+ bytes$"),
    "memory_b": optional_number(r"^in huge pages: \d+ of (\d+) bytes$"),
}
WORKLOAD = Workload(
    title="membench",
    fom="bandwidth while all cores are busy",
    unit="B/s",
    better="higher",
    figure="rate_b_s",
    numbers={"rate_b_s": re.compile(rf"^FOM \w+: {FLOAT} B/s$"), **_NUMBERS},
    extra=tuple(_NUMBERS),
    proof={"every element of the arrays, and the NUMA nodes of their pages": "results are right"},
)
