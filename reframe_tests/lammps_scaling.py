"""LAMMPS, weak scaling, while short writes hit a few nodes at a time.

As in section VI of Groves, Grant and Arnold (2016).
"""

from dataclasses import replace

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests import lammps, scaling
from reframe_tests.mixin import short_form

_DEFAULT = scaling.ScaleRequest(nodes=1)


@rfm.simple_test
class lammps_scaling(lammps.lammps):
    """3D Lennard-Jones melt, 32,000 atoms per rank, on `nodes` target nodes."""

    workload = "lammps_scaling"
    tags = {"scaling"}
    within_block = (*lammps.lammps.within_block, "ranks_per_node", "spare_cores")
    arms = ["off", "daly", "constant"]

    #: Target nodes.
    nodes = variable(int, value=_DEFAULT.nodes)

    #: Ranks per node; 0 takes all cores but `spare_cores`, which are left for communication.
    ranks_per_node = variable(int, value=_DEFAULT.ranks_per_node)
    spare_cores = variable(int, value=_DEFAULT.spare_cores)

    #: Units that Daly's estimate and the constant share count on each target node. Each has
    #: `node_mtti` as its mean time to interrupt. 1 counts nodes. The default, 0, counts the node's
    #: ranks, as Groves, Grant and Arnold (2016) did, whose nodes had 16.
    counted_per_node = variable(int, value=_DEFAULT.counted_per_node)

    #: A write: a length such as `1s`, or messages, `46k messages of 64KiB`. The length of messages
    #: follows from the measured rate. Until it is measured, the rate is the machine's link rate, or
    #: the one given, as in `46k messages of 64KiB at 3GB/s`.
    write = variable(str, value=_DEFAULT.write)

    #: Share of the length of a write that its messages take without an application; below 1 is only
    #: for applications that use the writers' processors.
    fill = variable(float, value=_DEFAULT.fill)

    #: Mean time to interrupt of a node, such as `5y`. The default, empty, takes the machine's.
    node_mtti = variable(str, value=_DEFAULT.node_mtti)

    #: Arm -> writers at a time, instead of the computed ones: `daly:2,constant:1`.
    writers = variable(str, value=_DEFAULT.writers)

    #: Share of an origin's link that its writers may take.
    link_share = variable(float, value=_DEFAULT.link_share)

    #: How late or early a write may start or end, seconds; share of the planned writing that may
    #: be missing or beyond the plan. The default, 0, takes the machine's (`proof` in site/).
    tolerance_s = variable(float, value=_DEFAULT.tolerance_s)
    allowed_share = variable(float, value=_DEFAULT.allowed_share)

    def lay_out(self):
        """The ranks of each node; reserved cores do not change the box."""
        self.rank_per_core()
        self.num_tasks_per_node = scaling.ranks_per_node(self._request(), self.app_cores)
        self.num_tasks = self.nodes * self.num_tasks_per_node
        self.melt(self.nodes * scaling.ranks_per_node(self._request(), self.sized_cores))

    def _request(self):
        return scaling.ScaleRequest(**{name: getattr(self, name) for name in scaling.FIELDS})


# One target node, and one origin if they are apart. Daly's estimate has no writer for so few nodes.
# A write has half as many messages as fit into it without an application, which may share its
# processors with the writer.
short_form(
    lammps_scaling,
    arms=["off", "daly", "aa"],
    steps=200,
    message="64KiB",
    write="0.4s",
    fill=0.5,
    writers="daly:1,constant:1",
    tolerance_s=0.4,
    allowed_share=0.25,
)


WORKLOAD = replace(lammps.WORKLOAD, title="LAMMPS, 3D Lennard-Jones melt, weak scaling")
