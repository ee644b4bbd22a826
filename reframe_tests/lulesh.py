"""LULESH with and without writers (the paper's section V)."""

import reframe as rfm
from reframe.core.builtins import run_before, variable

from reframe_tests.binaries import BinariesMixin
from reframe_tests.mixin import NimcMixin
from reframe_tests.shapes import largest_cube


@rfm.simple_test
class lulesh(rfm.RunOnlyRegressionTest, BinariesMixin, NimcMixin):
    """Sedov blast on a cube of ranks, threads on the cores that are left."""

    descr = "LULESH under RDMA writes"
    workload = "lulesh"
    mpi = True
    valid_systems = ["*"]
    valid_prog_environs = ["+spack", "+modules", "+wheels"]
    stack = "proxyapps"
    package = "lulesh"
    program = executable = "lulesh2.0"
    tags = {"single_node"}

    #: Ranks along the edge of the cube; 0 takes the largest cube that the cores hold.
    cube = variable(int, value=0)

    #: Elements along the edge of each rank's cube.
    edge = variable(int, value=60)

    #: Iterations for which the final origin energy is known (`fom.lulesh.SHARE_LEFT`).
    iterations = variable(int, value=100)

    @run_before("run")
    def cube_of_ranks(self):
        """The study has 8 ranks of 2 threads on 16 cores."""
        cube = self.cube or largest_cube(self.app_cores)
        self.num_tasks = self.num_tasks_per_node = cube**3
        self.num_cpus_per_task = max(1, self.app_cores // self.num_tasks)
        self.env_vars["OMP_NUM_THREADS"] = self.num_cpus_per_task
        self.executable_opts = ["-s", str(self.edge), "-i", str(self.iterations)]


@rfm.simple_test
class lulesh_quick(lulesh):
    """A short form that still tells an effect."""

    tags = {"quick"}
    edge = 30
    iterations = 50
    pairs = 6
