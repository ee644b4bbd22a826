"""Latency of memory, alone and next to cores that load it, with and without writers."""

import re

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests import membench
from reframe_tests.binaries import CompiledMixin
from reframe_tests.factors import fault
from reframe_tests.mixin import NimcMixin, short_form
from reframe_tests.workload import FLOAT, Fom, Workload, last_match, require_positive


@rfm.simple_test
class latency(rfm.RegressionTest, CompiledMixin, NimcMixin):
    """Dependent loads of one core, one cache line each, in random order over more than the caches.

    Latency against traffic shows why a core's bandwidth falls before the bus is full: its loads in
    flight are limited (Vuppalapati et al., Understanding the Host Network, SIGCOMM 2024).
    """

    descr = "membench latency under RDMA writes"
    workload = "latency"
    sourcesdir = "src/membench"
    build_system = "Make"
    executable = "./membench"
    tags = {"single_node"}
    within_block = ("load_threads", "load_kernel", "size", "pages", "node", "duration_s")
    lengthened_by = "duration_s"
    comparable_across_cores = True

    #: Cores of the first socket that load memory at the same time.
    load_threads = variable(int, value=0)

    #: What they do: a kernel of membench other than `latency` and `intensity`.
    load_kernel = variable(str, value="read")

    #: Memory that the loads go through, such as `512MiB`; the default, empty, is four times the
    #: last-level cache.
    size = variable(str, value="")

    #: Pages of the memory: `transparent` (huge; no figure unless the system gives them), `huge`
    #: (reserved beforehand) or `normal`, whose address translation adds to the latency.
    pages = variable(str, value="transparent")

    #: NUMA node that the memory is bound to; -1 leaves it near the cores.
    node = variable(int, value=-1)

    #: Length of one measurement, seconds.
    duration_s = variable(float, value=3.0)

    def lay_out(self):
        """The first core of the first socket, and `load_threads` more of it."""
        socket_cores = max(1, self.app_cores // self.node_facts.sockets)
        if self.load_threads >= socket_cores:
            of = f"a socket of {self.machine.name} has {socket_cores} for the application"
            raise fault(self, "load_threads", f"allowed: 0 to {socket_cores - 1} ({of})")
        self.num_cpus_per_task = self.app_cores
        options = ["latency", "-d", str(self.duration_s), "--pages", self.pages]
        if self.load_threads:
            options += ["--load", self.load_kernel, "-n", str(self.load_threads)]
        if self.size:
            options += ["-s", self.size]
        node = self.machine.numa_node(self.node, f"{self.name}.node")
        self.executable_opts = options if node is None else [*options, "-m", str(node)]


short_form(latency, duration_s=1.0)


# Time of a dependent load, and what the loading cores moved meanwhile.


def parse(stdout: str) -> Fom:
    """Seconds per load; also what `membench.facts` finds, and

    `least_s`, the latency in the fastest iteration; `load_cores` and `load_b_s`, number and total
    rate of the cores that loaded memory, both 0 without them.
    """
    row = last_match(rf"^FOM latency: {FLOAT} s$", stdout, "line of the latency (FOM)")
    least = last_match(rf"^fastest iteration: {FLOAT} s$", stdout, "line of the fastest iteration")
    cores = re.search(r"^load on (\d+) cores?,", stdout, re.MULTILINE)
    load_b_s = 0.0
    if cores:
        rate = last_match(rf"^load \w+: {FLOAT} B/s$", stdout, "line of the load's rate")
        load_b_s = require_positive("the rate of the load", float(rate.group(1)))
    extra = membench.facts(stdout) | {
        "least_s": require_positive("the latency of an iteration", float(least.group(1))),
        "load_cores": float(cores.group(1)) if cores else 0.0,
        "load_b_s": load_b_s,
    }
    return Fom(float(row.group(1)), extra)


WORKLOAD = Workload(
    title="membench latency: dependent loads",
    fom="time of a load",
    unit="s",
    better="lower",
    sanity="the chain is one cycle over all lines and was followed for as many loads as"
    " counted; NUMA nodes and huge pages of the memory",
    parser=parse,
)
