"""membench with a chosen number of operations per byte, with and without writers."""

from dataclasses import replace

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests import membench
from reframe_tests.mixin import short_form


@rfm.simple_test
class intensity(membench.membench):
    """a = c, then a = b + s a, repeated: triad's bytes, and 2 flops for each repetition.

    The more is computed per byte, the less it matters that memory is slower: loss against intensity
    (Denis, Jeannot and Swartvagher, ICPP 2021).
    """

    descr = "membench of tunable arithmetic intensity under RDMA writes"
    workload = "intensity"
    tags = {"single_node"}
    within_block = (
        *("flops_per_element", "share", "cores", "socket", "order", "node", "duration_s"),
    )
    kernel = "intensity"

    #: Floating-point operations per element of 24 bytes: an even number, 2 to 8192.
    flops_per_element = variable(int, value=2)

    #: Length of one measurement, seconds.
    duration_s = 3.0

    def lay_out(self):
        """As membench, with the operations per element."""
        super().lay_out()
        self.executable_opts += ["--flops-per-element", str(self.flops_per_element)]


short_form(intensity, duration_s=1.0)


WORKLOAD = replace(
    membench.WORKLOAD, title="membench intensity: a chosen number of operations per byte"
)
