"""Latency of memory, alone and next to cores that load it, with and without writers."""

import re
from math import inf, isnan

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests import membench
from reframe_tests.binaries import CompiledMixin
from reframe_tests.factors import fault
from reframe_tests.mixin import NimcMixin, short_form
from reframe_tests.workload import FLOAT, Near, Within, Workload, if_printed, last_match


@rfm.simple_test
class latency(rfm.RegressionTest, CompiledMixin, NimcMixin):
    """Dependent loads of one core, one cache line each, in random order over more than the caches.

    Latency against traffic shows why a core's bandwidth falls before the bus is full: its loads in
    flight are limited (Vuppalapati et al., Understanding the Host Network, SIGCOMM 2024).
    """

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

_LOAD = r"^load on (\d+) cores?,"


def _load_b_s(stdout: str) -> float:
    """Rate of the cores that load memory; 0 without them."""
    if not re.search(_LOAD, stdout, re.MULTILINE):
        return 0.0
    return float(last_match(rf"^load \w+: {FLOAT} B/s$", stdout, "line of the load's rate")[1])


WORKLOAD = Workload(
    title="membench latency: dependent loads",
    fom="time of a load",
    unit="s",
    better="lower",
    figure="latency_s",
    numbers={
        "latency_s": re.compile(rf"^FOM latency: {FLOAT} s$"),
        "least_s": re.compile(rf"^fastest iteration: {FLOAT} s$"),
        "load": if_printed(_LOAD),
        "load_b_s": _load_b_s,
        **membench.NUMBERS,
    },
    derived={
        "load_cores": lambda n: 0.0 if isnan(n.load) else n.load,
        "loads": lambda n: n.load_b_s > 0,
    },
    extra=("least_s", "load_cores", "load_b_s", *membench.NUMBERS),
    proof={
        "the chain is one cycle over all lines and was followed for as many loads as counted; NUMA"
        " nodes and huge pages of the memory": membench.RIGHT,
        "an iteration takes time": Within("least_s", 1e-12, inf),
        "cores that load move bytes": Near("loads", lambda n: n.load_cores > 0),
    },
)
