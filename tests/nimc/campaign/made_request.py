"""Makes the request for a campaign on a machine, without files of campaign and machine."""

from pathlib import Path
from typing import Any

from nimc.campaign.plan import Request
from nimc.readiness.reframe_config import ReframeSettings
from records.campaign import Campaign
from records.machine.site import Machine

#: Two sockets of eight cores and one NUMA node each.
FACTS = {"cores": 16, "sockets": 2, "numa_nodes": 2, "llc": "40MiB", "memory": "64GiB"}


def made_request(campaign: Campaign, machine: Machine, *, uses_slurm: bool = False) -> Request:
    config, checks_folder = Path(f"/p/configs/{machine.name}.py"), Path("/p/reframe_tests")
    return Request(
        campaign=campaign,
        machine=machine,
        config=config,
        checks_folder=checks_folder,
        settings=ReframeSettings(environment={}),
        checks={},
        uses_slurm=uses_slurm,
    )


def made_machine(policy: str = "hetjob", *, origins: int = 1, **more: Any) -> Machine:
    """Return a machine with `origins` origin nodes. A host that is also the target has none."""
    origin_fields = {"policy": policy} | ({} if policy == "same_host" else {"nodes": origins})
    fixed = {"name": "m", "description": "", "origins": origin_fields, "injector": "perftest"}
    return Machine.model_validate(fixed | more)
