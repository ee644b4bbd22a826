"""Communications into a chosen NUMA node beside workers that sleep (seed 002)."""

import sys

import reframe as rfm
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.exceptions import ReframeError

from analysis.errors import InputError
from reframe_tests import numa_places
from reframe_tests.mixin import NimcMixin

_SLEEP = (
    "import sys, time; begun_s = time.monotonic(); time.sleep(float(sys.argv[1]));"
    " print(f'slept {time.monotonic() - begun_s:.6f} s')"
)


@rfm.simple_test
class numa_idle(rfm.RunOnlyRegressionTest, NimcMixin):
    """The window of a measurement without any load in it."""

    descr = "nobody at work under RDMA, by NUMA node"
    workload = "numa_idle"
    valid_systems = ["*"]
    valid_prog_environs = ["+wheels"]
    executable = sys.executable
    tags = {"numa"}
    #: How far communications are slowed is the question, so that is no reason to reject a run.
    min_share = 0.02

    #: Where the communications' buffer lies: `nic` (the NUMA node of the network interface) or
    #: `other`.
    buffer = variable(str, value="nic")

    #: Length of one measurement, seconds.
    duration_s = variable(float, value=3.0)

    @run_after("setup")
    def place(self):
        """The NUMA node for the place that was asked for."""
        try:
            cell = numa_places.cell(self.machine, self.buffer, None, "idle")
        except InputError as error:
            raise ReframeError(f"{self.name}: {error}") from None
        self.buffer_node = cell["buffer_node"]
        self.provenance = {**self.provenance, "numa": {**cell, "direction": self.direction}}

    @run_before("run")
    def sleep(self):
        """As long as the other cells' workers are at work."""
        self.executable_opts = ["-c", _SLEEP, str(self.duration_s)]
