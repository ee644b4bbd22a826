"""Reads the campaign and the machine's files for a command.

The result is a request: a campaign, the machine and the settings of ReFrame, without the cases and
levels that the machine cannot run. A *partition* is one of ReFrame's settings file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.display.lines import duration
from nimc.campaign import cases
from nimc.campaign.campaign_file import load_campaign, load_third_party_checks
from nimc.campaign.plan import Plan, Request
from nimc.readiness.checks import CheckDescription, checks_in, require_known_programs
from nimc.readiness.reframe_config import (
    Partitions,
    ReframeSettings,
    checks_without_environment,
    line_of,
    needs_in_words,
    partition_environments,
    settings_of,
    target_partitions,
)
from records import checkout, yaml_file
from records.errors import InputError, suggestion
from records.machine.site import Machine
from records.machine.site import load as load_machine
from records.programs import find_program
from records.slurm.options import SCHEDULERS
from records.units import plural

#: A time limit in ReFrame's form: days, hours, minutes and seconds, such as `1d2h3m4s`.
_TIME_LIMIT = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
#: Lengths of a day, an hour, a minute and a second, seconds.
_TIME_UNITS_S = (86400, 3600, 60, 1)
#: Names of nodes, joined with commas. Ranges such as `n[1-4]` do not match, although Slurm accepts
#: them.
_NODELIST = re.compile(r"[A-Za-z0-9][\w.-]*(,[A-Za-z0-9][\w.-]*)*", re.ASCII)


def load_request(
    campaign_file: Path,
    machine_name: str,
    root: Path = checkout.ROOT,
    nodelist: str | None = None,
    case_names: Sequence[str] = (),
) -> Request:
    """Read a campaign for a machine, and check all that can be checked before it runs.

    `nodelist` names the only nodes that may be targets. `case_names` are the cases to run; all
    cases run if it is empty. Raises InputError.
    """
    try:
        campaign_yaml = yaml_file.load(campaign_file)
    except InputError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        names = sorted(file.stem for file in (root / "campaigns").glob("*.yaml"))
        allowed = f"; allowed: a file, or one of {', '.join(names)}"
        raise InputError(f"{error}{suggestion(campaign_file.stem, names) or allowed}") from None
    return request_of(campaign_yaml, machine_name, root, nodelist, case_names)


def request_of(
    campaign_yaml: yaml_file.YamlDocument,
    machine_name: str,
    root: Path = checkout.ROOT,
    nodelist: str | None = None,
    case_names: Sequence[str] = (),
) -> Request:
    """Return the request of a campaign whose YAML is already parsed.

    For the other arguments and the errors see `load_request`.
    """
    machine = load_machine(machine_name, root)
    config, checks_folder = root / "configs" / f"{machine_name}.py", root / "reframe_tests"
    if not config.is_file():
        raise InputError(f"machine {machine_name!r}: configs/{machine_name}.py does not exist")
    checks = dict(checks_in(checks_folder))
    require_known_programs(machine, checks)
    checks |= load_third_party_checks(campaign_yaml, checks, config, machine.system)
    campaign, omissions = cases.leave_out(
        load_campaign(campaign_yaml, checks, machine), machine, case_names
    )
    names = sorted({case.check for case in campaign.cases})
    campaign_checks = {name: checks[name] for name in names}
    settings = settings_of(config)
    targets = _checked_targets(config, settings, machine, campaign_checks, root)
    request = Request(
        campaign=campaign,
        machine=machine,
        config=config,
        checks_folder=checks_folder,
        settings=settings,
        checks=campaign_checks,
        omissions=omissions,
        campaign_text=campaign_yaml.text,
        uses_slurm=machine.origins.policy != "same_host" or uses_slurm(targets),
        time_limit_s=time_limit_s(targets),
        nodelist=nodelist,
        shortest_run_s=cases.shortest_run(campaign, machine)[0],
        counter_period_s=cases.counter_period_s(machine),
        reframe=find_program("reframe") or "reframe",
    )
    if nodelist is not None:
        _check_nodelist(request, nodelist)
    return request


def _checked_targets(
    config: Path,
    settings: ReframeSettings,
    machine: Machine,
    checks: Mapping[str, CheckDescription],
    root: Path,
) -> Partitions:
    """Return the partitions in which the targets are.

    Raises InputError if ReFrame's settings file is invalid, if it lacks the machine's partition, or
    if a check can run in no environment of the partitions.
    """
    if settings.fault:
        line = f":{settings.fault_line}" if settings.fault_line else ""
        raise InputError(f"{config}{line}: {settings.fault}")
    targets = target_partitions(settings.partitions, machine.partition)
    if not targets:
        file = root / "site" / f"{machine.name}.yaml"
        names = ", ".join(str(partition.get("name")) for partition in settings.partitions)
        raise InputError(
            f"site/{machine.name}.yaml:{yaml_file.load(file).line(('partition',))}: partition:"
            f" {machine.partition!r} found; allowed: a partition of {config}: {names}"
        )
    target_names = [str(partition.get("name")) for partition in targets]
    environments = partition_environments(settings, targets, machine.name)
    for name in checks_without_environment(checks, environments):
        raise InputError(
            f"{config}:{line_of(config, target_names[0])}: environs: none of partition"
            f" {', '.join(target_names)} can run '{name}'; allowed: an environment with"
            f" {needs_in_words(checks[name])}"
        )
    return targets


def uses_slurm(partitions: Partitions) -> bool:
    """Return whether Slurm runs the jobs of at least one of the partitions."""
    return any(partition.get("scheduler") in SCHEDULERS for partition in partitions)


def time_limit_s(partitions: Partitions) -> float | None:
    """Return the shortest time limit of the partitions, seconds; None if they have no limit.

    In ReFrame's settings, a limit is a text such as `1d2h3m4s` or a number of seconds. 0 means that
    there is no limit.
    """
    limits_s = []
    for limit in (partition.get("time_limit") for partition in partitions):
        if isinstance(limit, int | float):
            limits_s.append(float(limit))
        elif isinstance(limit, str) and (parts := _TIME_LIMIT.fullmatch(limit)):
            counts = zip(parts.groups(default="0"), _TIME_UNITS_S, strict=True)
            limits_s.append(float(sum(int(count) * unit_s for count, unit_s in counts)))
    return min(filter(None, limits_s), default=None)


def time_limit_warnings(planned: Plan, limit_s: float | None) -> list[str]:
    """Return a line for each case with a block that is expected to exceed its job's time limit.

    A block is the pairs of one job. `limit_s` is the limit, seconds; None if there is no limit.
    """
    if limit_s is None:
        return []
    longest_blocks = [
        max(case.blocks, key=lambda block: block.duration_s) for case in planned.cases
    ]
    return [
        f"{case.case}: {block.pairs} pairs in one job take {duration(block.duration_s)}, but"
        f" time_limit in configs/{planned.machine}.py is {duration(limit_s)}: reduce pairs.block,"
        " or raise the limit"
        for case, block in zip(planned.cases, longest_blocks, strict=True)
        if block.duration_s > limit_s
    ]


def _check_nodelist(request: Request, nodelist: str) -> None:
    machine, node_count = request.machine, len(set(nodelist.split(",")))
    if not request.uses_slurm:
        raise InputError(f"--nodelist: machine {machine.name!r} has no Slurm; leave it out")
    if machine.origins.policy == "same_job":
        raise InputError(
            f"--nodelist: site/{machine.name}.yaml: origins.policy: 'same_job' found;"
            " allowed: hetjob, reservation, since Slurm chooses the targets of 'same_job'"
        )
    if not _NODELIST.fullmatch(nodelist):
        raise InputError(f"--nodelist: {nodelist!r} found; allowed: names joined with commas")
    for case in request.campaign.cases:
        if case.nodes != node_count:
            raise InputError(
                f"--nodelist: {plural(node_count, 'node')} found; allowed: as many as case"
                f" '{case.name}' has, {case.nodes}"
            )
