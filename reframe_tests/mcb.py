"""MCB (Monte Carlo Benchmark) with and without RDMA writes."""

from math import isqrt

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import NodesMixin, ProgramTest, ThreadsMixin
from reframe_tests.mixin import add_short_form
from reframe_tests.workload import Near, Within, Workload


@rfm.simple_test
class mcb(ProgramTest, NodesMixin, ThreadsMixin):
    """Photons from a source in a corner, one rank per core or socket.

    The number of zones fits the largest square number that is not above the number of cores, such
    as 16 for 20 cores. So the work of a core is the same only for square numbers.

    The problem is MCB's validation problem: its solution is known, so every run is verified.
    """

    workload = "mcb"
    program = executable = "MCBenchmark.exe"
    within_block = ("layout", "edge", "particles")

    #: Zones along the edge of each core's square, if the number of all cores is a square.
    edge = variable(int, value=40)
    #: Particles in each zone.
    particles = variable(int, value=1000)

    def lay_out(self):
        """Set a square of zones for all cores."""
        self.set_ranks_per_node(self.ranks_per_node())
        edge = self.edge * max(1, isqrt(self.nodes * self.sized_cores))
        self.executable_opts = [f"--nCores={self.num_cpus_per_task}", "--nThreadCore=1"]
        self.executable_opts += [f"--nZonesX={edge}", f"--nZonesY={edge}"]
        self.executable_opts += [f"--numParticles={self.particles * edge**2}"]


add_short_form(mcb, particles=125)

WORKLOAD = Workload(
    title="MCB 1.0.3, validation problem",
    fom="tracks of photons per second",
    unit="1/s",
    better="higher",
    figure="rate_1_s",
    numbers={
        "tracks": "globalTracks=",
        "advance_s": "MC advance time =",
        "max_error": "MC max error =",
        "printed_1_s": "FOM =",
        "particles": "numParticles=",
        "ranks": "nMpiTasks =",
    },
    derived={"rate_1_s": lambda numbers: numbers.tracks / numbers.advance_s},
    extra=("max_error", "tracks", "particles", "ranks"),
    proof={
        "the program ended ('done!')": r"^done!$",
        # The error is 0.05 with 12 particles per zone, and 0.018 with 125. It falls with the
        # inverse root of the number of particles, down to the error due to the size of a zone.
        "largest deviation from the analytic solution at most 0.1": Within("max_error", 0, 0.1),
        "rate consistent with the printed rate": Near(
            "rate_1_s", lambda numbers: numbers.printed_1_s, 1e-4
        ),
    },
)
