"""Weak scaling of LAMMPS while short writes hit a few nodes at a time.

This is the experiment of section VI of Groves, Grant and Arnold (2016).
"""

from dataclasses import replace

import reframe as rfm
from reframe.core.builtins import variable

from reframe_tests import lammps, scaling
from reframe_tests.mixin import add_short_form

_DEFAULT = scaling.ScaleRequest(nodes=1)


@rfm.simple_test
class lammps_scaling(lammps.lammps):
    """3D Lennard-Jones melt on `nodes` target nodes.

    It has 32,000 atoms per rank if no cores are reserved. Reserved cores leave its size unchanged.
    """

    workload = "lammps_scaling"
    tags = {"scaling"}
    within_block = (*lammps.lammps.within_block, "ranks_per_node", "spare_cores")
    arms = ["off", "daly", "constant"]

    #: Target nodes.
    nodes = variable(int, value=_DEFAULT.nodes)

    #: Ranks per node. The default, 0, takes all cores but `spare_cores`.
    ranks_per_node = variable(int, value=_DEFAULT.ranks_per_node)

    #: Cores of a node that are left for communication.
    spare_cores = variable(int, value=_DEFAULT.spare_cores)

    #: Number of units per target node. The arm `daly` has as many writers as Daly's estimate gives
    #: for all units. The arm `constant` has as many writers as 0.2 % of the units.
    #: Each unit has `node_mtti` as its mean time to interrupt. With 1, the units are nodes. With
    #: the default, 0, they are the ranks that a node without reserved cores has, as in Groves,
    #: Grant and Arnold (2016), whose nodes had 16 ranks each.
    counted_per_node = variable(int, value=_DEFAULT.counted_per_node)

    #: A short write: a length such as `1s`, or messages such as `46k messages of 64KiB`. The length
    #: of a write of messages follows from the measured rate. Until this rate is measured, the rate
    #: of the text is used (`46k messages of 64KiB at 3GB/s`), else `rate`, else the link's rate.
    write = variable(str, value=_DEFAULT.write)

    #: If `write` is a length: bytes of a write, as a share of the bytes that a writer without an
    #: application writes in this length. Below 1, a slowed writer can still finish in time.
    fill = variable(float, value=_DEFAULT.fill)

    #: Mean time to interrupt of a unit (`counted_per_node`), such as `5y`. The default, empty,
    #: takes the machine's.
    node_mtti = variable(str, value=_DEFAULT.node_mtti)

    #: Number of concurrent writers of each arm, such as `daly:2,constant:1`. The default, empty,
    #: takes the computed numbers.
    writers = variable(str, value=_DEFAULT.writers)

    #: Share of an origin's link that its writers may take.
    link_share = variable(float, value=_DEFAULT.link_share)

    #: Largest deviation of a write's start or end from the plan, seconds. The default, 0, takes the
    #: machine's (`proof` in site/).
    tolerance_s = variable(float, value=_DEFAULT.tolerance_s)

    #: Largest share of the planned writing that may be missing, or that may be written beyond the
    #: plan. The default, 0, takes the machine's (`proof` in site/).
    allowed_share = variable(float, value=_DEFAULT.allowed_share)

    def lay_out(self):
        """Set the ranks per node; reserved cores do not change the box."""
        self.rank_per_core()
        self.num_tasks_per_node = scaling.ranks_per_node(self._request(), self.app_cores)
        self.num_tasks = self.nodes * self.num_tasks_per_node
        self.set_melt_options(
            self.nodes * scaling.ranks_per_node(self._request(), self.sized_cores)
        )

    def _request(self):
        return scaling.ScaleRequest(**{name: getattr(self, name) for name in scaling.FIELDS})


# The short form has one target node, and one origin node unless they are the same host. For one
# node, Daly's estimate is 0 writers, so `writers` sets 1. A write has half of the bytes that its
# length allows without an application, since the application may share its cores with the writer.
add_short_form(
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
