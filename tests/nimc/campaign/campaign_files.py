"""Loads a campaign from a made file, and returns the faults that are found in it."""

from pathlib import Path

import pytest

from nimc.campaign.campaign_file import load_campaign
from nimc.readiness.checks import CheckDescription
from records import yaml_file
from records.campaign import Campaign
from records.errors import InputError
from records.machine.site import Machine
from records.machine.site import load as load_machine

#: Variables of every check, also those on which only some tests rely.
COMMON = {"arms", "rate", "message", "injector", "direction", "reserved_cores", "tool"}

CHECKS = {
    "stream": CheckDescription(
        variables=frozenset({"iterations", "llc_multiple", *COMMON}),
        comparable_across_cores=True,
        levels={"direction": "write"},
    ),
    "lammps": CheckDescription(
        variables=frozenset({"steps", *COMMON}), within_block=frozenset({"steps"})
    ),
}


def load(tmp_path: Path, text: str | bytes, machine: Machine | None = None) -> Campaign:
    path = tmp_path / "c.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_campaign(yaml_file.load(path), CHECKS, machine or load_machine("localhost"))


def faults(tmp_path: Path, text: str) -> list[str]:
    """Return the lines with which the campaign is refused, without the folder."""
    with pytest.raises(InputError) as error:
        load(tmp_path, text)
    return str(error.value).replace(f"{tmp_path}/", "").splitlines()
