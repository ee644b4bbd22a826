"""AMG with and without writers."""

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import BinariesMixin, NodesMixin, ThreadsMixin, near_cube
from reframe_tests.mixin import NimcMixin, short_form
from reframe_tests.workload import (
    FLOAT,
    Fom,
    FomError,
    Workload,
    last_match,
    last_number,
    require_close,
)


@rfm.simple_test
class amg(rfm.RunOnlyRegressionTest, BinariesMixin, NodesMixin, ThreadsMixin, NimcMixin):
    """Algebraic multigrid, problem 1, one rank per core or socket (weak scaling)."""

    descr = "AMG under RDMA writes"
    workload = "amg"
    mpi = True
    sourcesdir = None
    stack = "proxyapps"
    package = "amg2013"
    program = executable = "amg"
    tags = {"single_node"}
    within_block = ("layout", "edge")

    #: Grid points along the edge of each rank's cube.
    edge = variable(int, value=96)

    def lay_out(self):
        """A box of ranks, as close to a cube as their number allows."""
        per_node = self.ranks_per_node()
        self.spread(per_node)
        ranks = [str(n) for n in near_cube(self.nodes * per_node)]
        edges = [str(self.same_work(self.edge))] * 3
        self.executable_opts = ["-P", *ranks, "-n", *edges, "-problem", "1"]


short_form(amg, edge=48)


# Its figure of merit, proved by convergence (problem 1: AMG-PCG on a 27-point Laplacian).

#: Relative residual at which the solver stops, and more iterations than the method ever needs.
_TOLERANCE = 1e-8
_MAX_ITERATIONS = 100
#: Figures are printed with seven digits.
_SEVEN_DIGITS = 1e-5


def parse(stdout: str) -> Fom:
    """AMG's FOM_1 in non-zeros per second; also set-up and solve times and iterations."""
    figure = last_number("Figure of Merit (FOM_1):", stdout)
    residual = last_number("Final Relative Residual Norm =", stdout)
    iterations = int(last_number("Iterations =", stdout))
    if not 0 < residual < _TOLERANCE or not 0 < iterations < _MAX_ITERATIONS:
        raise FomError(f"the relative residual is {residual:g} after {iterations} iterations")
    setup = last_number("FOM_Setup: nnz_AP / Setup Phase Time:", stdout)
    solve = last_number("FOM_Solve: nnz_AP * Iterations / Solve Phase Time:", stdout)
    # AMG's weights: one part set-up, three parts solve.
    require_close("FOM_1", figure, (setup + 3 * solve) / 4, _SEVEN_DIGITS)
    # The first of the lines that follow a phase's title, other programs' lines left out.
    wall = rf"\n(?:(?!PCG ).*\n)*?\s+wall clock time = {FLOAT} seconds"
    setup_s, solve_s = (
        float(last_match(rf"^PCG {phase}:{wall}", stdout, f"time of {phase}")[1])
        for phase in ("Setup", "Solve")
    )
    # Both phases count the same non-zeros, so the two rates and times must agree.
    require_close("the solver's rate", solve * solve_s / iterations, setup * setup_s, 1e-3)
    extra = {"setup_s": setup_s, "solve_s": solve_s, "iterations": float(iterations)}
    return Fom(figure, extra)


WORKLOAD = Workload(
    title="AMG 1.2, problem 1",
    fom="FOM_1: non-zeros per second, one part set-up and three parts solve",
    unit="1/s",
    better="higher",
    sanity="relative residual below 1e-8, FOM_1 consistent with its phases",
    parser=parse,
)
