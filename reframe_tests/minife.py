"""miniFE with and without writers."""

from sys import float_info

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import BinariesMixin, NodesMixin
from reframe_tests.layout import WorkingSetMixin
from reframe_tests.mixin import NimcMixin, short_form
from reframe_tests.workload import Fom, FomError, Workload, last_match, last_number

#: Memory of one row: 27 matrix entries of 12 bytes, where it begins, and six vectors.
_ROW_B = 380


@rfm.simple_test
class minife(rfm.RunOnlyRegressionTest, BinariesMixin, NodesMixin, WorkingSetMixin, NimcMixin):
    """Finite elements and conjugate gradients, one rank per core (weak scaling)."""

    descr = "miniFE under RDMA writes"
    workload = "minife"
    mpi = True
    sourcesdir = "src/show_after"
    stack = "proxyapps"
    package = "minife"
    program = "miniFE.x"
    executable = "./show_after.sh"
    tags = {"single_node"}
    within_block = ("edge", "working_set")
    comparable_across_cores = True

    #: Elements along the edge of each core's share, if it were a cube.
    edge = variable(int, value=100)

    def lay_out(self):
        """One cube for all ranks; reserved cores do not change it."""
        self.spread(self.ranks_per_node())
        edge = self.edge_of(self.edge, _ROW_B)
        elements = round(edge * (self.nodes * self.sized_cores) ** (1 / 3))
        self.working_set_b = elements**3 * _ROW_B / self.num_tasks
        self.executable_opts = ["miniFE*.yaml", self.program, "-nx", str(elements)]
        self.executable_opts += ["-verify_solution", "1"]


short_form(minife, edge=50)


# Time of the conjugate gradients, proved by the residual and the analytic solution.
#
# miniFE prints its progress and writes its figures to a YAML file, which the check appends.

#: Limit of iterations; grids beyond 50 elements along the edge take all of them.
MAX_ITERATIONS = 200
#: Largest share of the first residual that may then be left.
_LEFT = 1e-2


def parse(stdout: str) -> Fom:
    """CG time in seconds; also time in the matrix-vector product, iterations, rows, residual."""
    time_s = last_number("Total CG Time:", stdout)
    dimensions = [int(last_number(f"{name}:", stdout)) for name in ("nx", "ny", "nz")]
    rows = int(last_number("Global Nrows:", stdout))
    nodes = (dimensions[0] + 1) * (dimensions[1] + 1) * (dimensions[2] + 1)
    if rows != nodes:
        raise FomError(f"the matrix has {rows} rows; elements of {dimensions} have {nodes} nodes")
    iterations = int(last_number("Iterations:", stdout))
    residual = last_number("Final Resid Norm:", stdout)
    most = float_info.epsilon
    if iterations == MAX_ITERATIONS:
        most = _LEFT * last_number("Initial Residual =", stdout)
    if not 0 <= residual <= most or not 0 < iterations <= MAX_ITERATIONS:
        raise FomError(f"the residual is {residual:g} after {iterations} iterations")
    last_match(
        r"^solution matches analytic solution to within 0\.06 or better",
        stdout,
        "match with the analytic solution (-verify_solution 1)",
    )
    extra = {
        "matvec_s": last_number("MATVEC Time:", stdout),
        "iterations": float(iterations),
        "rows": float(rows),
        "final_residual": residual,
    }
    return Fom(time_s, extra)


WORKLOAD = Workload(
    title="miniFE 2.1.0",
    fom="time of the conjugate gradients",
    unit="s",
    better="lower",
    sanity="residual below the machine's epsilon, or 1 % of the first after the full 200"
    " iterations; solution within 6 % of the analytic one",
    parser=parse,
)
