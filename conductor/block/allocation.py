"""The target and origin nodes of a block, chosen by the plan's policy from the nodes of the job."""

from __future__ import annotations

import os
from dataclasses import dataclass

from conductor.agent.agent import node_name
from records.block_plan import BlockPlan
from records.errors import MachineError
from records.slurm.client import hostnames


@dataclass(frozen=True)
class Allocation:
    """The nodes of the block, by name."""

    targets: list[str]
    origins: list[str]

    @property
    def nodes(self) -> list[str]:
        """Return every node once. Each of them runs an agent."""
        return list(dict.fromkeys(self.targets + self.origins))


def block_allocation(plan: BlockPlan) -> Allocation:
    """Return the targets and origins of this job.

    Raises MachineError if there are too few nodes, or a node would be both.
    """
    if plan.origin_policy == "same_host":
        nodes = [node_name()]
        return Allocation(nodes, nodes)
    if plan.origin_policy == "same_job":
        nodes = hostnames(os.environ.get("SLURM_JOB_NODELIST", ""))
        targets, origins = nodes[: -plan.n_origins], nodes[-plan.n_origins :]
    else:
        targets = hostnames(os.environ.get("SLURM_JOB_NODELIST_HET_GROUP_0", ""))
        origins = hostnames(os.environ.get("SLURM_JOB_NODELIST_HET_GROUP_1", ""))
    if not targets or len(origins) < plan.n_origins:
        raise MachineError(
            f"the job has {len(targets)} target and {len(origins)} origin nodes;"
            f" at least 1 and {plan.n_origins} are needed (origins: {plan.origin_policy})"
        )
    if shared := sorted(set(targets) & set(origins)):
        raise MachineError(f"{', '.join(shared)} would be both target and origin")
    return Allocation(targets, origins)
