"""MCB (Monte Carlo Benchmark) with and without writers."""

from math import isqrt

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests.binaries import BinariesMixin, NodesMixin, ThreadsMixin
from reframe_tests.mixin import NimcMixin, short_form
from reframe_tests.workload import Fom, FomError, Workload, last_match, last_number, require_close


@rfm.simple_test
class mcb(rfm.RunOnlyRegressionTest, BinariesMixin, NodesMixin, ThreadsMixin, NimcMixin):
    """Photons from a source in a corner, one rank per core or socket (weak scaling).

    This is its validation problem, whose solution is known, so that every run is proved.
    """

    descr = "MCB under RDMA writes"
    workload = "mcb"
    mpi = True
    sourcesdir = None
    program = executable = "MCBenchmark.exe"
    tags = {"single_node"}
    within_block = ("layout", "edge", "particles")

    #: Zones along the edge of each core's square, and particles of each zone.
    edge = variable(int, value=40)
    particles = variable(int, value=1000)

    def lay_out(self):
        """A square of zones for all cores."""
        per_node = self.ranks_per_node()
        self.spread(per_node)
        edge = self.edge * max(1, isqrt(self.nodes * self.sized_cores))
        self.executable_opts = [f"--nCores={self.num_cpus_per_task}", "--nThreadCore=1"]
        self.executable_opts += [f"--nZonesX={edge}", f"--nZonesY={edge}"]
        self.executable_opts += [f"--numParticles={self.particles * edge**2}"]


short_form(mcb, particles=125)


# Tracks per second, proved by the known solution of the validation problem.

#: Largest error: 0.05 with 12 particles a zone, 0.018 with 125. It falls as one over the root of
#: their number, down to that of the zones' size.
_LARGEST_ERROR = 0.1


def parse(stdout: str) -> Fom:
    """Tracks per second; also the error and the number of tracks, particles and ranks."""
    tracks = last_number("globalTracks=", stdout)
    rate = tracks / last_number("MC advance time =", stdout)
    error = last_number("MC max error =", stdout)
    if not 0 < error <= _LARGEST_ERROR:
        raise FomError(
            f"the solution is off by {error:g}; allowed: {_LARGEST_ERROR:g}, with 12 particles a"
            " zone or more"
        )
    require_close("the rate", rate, last_number("FOM =", stdout), 1e-4)
    last_match(r"^done!$", stdout, "'done!'")
    particles = last_number("numParticles=", stdout)
    ranks = last_number("nMpiTasks =", stdout)
    extra = {"max_error": error, "tracks": tracks, "particles": particles, "ranks": ranks}
    return Fom(rate, extra)


WORKLOAD = Workload(
    title="MCB 1.0.3, validation problem",
    fom="tracks of photons per second",
    unit="1/s",
    better="higher",
    sanity="largest deviation from the analytic solution at most 0.1, rate consistent with its own",
    parser=parse,
)
