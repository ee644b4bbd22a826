"""LAMMPS melt with and without writers (Groves, Grant and Arnold 2016, sections V and VI)."""

import re
from contextlib import suppress

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import BinariesMixin, near_cube
from reframe_tests.mixin import NimcMixin, short_form
from reframe_tests.workload import Fom, FomError, Workload, last_match, require_close


@rfm.simple_test
class lammps(rfm.RunOnlyRegressionTest, BinariesMixin, NimcMixin):
    """3D Lennard-Jones melt, 32,000 atoms per core (weak scaling), one rank per core."""

    descr = "LAMMPS melt under RDMA writes"
    workload = "lammps"
    mpi = True
    stack = package = "lammps"
    program = executable = "lmp"
    sourcesdir = "src/lammps"
    tags = {"single_node"}
    within_block: tuple[str, ...] = ("steps",)
    lengthened_by = "steps"
    comparable_across_cores = True

    #: Time steps.
    steps = variable(int, value=10000)

    def lay_out(self):
        """One rank per core; reserved cores do not change the box."""
        self.rank_a_core()
        self.melt(self.sized_cores)

    def melt(self, cores):
        """A box of 20 x 20 x 20 cells (32,000 atoms) for each of `cores`."""
        box = zip("xyz", near_cube(cores), strict=True)
        variables = [word for axis, n in box for word in ("-var", axis, str(n))]
        self.executable_opts = ["-in", "in.melt", "-log", "none", *variables]
        self.executable_opts += ["-var", "steps", str(self.steps)]


short_form(lammps, "quick", steps=210)


# Loop time, proved by the thermodynamic state.

#: State of the melt after 100 steps from the standard start (density 0.8442, temperature 1.44,
#: cutoff 2.5), as LAMMPS of 2021 and of 2025 print it for 32,000 atoms on one and on two ranks.
#: It is intensive; other box sizes have other initial velocities and differ by a few per mille.
STATE_AT_100 = {"Temp": 0.7574531, "E_pair": -5.7585055, "TotEng": -4.6223613}
_STATE_TOLERANCE = 0.01
#: The ensemble conserves energy: the last line agrees this well for any number of steps.
_ENERGY_TOLERANCE = 0.005


def parse(stdout: str) -> Fom:
    """Loop time in seconds; also ranks, steps, atoms and the CPU share that LAMMPS reports."""
    errors = re.search(r"^ERROR.*", stdout, re.MULTILINE)
    if errors:
        raise FomError(errors.group(0))
    loop = last_match(
        r"^Loop time of ([0-9.eE+-]+) on (\d+) procs for (\d+) steps with (\d+) atoms",
        stdout,
        "'Loop time'",
    )
    steps = int(loop.group(3))
    rows = _thermo(stdout)
    if steps not in rows:
        raise FomError(f"the thermodynamic table cannot be read: it has no line of step {steps}")
    for name, known in STATE_AT_100.items() if 100 in rows else ():
        require_close(f"{name} at step 100", rows[100][name], known, _STATE_TOLERANCE)
    final = rows[steps]["TotEng"]
    require_close(f"TotEng at step {steps}", final, STATE_AT_100["TotEng"], _ENERGY_TOLERANCE)
    names = ("ranks", "steps", "atoms")
    extra = dict(zip(names, map(float, loop.groups()[1:]), strict=True))
    share = re.search(r"^([0-9.]+)% CPU use", stdout, re.MULTILINE)
    if share:
        extra["cpu_share"] = float(share.group(1)) / 100
    return Fom(float(loop.group(1)), extra)


def _thermo(stdout: str) -> dict[int, dict[str, float]]:
    """Step -> its line of the table of thermodynamic output, by column name.

    Other lines among these are left out: libraries warn on standard output.
    """
    table = re.search(r"^\s*Step\s+Temp.*?(?=^Loop time)", stdout, re.MULTILINE | re.DOTALL)
    if table is None:
        raise FomError("the output has no thermodynamic table")
    header, *lines = table.group(0).strip().splitlines()
    names = header.split()
    if absent := {"Step", "TotEng", *STATE_AT_100} - set(names):
        raise FomError(f"the thermodynamic table has no column {min(absent)}")
    rows = {}
    for line in lines:
        with suppress(ValueError, OverflowError):  # no numbers, or not one a column
            row = dict(zip(names, map(float, line.split()), strict=True))
            rows[int(row["Step"])] = row
    return rows


WORKLOAD = Workload(
    title="LAMMPS, 3D Lennard-Jones melt",
    fom="loop time",
    unit="s",
    better="lower",
    sanity="state at step 100 within 1 % of the known one, final total energy within 0.5 %",
    parser=parse,
)
