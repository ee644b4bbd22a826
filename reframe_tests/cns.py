"""CNS with and without writers (the paper's section V)."""

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_before, variable

from reframe_tests.binaries import BinariesMixin
from reframe_tests.mixin import NimcMixin


@rfm.simple_test
class cns(rfm.RunOnlyRegressionTest, BinariesMixin, NimcMixin):
    """Compressible Navier-Stokes on boxes of a cube, one rank a core."""

    descr = "CNS under RDMA writes"
    workload = "cns"
    mpi = True
    valid_systems = ["*"]
    valid_prog_environs = ["+spack", "+modules", "+wheels"]
    sourcesdir = None
    stack = "proxyapps"
    package = "cns"
    program = executable = "cns"
    tags = {"single_node"}

    #: Cells along the edge of the cube and of its boxes, and time steps.
    cells = variable(int, value=128)
    box = variable(int, value=32)
    steps = variable(int, value=5)

    @run_before("run")
    def one_rank_a_core(self):
        """Write the input; nothing is plotted."""
        self.num_tasks = self.num_tasks_per_node = self.app_cores
        self.env_vars["OMP_NUM_THREADS"] = 1
        lines = [f"nsteps={self.steps}", "plot_int=0", f"n_cell={self.cells}"]
        lines += [f"max_grid_size={self.box}", "cfl=0.5d0", "eta=1.8d-4", "alam=1.5d2"]
        text = "\n".join(["&probin", *(f"  {line}" for line in lines), "/", ""])
        Path(self.stagedir, "inputs").write_text(text)
        self.executable_opts = ["inputs"]


@rfm.simple_test
class cns_quick(cns):
    """A short form that still tells an effect."""

    tags = {"quick"}
    cells = 64
    steps = 3
    pairs = 6
