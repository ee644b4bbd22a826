"""Reads the campaign and machine files of a command and checks them together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis import checkout
from analysis.errors import InputError
from campaigns.host.programs import which
from campaigns.host.settings import (
    Partitions,
    features_in_words,
    settings_of,
    target_partitions,
    unsupported,
)
from campaigns.planning import partitions, sweep
from campaigns.planning.omitted import Omitted, leave_out
from campaigns.planning.plan import Site
from campaigns.planning.uncollected import uncollected
from campaigns.request import cases
from campaigns.request.checks import CheckVariables, checks_in
from campaigns.request.load import load_campaign
from campaigns.request.schema import Campaign
from injection.machine import machine


@dataclass(frozen=True)
class Request:
    """A campaign and the machine to run it on."""

    campaign: Campaign
    #: What this machine cannot run.
    absent: list[Omitted]
    #: The campaign file as it was read.
    text: str
    machine: machine.Machine
    site: Site


#: Names of nodes as Slurm takes them; no ranges, which name several.
_NODELIST = re.compile(r"[A-Za-z0-9][\w.-]*(,[A-Za-z0-9][\w.-]*)*", re.ASCII)


@uncollected()
def prepare(
    campaign_file: Path,
    machine_name: str,
    root: Path = checkout.ROOT,
    nodelist: str | None = None,
    only: Sequence[str] = (),
) -> Request:
    """Raises InputError for an unknown or invalid campaign or machine.

    `nodelist` pins the targets to these nodes; `only` these cases are run, if any is named.
    """
    described = machine.load(machine_name, root)
    config = root / "configs" / f"{machine_name}.py"
    if not config.is_file():
        raise InputError(f"machine {machine_name!r}: configs/{machine_name}.py does not exist")
    folder = root / "reframe_tests"
    shared = described.origins.policy == "same_host"
    checks = checks_in(folder)
    loaded = cases.expand(load_campaign(campaign_file, checks, described), checks, same_host=shared)
    campaign, absent = leave_out(sweep.expand(loaded, described), described)
    campaign = _chosen(campaign, only)
    targets = _targets(config, described, {each.check for each in campaign.cases}, checks)
    site = Site(
        machine=machine_name,
        config=config,
        checks=folder,
        origin_nodes=0 if shared else described.origins.nodes,
        partition=described.partition,
        slurm=not shared or partitions.use_slurm(targets),
        time_limit_s=partitions.time_limit_s(targets),
        nodelist=nodelist,
        reframe=which("reframe") or "reframe",
    )
    _check_nodelist(site, campaign, described)
    return Request(campaign, absent, campaign_file.read_text(encoding="utf-8-sig"), described, site)


def _chosen(campaign: Campaign, only: Sequence[str]) -> Campaign:
    """The campaign with these of its cases; without a name, with all."""
    known = [case.name for case in campaign.cases]
    for name in only:
        if name not in known:
            raise InputError(f"--case: {name!r} found; allowed: {', '.join(known)}")
    cases = [case for case in campaign.cases if case.name in only]
    return campaign.model_copy(update={"workloads": cases}) if cases else campaign


def _check_nodelist(site: Site, campaign: Campaign, described: machine.Machine) -> None:
    if site.nodelist is None:
        return
    if not site.slurm:
        raise InputError(f"--nodelist: machine {site.machine!r} has no Slurm; leave it out")
    if described.origins.policy == "same_job":
        raise InputError(
            f"--nodelist: site/{site.machine}.yaml: origins.policy: 'same_job' found, where Slurm"
            " chooses which nodes are targets; allowed: hetjob, reservation"
        )
    if not _NODELIST.fullmatch(site.nodelist):
        raise InputError(f"--nodelist: {site.nodelist!r} found; allowed: names joined with commas")
    given = len(set(site.nodelist.split(",")))
    for case in campaign.cases:
        if case.nodes != given:
            raise InputError(
                f"--nodelist: {given} nodes found; allowed: as many as case '{case.name}' has,"
                f" {case.nodes}"
            )


def _targets(
    config: Path,
    described: machine.Machine,
    asked: Iterable[str],
    checks: Mapping[str, CheckVariables],
) -> Partitions:
    """Partitions of the targets. Raises InputError if they cannot run each of the checks."""
    settings = settings_of(config)
    if settings.fault:
        raise InputError(f"{config}: cannot be read: {settings.fault}")
    targets = target_partitions(settings.partitions, described.partition)
    if not targets:
        names = ", ".join(str(part.get("name")) for part in settings.partitions)
        raise InputError(
            f"site/{described.name}.yaml: partition: {described.partition!r} found; allowed: a"
            f" partition of {config}: {names}"
        )
    needs = {name: checks[name].environs for name in sorted(asked)}
    for name in unsupported(needs, targets, settings.environs):
        raise InputError(
            f"{config}: environs: none of partition"
            f" {', '.join(str(part.get('name')) for part in targets)} has a feature that '{name}'"
            f" needs; allowed: an environment with features: {features_in_words(needs[name])}"
        )
    return targets
