"""LULESH with and without writers (Groves, Grant and Arnold 2016, section V)."""

import reframe as rfm
from reframe.core.builtins import variable

from nimc.base.errors import InputError
from reframe_tests.binaries import BinariesMixin, NodesMixin, largest_cube
from reframe_tests.mixin import NimcMixin


@rfm.simple_test
class lulesh(rfm.RunOnlyRegressionTest, BinariesMixin, NodesMixin, NimcMixin):
    """Sedov blast on a cube of ranks, with threads on the remaining cores."""

    descr = "LULESH under RDMA writes"
    workload = "lulesh"
    mpi = True
    stack = "proxyapps"
    package = "lulesh"
    program = executable = "lulesh2.0"
    tags = {"single_node"}
    within_block = ("cube", "edge", "iterations")

    #: Ranks along the edge of the cube; 0 takes the largest cube that fits on the cores.
    cube = variable(int, value=0)

    #: Elements along the edge of each rank's cube.
    edge = variable(int, value=60)

    #: Iterations for which the final origin energy is known (`fom.lulesh.SHARE_LEFT`).
    iterations = variable(int, value=100)

    def lay_out(self):
        """On 16 cores 8 ranks of 2 threads, as in Groves, Grant and Arnold (2016)."""
        most = self.nodes * self.ranks_per_node()
        count = (self.cube or largest_cube(most, self.nodes)) ** 3
        if count % self.nodes:
            raise InputError(
                f"{self.name}.cube: {count} ranks on {self.nodes} nodes; allowed: the same number"
                " on each node"
            )
        self.spread(count // self.nodes)
        self.executable_opts = ["-s", str(self.edge), "-i", str(self.iterations)]


@rfm.simple_test
class lulesh_quick(lulesh):
    """A short form that still shows an effect."""

    tags = {"short"}
    edge = 30
    iterations = 50
    pairs = 6
