"""LULESH with and without RDMA writes (Groves, Grant and Arnold 2016, section V)."""

import re
from typing import Any

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import NodesMixin, ProgramTest, ThreadsMixin, largest_cube_edge
from reframe_tests.factors import variable_fault
from reframe_tests.layout import WorkingSetMixin
from reframe_tests.mixin import add_short_form
from reframe_tests.workload import FomError, Near, Within, Workload

#: Memory of one element, bytes, by LULESH's source code: 276 for the domain, and 392 for the
#: hourglass forces.
_ELEMENT_B = 668


@rfm.simple_test
class lulesh(ProgramTest, NodesMixin, ThreadsMixin, WorkingSetMixin):
    """Sedov blast on a cube of ranks, with threads on the remaining cores."""

    workload = "lulesh"
    stack = "proxyapps"
    package = "lulesh"
    program = executable = "lulesh2.0"
    within_block = ("layout", "edge", "iterations", "working_set")
    rank_counts = tuple(edge**3 for edge in range(1, 41))

    #: Elements along the edge of each rank's mesh, for the largest cube of ranks that have a core
    #: each. A `layout` with fewer ranks has larger meshes, so that a node has the same work.
    edge = variable(int, value=60)

    #: Iterations. The final origin energy after so many must be known (`ENERGY_SHARE`; for some
    #: meshes also `COMPLETE_RUNS`).
    iterations = variable(int, value=100)

    def lay_out(self):
        """Set ranks, and threads on the remaining cores.

        On 16 cores, these are 8 ranks of 2 threads, as in Groves, Grant and Arnold (2016).
        """
        max_ranks = self.nodes * self.ranks_per_node()
        ranks = largest_cube_edge(max_ranks, self.nodes) ** 3
        if ranks % self.nodes:
            raise variable_fault(
                self,
                "nodes",
                f"no cube of at most {max_ranks} ranks has as many ranks on each node; allowed:"
                " another number",
            )
        self.set_ranks_per_node(ranks // self.nodes)
        default_ranks = largest_cube_edge(self.nodes * self.app_cores, self.nodes) ** 3
        default_edge = self.edge_of_same_work(self.edge, default_ranks // self.nodes)
        edge = self.working_set_edge(default_edge, _ELEMENT_B)
        self.executable_opts = ["-s", str(edge), "-i", str(self.iterations)]


add_short_form(lulesh, edge=30, iterations=50)


#: Elements along the edge of the whole mesh -> iterations and final origin energy of a complete
#: run. These are the known results of LULESH 2. For edges 5, 10 and 30, they were repeated with
#: version 2.0.3.
COMPLETE_RUNS = {
    5: (72, 7.853665e03),
    10: (231, 2.720531e04),
    30: (932, 2.025075e05),
    45: (1477, 4.234875e05),
    50: (1662, 5.124778e05),
    70: (2402, 9.417145e05),
    90: (3145, 1.482403e06),
}
#: Iterations -> origin energy as a share of the initial energy. Until the blast reaches the far
#: boundary, the solution is self-similar in units of the mesh, so the share is the same for every
#: size: 15, 20 and 25 elements along the edge agree in seven digits.
ENERGY_SHARE = {10: 0.5992538, 50: 0.1870339, 100: 0.1130490}
#: Smallest edge of the whole mesh, in elements, at which the blast has not reached the boundary in
#: 100 iterations.
MIN_MESH_EDGE = 15
#: Initial energy of a mesh with `_BASE_EDGE` elements along its edge; it is proportional to the
#: number of elements in the mesh.
_BASE_ENERGY_J = 3.948746e7
_BASE_EDGE = 45


def known_energy(mesh_edge: int, iterations: int) -> float:
    """Return the known origin energy for a whole mesh. Raises FomError if there is none."""
    complete_iterations, final_energy = COMPLETE_RUNS.get(mesh_edge, (None, 0.0))
    if iterations == complete_iterations:
        return final_energy
    if iterations not in ENERGY_SHARE or mesh_edge < MIN_MESH_EDGE:
        counts = ", ".join(map(str, ENERGY_SHARE))
        complete_runs = ", ".join(f"{edge} ({count})" for edge, (count, _) in COMPLETE_RUNS.items())
        raise FomError(
            f"no origin energy is known for a mesh of {mesh_edge} elements along its edge (edge x"
            f" cube root of the ranks) after {iterations} iterations; known: meshes"
            f" of {MIN_MESH_EDGE} or more after {counts} iterations; and complete runs, as edge"
            f" (iterations): {complete_runs}"
        )
    return ENERGY_SHARE[iterations] * _BASE_ENERGY_J * (mesh_edge / _BASE_EDGE) ** 3


def _printed_error(numbers: Any) -> float:
    """Return the error of the printed time / the allowed error, which is a little above rounding.

    Version 2.0.3 prints the time with two decimal places, other versions with two significant
    digits. Both are allowed.
    """
    allowed_error_s = max(0.06 * numbers.elapsed_s, 0.00501)
    return float(abs(numbers.printed_s - numbers.elapsed_s) / allowed_error_s)


WORKLOAD = Workload(
    title="LULESH 2.0.3, Sedov blast",
    fom="elapsed time",
    unit="s",
    better="lower",
    figure="elapsed_s",
    numbers={
        "edge": "Problem size        =",
        "ranks": re.compile(r"^\s*MPI tasks\s+=\s*([1-9]\d*)\s*$"),
        "iterations": "Iteration count     =",
        "energy": "Final Origin Energy =",
        "asymmetry": "MaxRelDiff   =",
        # The grind time has eight digits, more than the elapsed time.
        "grind_us": re.compile(r"^Grind time \(us/z/c\)\s*=\s*([0-9.eE+-]+) \(per dom\)"),
        "printed_s": "Elapsed time         =",
    },
    derived={
        "elapsed_s": lambda numbers: numbers.grind_us * 1e-6 * numbers.edge**3 * numbers.iterations,
        "elements": lambda numbers: numbers.edge**3 * numbers.ranks,
        "zones_1_s": lambda numbers: numbers.elements * numbers.iterations / numbers.elapsed_s,
        "mesh_edge": lambda numbers: round(numbers.edge * numbers.ranks ** (1 / 3)),
        "printed_error": _printed_error,
    },
    extra=("iterations", "elements", "zones_1_s"),
    proof={
        "the run completed": r"Run completed",
        "final origin energy within 1e-5 of the known one": (
            Near(
                "energy",
                lambda numbers: known_energy(numbers.mesh_edge, int(numbers.iterations)),
                1e-5,
            )
        ),
        "energies symmetric to 1e-8": Within("asymmetry", 0, 1e-8),
        "printed time consistent with the time of all iterations": Within("printed_error", 0, 1),
    },
)
