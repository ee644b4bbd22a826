"""Workers that load the memory of a chosen NUMA node, with and without RDMA into it.

The experiment is that of Nelson and Palmieri (Understanding RDMA Behavior in NUMA Systems).
"""

import re
from dataclasses import replace

import reframe as rfm
from reframe.core.builtins import variable

from records.checkout import python_code
from reframe_tests import membench
from reframe_tests.binaries import CompiledMixin
from reframe_tests.factors import (
    FREE_WORKERS,
    IDLE_LOAD,
    numa_node_of_place,
    numa_nodes_of_places,
    variable_fault,
)
from reframe_tests.mixin import NimcMixin, add_short_form
from reframe_tests.workload import FLOAT, Fom, Workload

#: Python code that runs instead of workers if there are none. It sleeps.
_SLEEP = (
    "import time; start_s = time.monotonic(); time.sleep(float(sys.argv[1]));"
    " print(f'slept {time.monotonic() - start_s:.6f} s')"
)


@rfm.simple_test
class numa(rfm.RegressionTest, CompiledMixin, NimcMixin):
    """membench on one NUMA node's cores, with its memory on the node of the writers' buffers."""

    workload = "numa"
    sourcesdir = "src/membench"
    build_system = "Make"
    executable = "./membench"
    tags = {"numa"}
    within_block = ("buffer", "workers", "load", "local_workers", "duration_s")
    lengthened_by = "duration_s"
    comparable_across_cores = True
    #: Slow writes are a result of this check, so they are no reason to reject a run.
    min_share = 0.02

    #: NUMA node of the memory that workers load, and of the writers' buffers unless `comm_node`
    #: binds them: `nic` (the node of the network interface) or `other`.
    buffer = variable(str, value="nic")

    #: NUMA node that workers run on: `nic`, `other`, or `free` (not bound).
    workers = variable(str, value="nic")

    #: What the workers do: `read`, `write`, `nt_write` (past the caches), or `idle` (no workers).
    load = variable(str, value="write")

    #: Number of workers. The default, 0, runs one worker for each of the application's cores of a
    #: NUMA node.
    local_workers = variable(int, value=0)

    #: Length of one measurement, seconds.
    duration_s = variable(float, value=3.0)

    def lay_out(self):
        """Set how many workers run, on which NUMA node, and which node's memory they load."""
        buffer_node = numa_node_of_place(self.machine, "buffer", self.buffer)
        facts = {"numa_nodes": len(self.node_facts.numa_nodes), "nic_node": self.machine.nic_node()}
        facts["places"] = numa_nodes_of_places(self.machine)
        self.provenance = {**self.provenance, "numa": facts}
        self.leave_binding_to_program()
        if self.load == IDLE_LOAD:
            self.executable, *self.executable_opts = python_code(_SLEEP, str(self.duration_s))
            return
        worker_node = None
        if self.workers != FREE_WORKERS:
            worker_node = numa_node_of_place(self.machine, "workers", self.workers)
        max_workers = max(1, self.app_cores // len(self.node_facts.numa_nodes))
        count = self.local_workers or max_workers
        if not 0 < count <= max_workers:
            raise variable_fault(
                self, "local_workers", f"allowed: 1 to {max_workers}, or 0 for all of them"
            )
        self.executable = "./membench"
        self.executable_opts = [self.load, "-n", str(count), "-d", str(self.duration_s)]
        self.executable_opts += ["-m", str(buffer_node)]
        if worker_node is None:
            self.executable_opts += ["--free"]
        else:
            self.executable_opts += ["--cpu-node", str(worker_node)]


add_short_form(numa, duration_s=1.0)


class _Workers(Workload):
    """Reads the figure of membench or, if there are no workers, the time slept."""

    def read(self, text):
        """Return the time slept or, if there were workers, the figure of membench."""
        if slept := re.search(rf"^slept {FLOAT} s$", text, re.MULTILINE):
            return Fom(float(slept[1]), unit="s", better="lower")
        return super().read(text)


_MEMBENCH = replace(
    membench.WORKLOAD,
    title="membench during RDMA, by NUMA node",
    fom="bandwidth while all workers are busy (without workers: the time slept, in s)",
)
WORKLOAD = _Workers(**vars(_MEMBENCH))
