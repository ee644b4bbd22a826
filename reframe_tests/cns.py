"""CNS with and without RDMA writes (Groves, Grant and Arnold 2016, section V)."""

import re
from collections.abc import Callable
from math import cos, pi, sin, sqrt

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import ProgramTest, ThreadsMixin
from reframe_tests.factors import variable_fault
from reframe_tests.layout import WorkingSetMixin
from reframe_tests.mixin import add_short_form
from reframe_tests.workload import (
    FLOAT,
    Near,
    Within,
    Workload,
    last_match,
    number,
    optional_number,
)


@rfm.simple_test
class cns(ProgramTest, ThreadsMixin, WorkingSetMixin):
    """Compressible Navier-Stokes on boxes of a cube, one rank per core."""

    workload = "cns"
    program = executable = "cns"
    within_block = ("layout", "cells", "box", "steps", "working_set")
    #: The problem does not grow with the number of ranks.
    comparable_across_cores = True

    #: Cells along the edge of the cube.
    cells = variable(int, value=128)

    #: Cells along the edge of each box of the cube. A rank works on whole boxes. The default, 0,
    #: takes 32 or, if the cube would have fewer boxes than the node has cores, the largest smaller
    #: divisor of `cells` that gives each core a box.
    box = variable(int, value=0)

    #: Time steps.
    steps = variable(int, value=5)

    def lay_out(self):
        """Set ranks and threads, and write an input that makes no plot files."""
        self.set_ranks(*self.ranks_and_threads(self.app_cores))
        box = self.fitting_box()
        lines = [f"nsteps={self.steps}", "plot_int=0", f"n_cell={self.cells}"]
        lines += [f"max_grid_size={box}", "cfl=0.5d0", "eta=1.8d-4", "alam=1.5d2"]
        text = "\n".join(["&probin", *(f"  {line}" for line in lines), "/", ""])
        self.executable_opts = [self.input_file("inputs", text)]

    def fitting_box(self):
        """Return the edge of the boxes, and store the memory of one box as the working set.

        If a working set was chosen, the edge is the largest with which a box fits in it. Reserved
        cores do not change the edge. Raises InputError.
        """
        if self.cells < _MIN_BOX_EDGE:
            raise variable_fault(self, "cells", f"allowed: numbers from {_MIN_BOX_EDGE}")
        edges = [edge for edge in range(_MIN_BOX_EDGE, self.cells + 1) if self.cells % edge == 0]
        size_b = self.chosen_working_set_b(box_b(edges[0]))
        box = self.box
        if size_b is not None:
            box = max(edge for edge in edges if box_b(edge) <= size_b)
        elif not box:
            enough = [edge for edge in edges if (self.cells // edge) ** 3 >= self.sized_cores]
            fallback = min(_MAX_DEFAULT_EDGE, edges[0])
            box = max((edge for edge in enough if edge <= _MAX_DEFAULT_EDGE), default=fallback)
        self.working_set_b = box_b(box)
        return box


#: Arrays of doubles of a box with ghost cells: two states of five variables each, six primitive
#: variables, nine gradients.
_GHOST_ARRAYS = 25
#: Arrays of doubles of a box without ghost cells: two kinds of five fluxes.
_PLAIN_ARRAYS = 10
#: Ghost cells on each side of an array.
_GHOSTS = 4
#: Largest edge of a box by default, cells.
_MAX_DEFAULT_EDGE = 32
#: Smallest edge of the cube, and of a box that is chosen for a working set, cells.
_MIN_BOX_EDGE = 8


def box_b(edge: int) -> float:
    """Return the memory of a box with this edge, bytes. A rank works on one box at a time."""
    return 8.0 * (_GHOST_ARRAYS * (edge + 2 * _GHOSTS) ** 3 + _PLAIN_ARRAYS * edge**3)


add_short_form(cns, cells=64, steps=3)


#: Ideal gas of the initial state: ratio of specific heats, and energy per mass, cm^2/s^2.
_GAMMA = 1.4
_SPECIFIC_ENERGY = 2.5e9
#: Edge of the cube, cm.
_CUBE_EDGE_CM = 0.2
#: Largest plausible number of cells along the edge. No machine has the memory for more.
_MAX_CELLS = 100_000
#: Relative tolerance of Courant numbers and of the lengths of steps.
_TOLERANCE = 1e-5


def fastest_wave(cells: int) -> float:
    """Return the speed of the initial state's fastest wave, in cells per second.

    The velocities are products of sines and cosines, one factor per axis, sampled at the cells'
    lower corners. So the largest product is the product of the factors' largest values.
    """

    def peak(function: Callable[[float], float], wave_number: int) -> float:
        angles = (2 * pi * wave_number * corner / cells for corner in range(cells))
        return max(abs(function(angle)) for angle in angles)

    velocities = (
        1.1e4 * peak(sin, 1) * peak(sin, 2) * peak(sin, 3),
        1.0e4 * peak(sin, 2) * peak(sin, 4) * peak(sin, 1),
        1.2e4 * peak(sin, 3) * peak(cos, 2) * peak(sin, 2),
    )
    sound = sqrt(_GAMMA * (_GAMMA - 1) * _SPECIFIC_ENERGY)
    return (sound + max(velocities)) * cells / _CUBE_EDGE_CM


def _input_pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of a value in the namelist that CNS prints."""
    return re.compile(rf"^\s*{name}=\s*{FLOAT}")


def _steps(stdout: str) -> list[tuple[float, float]]:
    """Return the length (s) and the Courant number of each time step.

    The Courant number that CNS prints is the speed of the fastest wave, in cells per second.
    """
    steps = re.findall(rf"^\s*dt,courno\s+{FLOAT}\s+{FLOAT}\s*$", stdout, re.MULTILINE)
    return [(number(length_s), number(courant)) for length_s, courant in steps]


def _stable_steps(stdout: str) -> float:
    """Return the number of stable steps.

    In a stable step, the Courant number is within a factor of two of the first step's, and the
    length of the step is the input's CFL / Courant number. In correct runs the Courant number
    changes by a few percent.
    """
    steps = _steps(stdout)
    cfl = number(last_match(_input_pattern("CFL").pattern, stdout, "CFL")[1])
    _, first_courant = steps[0]
    return sum(
        0.5 * first_courant <= courant <= 2 * first_courant
        and abs(length_s * courant / cfl - 1) <= _TOLERANCE
        for length_s, courant in steps
    )


WORKLOAD = Workload(
    title="CNS (BoxLib, Exp_CNS_NoSpec_F)",
    fom="run time",
    unit="s",
    better="lower",
    figure="run_s",
    numbers={
        "run_s": "Run time (s) =",
        "ranks": optional_number(r"^ MPI initialized with +(\d+) +MPI processes"),
        "edge": _input_pattern("N_CELL"),
        "steps": _input_pattern("NSTEPS"),
        "steps_done": lambda stdout: len(_steps(stdout)),
        "simulated_s": lambda stdout: sum(length_s for length_s, _ in _steps(stdout)),
        "first_courant": lambda stdout: _steps(stdout)[0][1],
        "stable_steps": _stable_steps,
    },
    derived={"cells": lambda numbers: numbers.edge**3},
    extra=("steps", "cells", "simulated_s"),
    proof={
        "a cube of cells": Within("edge", 1, _MAX_CELLS),
        "first Courant number within 1e-5 of the initial state's": (
            Near("first_courant", lambda numbers: fastest_wave(int(numbers.edge)), _TOLERANCE)
        ),
        "all steps made": Near("steps_done", lambda numbers: numbers.steps),
        "solution stable, and each step as long as its Courant number requires": (
            Near("stable_steps", lambda numbers: numbers.steps)
        ),
    },
)
