"""LAMMPS melt with and without RDMA writes (Groves, Grant and Arnold 2016, sections V and VI)."""

import re
from collections.abc import Callable
from contextlib import suppress
from math import isnan, nan

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import ProgramTest, near_cube
from reframe_tests.mixin import add_short_form
from reframe_tests.workload import FomError, Near, Within, Workload, last_match, optional_number


@rfm.simple_test
class lammps(ProgramTest):
    """3D Lennard-Jones melt, 32,000 atoms per core (weak scaling), one rank per core."""

    workload = "lammps"
    stack = package = "lammps"
    program = executable = "lmp"
    sourcesdir = "src/lammps"
    within_block: tuple[str, ...] = ("steps",)
    lengthened_by = "steps"
    comparable_across_cores = True

    #: Time steps.
    steps = variable(int, value=10000)

    def lay_out(self):
        """Set one rank per core; reserved cores do not change the number of atoms."""
        self.rank_per_core()
        self.set_melt_options(self.sized_cores)

    def set_melt_options(self, cores):
        """Set the options for a box of `cores` cubes of 20 x 20 x 20 cells (32,000 atoms) each."""
        self.executable_opts = ["-in", "in.melt", "-log", "none"]
        for axis, cubes in zip("xyz", near_cube(cores), strict=True):
            self.executable_opts += ["-var", axis, str(cubes)]
        self.executable_opts += ["-var", "steps", str(self.steps)]


add_short_form(lammps, "quick", steps=150)

#: State of the melt after 100 steps from the standard start (density 0.8442, temperature 1.44,
#: cutoff 2.5), as LAMMPS of 2021 and of 2025 print it for 32,000 atoms on one and on two ranks. The
#: quantities are intensive: in boxes of other sizes, with other initial velocities, they differ by
#: a few per mille.
STATE_AT_100 = {"Temp": 0.7574531, "E_pair": -5.7585055, "TotEng": -4.6223613}
_LOOP = (
    r"^Loop time of (?P<loop_s>[0-9.eE+-]+) on (?P<ranks>\d+) procs for (?P<steps>\d+) steps"
    r" with (?P<atoms>\d+) atoms"
)


def _thermo_rows(stdout: str) -> dict[int, dict[str, float]]:
    """Return the row of each step in the table of thermodynamic output, by column names.

    Other lines in the table are left out, since libraries print warnings there.
    """
    table = re.search(r"^\s*Step\s+Temp.*?(?=^Loop time)", stdout, re.MULTILINE | re.DOTALL)
    if table is None:
        raise FomError("the output has no thermodynamic table")
    header, *lines = table.group(0).strip().splitlines()
    names = header.split()
    rows = {}
    for line in lines:
        with suppress(ValueError, OverflowError):  # not a row of numbers, one per column
            row = dict(zip(names, map(float, line.split()), strict=True))
            rows[int(row["Step"])] = row
    return rows


def _loop_number(name: str) -> Callable[[str], float]:
    """Return a function that reads one of the numbers in the line 'Loop time'."""
    return lambda stdout: float(last_match(_LOOP, stdout, "'Loop time'")[name])


def _deviation_at_100(stdout: str) -> float:
    """Return the largest relative deviation from the known state at step 100.

    It is 0 if this step is not printed.
    """
    row = _thermo_rows(stdout).get(100, STATE_AT_100)
    deviations = [abs(row[name] / known - 1) for name, known in STATE_AT_100.items()]
    return nan if any(map(isnan, deviations)) else max(deviations)


def _last_energy(stdout: str) -> float:
    """Return the total energy at the last step."""
    steps = int(_loop_number("steps")(stdout))
    rows = _thermo_rows(stdout)
    if steps not in rows:
        raise FomError(f"the thermodynamic table cannot be read: it has no line of step {steps}")
    return rows[steps]["TotEng"]


WORKLOAD = Workload(
    title="LAMMPS, 3D Lennard-Jones melt",
    fom="loop time",
    unit="s",
    better="lower",
    figure="loop_s",
    error=r"^ERROR.*",
    numbers={
        "loop_s": _loop_number("loop_s"),
        "ranks": _loop_number("ranks"),
        "steps": _loop_number("steps"),
        "atoms": _loop_number("atoms"),
        "cpu_percent": optional_number(r"^([0-9.]+)% CPU use"),
        "deviation_at_100": _deviation_at_100,
        "energy": _last_energy,
    },
    derived={"cpu_share": lambda numbers: numbers.cpu_percent / 100},
    extra=("ranks", "steps", "atoms", "cpu_share"),
    proof={
        "state at step 100 within 1 % of the known one": Within(
            "deviation_at_100", least=0, most=0.01
        ),
        # The ensemble conserves energy, for any number of steps.
        "final total energy within 0.5 %": Near("energy", lambda _: STATE_AT_100["TotEng"], 0.005),
    },
)
