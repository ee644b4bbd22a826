"""The files that a site copies: `nimc` takes their command."""

import shlex
from pathlib import Path

import pytest
import yaml

from nimc.cli import nights
from tests.commands import ROOT

FOLDER = ROOT / "site" / "nightly"


def scrontab() -> str:
    *_, line = (FOLDER / "scrontab").read_text().splitlines()
    minute, hour, day, month, week, command = line.split(maxsplit=5)
    assert (minute, hour, day, month, week) == ("0", "22", "*", "*", "1-5")
    return command


def gitlab() -> str:
    (job,) = yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text()).values()
    (command,) = job["script"]
    assert job["allow_failure"]["exit_codes"] == [nights.EXIT["slower"]]
    assert command.partition(" > ")[2] in job["artifacts"]["paths"]
    return str(command.partition(" > ")[0])


@pytest.mark.parametrize("command", [scrontab, gitlab])
def test_the_command_is_one_that_nimc_takes(command) -> None:
    program, group, name, *words = shlex.split(command())
    assert (Path(program).name, group, name) == ("nimc", "nights", "run")
    given = nights.run.make_context("run", words).params
    assert given["campaign"] == ROOT / "campaigns" / "single_node.yaml"
    assert (given["machine"], given["until"]) == ("M", "05:00")
    assert given["results"] == Path("/PATH/results")


def test_options_of_scrontab_are_sbatchs() -> None:
    lines = (FOLDER / "scrontab").read_text().splitlines()
    options = [line.split()[1] for line in lines if line.startswith("#SCRON")]
    assert len(options) == 5
    assert all(option.startswith("--") and "=" in option for option in options)
