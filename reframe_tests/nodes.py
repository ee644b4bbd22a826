"""Checks whose MPI ranks may be spread over several nodes."""

import reframe as rfm
from reframe.core.builtins import variable

from analysis.errors import InputError


class NodesMixin(rfm.RegressionTestPlugin):
    """Ranks on `nodes` nodes, one for each core, or one for each socket with a thread per core."""

    #: Target nodes.
    nodes = variable(int, value=1)

    #: What gets a rank: `core` (MPI only), or `socket` (MPI with OpenMP).
    rank_per = variable(str, value="core")

    #: Whether the program is built with OpenMP.
    threaded = True

    def ranks_per_node(self) -> int:
        """Ranks of each node. Raises InputError."""
        shared = self.machine.origins.policy == "same_host"
        if self.nodes < 1 or (shared and self.nodes > 1):
            why = f"{self.machine.name} is one host" if shared else "allowed: numbers from 1"
            raise InputError(f"{self.name}.nodes: {self.nodes} found; {why}")
        allowed = ("core", "socket") if self.threaded else ("core",)
        if self.rank_per not in allowed:
            found = f"{self.name}.rank_per: {self.rank_per!r} found"
            raise InputError(f"{found}; allowed: {', '.join(allowed)}")
        sockets = min(self.node_facts.sockets, self.app_cores)
        return self.app_cores if self.rank_per == "core" else sockets

    def spread(self, per_node: int) -> None:
        """`per_node` ranks on each node, with threads on its remaining cores."""
        self.ranks(per_node, max(1, self.app_cores // per_node))
        self.num_tasks = self.nodes * per_node
