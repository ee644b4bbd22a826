"""The command `nimc init`, which writes a new machine's site file and configuration of ReFrame."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import click

from analysis.display.lines import visible, wrapped
from nimc.cli import options
from nimc.cluster.in_job import job_findings
from nimc.cluster.learn import facts_of_cluster
from nimc.cluster.new_machine import config_text, keys_to_fill_in, site_text, with_facts_of_nodes
from nimc.readiness.diagnosis import examine, needed_and_missing
from nimc.readiness.node_findings import save_missing
from records.checkout import ROOT
from records.commands import command
from records.errors import InputError, MachineError
from records.interrupts import exit_when_stopped
from records.machine.site import load as load_machine
from records.slurm.options import PARTITION_VARIABLE, REQUIREMENTS

#: Allowed name of a machine. A Python module and a system of ReFrame have the same name.
_MACHINE_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)

# What is unknown if nodes did not answer. `{}` says which nodes did not.
_UNANSWERED = (
    "{} answered. Unknown are their interface, their RDMA devices and rates, the injectors that"
    " work on them, their NUMA nodes and caches, and how many cores and threads jobs get."
)
# Advice if Slurm did not accept a job. Most sites require an account.
_NO_JOB_ADVICE = (
    "if jobs need an account, a QOS or the like, export what applies of"
    f" {', '.join((*REQUIREMENTS, PARTITION_VARIABLE))}: the new files have these options"
)
# Advice if Slurm shows no node of the partition, as at sites whose nodes are private data.
_NO_FACTS_ADVICE = (
    "Slurm shows you no node of {partition} (as with PrivateData=nodes), so site/{machine}.yaml has"
    " no facts of a node, and those of this host are used: fill in facts as in"
    " site/example_slurm.yaml, with what lscpu and free show on a node"
)


@click.command()
@click.argument("machine")
@click.option(
    "--no-job",
    is_flag=True,
    help="Do not submit the job that inspects nodes, which takes about a minute.",
)
@options.wait_option
def init_command(machine: str, no_job: bool, wait_s: float) -> int:
    """Write site/MACHINE.yaml and configs/MACHINE.py for the cluster of this host.

    The values come from Slurm, the modules system and a job that inspects two nodes. A comment
    names the source of each value. If jobs need an account, a QOS or the like, first set
    SBATCH_ACCOUNT, SBATCH_QOS, ... in the environment. Existing files are not changed. The last
    lines say whether the machine is ready, as `doctor` does. If nodes did not answer, both files
    are written without the values of nodes, and the exit code is 3.
    """
    if no_job:
        options.allow_only("--no-job")
    if not _MACHINE_NAME.fullmatch(machine):
        raise InputError(
            f"MACHINE: {machine!r} found; allowed: up to 40 lower-case letters, digits and _, a"
            " letter first"
        )
    site_file = ROOT / "site" / f"{machine}.yaml"
    config_file = ROOT / "configs" / f"{machine}.py"
    for path in (site_file, config_file):
        if os.path.lexists(path):  # True also for a link that leads nowhere
            raise InputError(f"{path}: exists; allowed: a new name, or remove both files first")
        if not os.access(path.parent, os.W_OK):
            raise MachineError(f"{path.parent}: no permission to write; clone the project yourself")
    facts = facts_of_cluster()
    if not no_job:
        with exit_when_stopped():
            facts = with_facts_of_nodes(machine, facts, ROOT, wait_s, _print_line)
    site_file_text = site_text(facts)
    _write({config_file: config_text(machine, facts), site_file: site_file_text})
    empty_keys = ", ".join(keys_to_fill_in(site_file_text)) or "none"
    partitions = ", ".join(partition.name for partition in facts.partitions)
    _print_line(f"wrote site/{machine}.yaml; optional keys that are empty: {empty_keys}")
    _print_line(f"wrote configs/{machine}.py; partitions: {partitions}")
    if not facts.shapes:
        advice = _NO_FACTS_ADVICE.format(partition=facts.target.name, machine=machine)
        _print_line(wrapped(advice))
    site = load_machine(machine, ROOT)
    node_findings = [] if no_job else [*job_findings(facts.job_inspection, site)]
    if facts.nodes:
        save_missing(site, needed_and_missing(node_findings), ROOT)
    _print_line(wrapped(examine(machine, node_findings, ROOT).sentence))
    if no_job or facts.job_inspection.why is None:
        _print_line(f"read both, then: {command('doctor', '--machine', machine, '--in-job')}")
        return 0
    which = "Not all nodes" if facts.nodes else "No node"
    remedy = node_findings[0].remedy if facts.job_inspection.job else _NO_JOB_ADVICE
    _print_line(wrapped(f"{_UNANSWERED.format(which)} What to do: {remedy}"))
    _print_line(f"then remove both files, and repeat: {command('init', machine)}")
    return 3


def _write(files: Mapping[Path, str]) -> None:
    """Create these files. Raises MachineError, and removes the others, if one cannot be created."""
    created_paths = []
    try:
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as file:
                created_paths.append(path)
                file.write(text)
    except OSError as error:
        for created_path in created_paths:
            created_path.unlink()
        raise MachineError(f"{path}: {error.strerror}") from error


def _print_line(line: str) -> None:
    click.echo(visible(line))
