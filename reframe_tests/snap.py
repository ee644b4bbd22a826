"""SNAP with and without writers (Groves, Grant and Arnold 2016, section V)."""

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import BinariesMixin, near_square
from reframe_tests.mixin import NimcMixin

#: Edge of a cell; the box grows with the ranks.
_CELL_CM = 0.1
#: Input that does not depend on size and layout: a uniform source in uniform material with open
#: sides, whose solution is symmetric, printed at mid-height so that this can be checked.
_FIXED = (
    "nnested=1 ndimen=3 nmom=2 epsi=1.0E-4 iitm=5 oitm=40 timedep=0 tf=1.0 nsteps=1 mat_opt=0"
    " src_opt=0 scatp=0 it_det=0 fluxp=0 fixup=1 soloutp=1 kplane=0 popout=0 swp_typ=0 angcpy=1"
    " multiswp=1"
)


@rfm.simple_test
class snap(rfm.RunOnlyRegressionTest, BinariesMixin, NimcMixin):
    """Discrete ordinates on a 2D layout of ranks, one per core (weak scaling)."""

    descr = "SNAP under RDMA writes"
    workload = "snap"
    mpi = True
    sourcesdir = "src/show_after"
    stack = "proxyapps"
    package = "snap"
    program = "gsnap"
    executable = "./show_after.sh"
    tags = {"single_node"}
    within_block = ("angles", "groups")

    #: Cells of each rank along x, y and z.
    cells = variable(tuple, value=(32, 8, 8))

    #: Angles per octant, and energy groups.
    angles = variable(int, value=32)
    groups = variable(int, value=16)

    def lay_out(self):
        """Write the input: y and z are divided among the ranks, x is not."""
        self.rank_a_core()
        ranks_y, ranks_z = near_square(self.app_cores)
        box = (self.cells[0], self.cells[1] * ranks_y, self.cells[2] * ranks_z)
        lines = [f"npey={ranks_y} npez={ranks_z} ichunk={self.cells[0] // 4} nthreads=1"]
        lines += [f"n{x}={n} l{x}={n * _CELL_CM:.4f}" for x, n in zip("xyz", box, strict=True)]
        lines += [f"nang={self.angles} ng={self.groups}", *_FIXED.split()]
        text = "\n".join(["&invar", *(f"  {line}" for line in lines), "/", ""])
        name = self.input_file("snap.in", "! uniform source, open sides\n" + text)
        self.executable_opts = ["snap.out", self.program, name, "snap.out"]


@rfm.simple_test
class snap_quick(snap):
    """A short form that still shows an effect."""

    tags = {"short"}
    angles = 16
    groups = 8
    pairs = 6
