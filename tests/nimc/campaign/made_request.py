"""A campaign asked for on a machine, without its files."""

from pathlib import Path

from nimc.campaign.plan import Request
from nimc.campaign.schema import Campaign
from nimc.campaign.settings import ReframeSettings
from nimc.machine.site import Machine


def made_request(campaign: Campaign, machine: Machine, *, slurm: bool = False) -> Request:
    config, folder = Path(f"/p/configs/{machine.name}.py"), Path("/p/reframe_tests")
    return Request(campaign, machine, config, folder, ReframeSettings({}), {}, slurm=slurm)
