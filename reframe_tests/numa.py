"""Workers that load memory on a chosen NUMA node, with and without RDMA into it (seed 002)."""

import reframe as rfm
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.exceptions import ReframeError

from analysis.errors import InputError
from reframe_tests import numa_places
from reframe_tests.mixin import NimcMixin


@rfm.simple_test
class numa(rfm.RegressionTest, NimcMixin):
    """membench on one NUMA node's cores, its memory beside the communications' buffer."""

    descr = "workers under RDMA, by NUMA node"
    workload = "numa"
    valid_systems = ["*"]
    valid_prog_environs = ["+wheels"]
    sourcesdir = "src/membench"
    build_system = "Make"
    executable = "./membench"
    tags = {"numa"}
    #: How far communications are slowed is the question, so that is no reason to reject a run.
    min_share = 0.02

    #: Where the communications' buffer lies, and the memory that workers load: `nic` (the NUMA node
    #: of the network interface) or `other`.
    buffer = variable(str, value="nic")

    #: Where workers run: `nic`, `other`, or `free` (left to the system).
    workers = variable(str, value="nic")

    #: What workers do: `read`, `write` or `nt_write` (past the caches).
    load = variable(str, value="write")

    #: Length of one measurement, seconds.
    duration_s = variable(float, value=3.0)

    @run_after("setup")
    def place(self):
        """NUMA nodes for the places that were asked for."""
        try:
            self.cell = numa_places.cell(self.machine, self.buffer, self.workers, self.load)
        except InputError as error:
            raise ReframeError(f"{self.name}: {error}") from None
        self.buffer_node = self.cell["buffer_node"]
        self.provenance = {**self.provenance, "numa": {**self.cell, "direction": self.direction}}

    @run_before("run")
    def load_memory(self):
        """As many workers as a NUMA node has cores, wherever they run."""
        self.num_cpus_per_task = self.app_cores
        where = self.cell["worker_node"]
        self.executable_opts = [
            *(self.load, "-n", str(self.cell["cores"]), "-d", str(self.duration_s)),
            *("-m", str(self.cell["buffer_node"])),
            *(["--free"] if where is None else ["--cpu-node", str(where)]),
        ]


@rfm.simple_test
class numa_quick(numa):
    """A short form of one cell."""

    tags = {"quick"}
    duration_s = 1.0
    pairs = 6
