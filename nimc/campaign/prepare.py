"""Reads the campaign and machine files of a command; leaves out what the machine cannot run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from nimc.base import checkout, marked_yaml
from nimc.base.errors import InputError
from nimc.base.programs import which
from nimc.base.tables import duration
from nimc.campaign import cases, load
from nimc.campaign.checks import CheckVariables, checks_in, require_known_programs
from nimc.campaign.load import load_campaign
from nimc.campaign.others import others_in, renamed
from nimc.campaign.plan import Plan, Request
from nimc.campaign.settings import (
    Partitions,
    ReframeSettings,
    line_of,
    needed,
    places_of,
    settings_of,
    target_partitions,
    without_place,
)
from nimc.machine.site import Machine
from nimc.machine.site import load as load_machine

# Scheduler and time limit of a campaign's jobs, from ReFrame's partitions. Pure functions.


_LIMIT = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_SECONDS = (86400, 3600, 60, 1)


def use_slurm(partitions: Partitions) -> bool:
    """Whether Slurm runs the jobs of any of them."""
    return any(part.get("scheduler") in ("slurm", "squeue") for part in partitions)


def time_limit_s(partitions: Partitions) -> float | None:
    """The shortest of their time limits, seconds; None if ReFrame sets none."""
    limits = [_seconds(part.get("time_limit")) for part in partitions]
    return min((limit for limit in limits if limit), default=None)


def _seconds(limit: object) -> float:
    """A limit in ReFrame's form, `1d2h3m4s` or a number of seconds; 0 is none."""
    if isinstance(limit, int | float):
        return float(limit)
    found = _LIMIT.fullmatch(limit) if isinstance(limit, str) else None
    parts = found.groups(default="0") if found else ()
    return float(sum(int(part) * unit for part, unit in zip(parts, _SECONDS, strict=False)))


def too_long(planned: Plan, limit_s: float | None) -> list[str]:
    """A line for each case whose blocks are expected to exceed the time limit of their job."""
    lines = []
    for case in planned.cases:
        longest = max(case.blocks, key=lambda block: block.duration_s)
        if limit_s is not None and longest.duration_s > limit_s:
            lines.append(
                f"{case.case}: {longest.pairs} pairs in one job take {duration(longest.duration_s)}"
                f", but time_limit in configs/{planned.machine}.py is {duration(limit_s)}:"
                " reduce pairs.block, or raise the limit"
            )
    return lines


#: Names of nodes as Slurm takes them; no ranges, which name several.
_NODELIST = re.compile(r"[A-Za-z0-9][\w.-]*(,[A-Za-z0-9][\w.-]*)*", re.ASCII)


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
    described = load_machine(machine_name, root)
    config = root / "configs" / f"{machine_name}.py"
    if not config.is_file():
        raise InputError(f"machine {machine_name!r}: configs/{machine_name}.py does not exist")
    folder = root / "reframe_tests"
    shared = described.origins.policy == "same_host"
    checks = checks_in(folder)
    require_known_programs(described, checks)
    named = others_in(campaign_file, checks, config, described.system)
    known = {**checks, **{name: other.check for name, other in named.items()}}
    loaded = renamed(load_campaign(campaign_file, known, described), named)
    checks = {**checks, **{other.name: other.check for other in named.values()}}
    campaign, absent = cases.leave_out(cases.expand(loaded, checks, described), described, only)
    used = {name: checks[name] for name in sorted({each.check for each in campaign.cases})}
    settings = settings_of(config)
    targets = _targets(config, settings, described, used, root)
    request = Request(
        campaign,
        described,
        config,
        folder,
        settings,
        used,
        absent,
        campaign_file.read_text(encoding="utf-8-sig"),
        slurm=not shared or use_slurm(targets),
        time_limit_s=time_limit_s(targets),
        nodelist=nodelist,
        least_run_s=load.least_s(campaign, described),
        others={other.name: other for other in named.values() if other.name in used},
        reframe=which("reframe") or "reframe",
    )
    _check_nodelist(request)
    return request


def _check_nodelist(request: Request) -> None:
    nodelist, machine = request.nodelist, request.machine
    if nodelist is None:
        return
    if not request.slurm:
        raise InputError(f"--nodelist: machine {machine.name!r} has no Slurm; leave it out")
    if machine.origins.policy == "same_job":
        raise InputError(
            f"--nodelist: site/{machine.name}.yaml: origins.policy: 'same_job' found, where Slurm"
            " chooses which nodes are targets; allowed: hetjob, reservation"
        )
    if not _NODELIST.fullmatch(nodelist):
        raise InputError(f"--nodelist: {nodelist!r} found; allowed: names joined with commas")
    given = len(set(nodelist.split(",")))
    for case in request.campaign.cases:
        if case.nodes != given:
            raise InputError(
                f"--nodelist: {given} nodes found; allowed: as many as case '{case.name}' has,"
                f" {case.nodes}"
            )


def _targets(
    config: Path,
    settings: ReframeSettings,
    described: Machine,
    checks: Mapping[str, CheckVariables],
    root: Path,
) -> Partitions:
    """Partitions of the targets. Raises InputError if they cannot run each of the checks."""
    if settings.fault:
        line = f":{settings.fault_line}" if settings.fault_line else ""
        raise InputError(f"{config}{line}: {settings.fault}")
    _check_system(config, settings, described.name)
    targets = target_partitions(settings.partitions, described.partition)
    if not targets:
        file = root / "site" / f"{described.name}.yaml"
        names = ", ".join(str(part.get("name")) for part in settings.partitions)
        raise InputError(
            f"site/{described.name}.yaml:{marked_yaml.load(file).line(('partition',))}: partition:"
            f" {described.partition!r} found; allowed: a partition of {config}: {names}"
        )
    places = places_of(settings, targets, described.name)
    for name in without_place(checks, places):
        first = str(targets[0].get("name"))
        raise InputError(
            f"{config}:{line_of(config, first)}: environs: none of partition"
            f" {', '.join(str(part.get('name')) for part in targets)} can run '{name}'; allowed:"
            f" an environment with {needed(checks[name])}"
        )
    return targets


def _check_system(config: Path, settings: ReframeSettings, name: str) -> None:
    """Raise InputError if the configuration is of another system: ReFrame would not find ours."""
    if settings.system != name:
        raise InputError(
            f"{config}:{line_of(config, settings.system)}: systems: name: {settings.system!r}"
            f" found; allowed: the name of the file, {name!r}"
        )
