"""Workers that load memory on a chosen NUMA node, with and without RDMA into it.

The question is that of Nelson and Palmieri (Understanding RDMA Behavior in NUMA Systems).
"""

import reframe as rfm
from reframe.core.builtins import variable

from nimc.base.checkout import python_code
from reframe_tests import numa_places
from reframe_tests.binaries import CompiledMixin
from reframe_tests.factors import check_level
from reframe_tests.mixin import NimcMixin

#: Program that runs if there are no workers.
_SLEEP = (
    "import time; begun_s = time.monotonic(); time.sleep(float(sys.argv[1]));"
    " print(f'slept {time.monotonic() - begun_s:.6f} s')"
)


@rfm.simple_test
class numa(rfm.RegressionTest, CompiledMixin, NimcMixin):
    """membench on one NUMA node's cores, with its memory on the node of the writers' buffers."""

    descr = "workers under RDMA, by NUMA node"
    workload = "numa"
    sourcesdir = "src/membench"
    build_system = "Make"
    executable = "./membench"
    tags = {"numa"}
    within_block = ("buffer", "workers", "load", "duration_s")
    lengthened_by = "duration_s"
    comparable_across_cores = True
    #: The slowdown of communications is measured here, so it is no reason to reject a run.
    min_share = 0.02

    #: NUMA node of the writers' buffers, and of the memory that workers load: `nic` (that of the
    #: network interface) or `other`.
    buffer = variable(str, value="nic")

    #: NUMA node that workers run on: `nic`, `other`, or `free` (not bound).
    workers = variable(str, value="nic")

    #: What workers do: `read`, `write`, `nt_write` (past the caches), or `idle` (no workers).
    load = variable(str, value="write")

    #: Length of one measurement, seconds.
    duration_s = variable(float, value=3.0)

    def lay_out(self):
        """As many workers as a NUMA node has cores, wherever they run."""
        for name in ("buffer", "workers", "load"):
            check_level(name, getattr(self, name))
        self.buffer_node = numa_places.node_of(self.machine, "buffer", self.buffer)
        self.provenance = {**self.provenance, "numa": numa_places.facts(self.machine)}
        self.num_cpus_per_task = self.app_cores
        if self.load == numa_places.IDLE:
            self.executable, *self.executable_opts = python_code(_SLEEP, str(self.duration_s))
            return
        node = numa_places.node_of(self.machine, "workers", self.workers)
        count = numa_places.worker_cores(self.machine, self.app_cores)
        self.executable = "./membench"
        self.executable_opts = [self.load, "-n", str(count), "-d", str(self.duration_s)]
        self.executable_opts += ["-m", str(self.buffer_node)]
        self.executable_opts += ["--free"] if node is None else ["--cpu-node", str(node)]


@rfm.simple_test
class numa_quick(numa):
    """A short form."""

    tags = {"short"}
    duration_s = 1.0
    pairs = 6
