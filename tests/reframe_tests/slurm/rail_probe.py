"""Checks for two nodes with two rails each.

The application of one check sends no messages. The application of the other checks sends messages.
"""

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.mixin import NimcMixin
from tests.reframe_tests.slurm.probe import MELTS


class _TwoNodes(rfm.RunOnlyRegressionTest, NimcMixin):
    workload = "lammps"
    sourcesdir = None
    warmups = 0
    pairs = 1
    retries = 0
    min_share = 0.001
    foreign_cpus = steal_share = frequency_drop = None

    def two_nodes(self):
        self.num_tasks, self.num_tasks_per_node = 2, 1


@rfm.simple_test
class rail_writers(_TwoNodes):
    """A check whose application sleeps and then prints a captured output of LAMMPS."""

    executable = "sh"
    arms = ["off", "on"]
    factors = "{writer_rail: [default, nic0, nic1, local]}"
    #: The time must be long enough for each writer to print two rows.
    sleeps_s = variable(int)

    def lay_out(self):
        self.two_nodes()
        self.executable_opts = ["-c", f"sleep {self.sleeps_s}; cat '{MELTS[1]}'"]


@rfm.simple_test
class rail_messages(_TwoNodes):
    """A check whose application exchanges messages between two ranks."""

    mpi = True
    arms = ["off"]
    factors = "{mpi_rail: [default, nic0, nic1, local]}"
    exchange = variable(str)

    def lay_out(self):
        self.two_nodes()
        self.executable = self.exchange
        self.executable_opts = ["24", str(MELTS[2])]


@rfm.simple_test
class rail_misled(rail_messages):
    """A check like rail_messages, but its MPI uses the first rail at each level of the policy."""
