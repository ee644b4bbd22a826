"""Templates that a site copies: their commands are valid, and their metrics are exported."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from nimc.cli import nights
from nimc.nights.summary import prometheus_text
from tests.commands import ROOT
from tests.nimc.nights.made import FIGURES, summary

FOLDER = ROOT / "site" / "nightly"


def scrontab() -> str:
    *_, line = (FOLDER / "scrontab").read_text().splitlines()
    minute, hour, day, month, week, command = line.split(maxsplit=5)
    assert (minute, hour, day, month, week) == ("0", "22", "*", "*", "1-5")
    return command


def gitlab() -> str:
    (job,) = yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text()).values()
    (command,) = job["script"]
    assert job["allow_failure"]["exit_codes"] == [nights.EXIT_STATUSES["slower"]]
    assert command.partition(" > ")[2] in job["artifacts"]["paths"]
    return str(command.partition(" > ")[0])


def github() -> str:
    (job,) = yaml.safe_load((FOLDER / "github-actions.yml").read_text())["jobs"].values()
    command, upload = job["steps"]
    words, _, otherwise = command["run"].partition(" || ")
    assert f'[ "$status" = {nights.EXIT_STATUSES["slower"]} ]' in otherwise
    assert (upload["if"], words.partition(" > ")[2]) == ("always()", upload["with"]["path"])
    return str(words.partition(" > ")[0])


@pytest.mark.parametrize("command", [scrontab, gitlab, github])
def test_nimc_accepts_the_command_of_each_template(command):
    program, group, name, *words = shlex.split(command())
    assert (Path(program).name, group, name) == ("nimc", "nights", "run")
    options = nights.run.make_context("run", words).params
    assert options["campaign"] == ROOT / "campaigns" / "single_node.yaml"
    assert (options["machine"], options["until"]) == ("M", "05:00")
    assert options["results"] == Path("/PATH/results")


def test_the_dashboard_shows_only_metrics_and_labels_that_are_exported():
    exported = prometheus_text(summary(finished_s=2.0, figures=FIGURES))
    metrics = set(re.findall(r"^(nimc_\w+){", exported, re.MULTILINE))
    labels = set(re.findall(r'[{,](\w+)="', exported))
    dashboard = json.loads((FOLDER / "grafana.json").read_text())
    panels, variables = dashboard["panels"], dashboard["templating"]["list"]
    texts = [target["expr"] for panel in panels for target in panel["targets"]]
    legends = [target["legendFormat"] for panel in panels for target in panel["targets"]]
    queries = [variable["query"] for variable in variables]
    assert set(re.findall(r"nimc_\w+", " ".join([*texts, *queries]))) == metrics
    matched = re.findall(r"(\w+)=[~\"]", " ".join(texts))
    shown = re.findall(r"{{(\w+)}}", " ".join(legends))
    assert {*matched, *shown, *(variable["name"] for variable in variables)} <= labels
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_options_in_scrontab_have_the_form_of_sbatchs_options():
    lines = (FOLDER / "scrontab").read_text().splitlines()
    options = [line.split()[1] for line in lines if line.startswith("#SCRON")]
    assert len(options) == 5
    assert all(option.startswith("--") and "=" in option for option in options)
