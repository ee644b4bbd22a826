"""The commands `nimc doctor`, `nimc origins` and `nimc remedy`.

They check hosts, reserve the nodes on which writers run (origins), and print the scripts of
remedies that need root.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from analysis.display.lines import WIDTH, Line, visible, wrapped, wrapped_lines
from nimc.cli import options
from nimc.cli.answer import Answer, Listing, log, prints_answer
from nimc.cluster.root_remedies import (
    PARTS,
    ROOT_REMEDIES,
    Part,
    RootRemedy,
    parameter_values,
    path_of,
    render,
)
from nimc.readiness import reservation
from nimc.readiness.diagnosis import Diagnosis, examine, needed_and_missing
from nimc.readiness.finding import HostFinding
from nimc.readiness.node_findings import save_missing
from records.checkout import ROOT
from records.errors import InputError
from records.interrupts import exit_when_stopped
from records.machine.site import load as load_machine
from records.slurm.client import find_reservation
from records.slurm.options import whole_node_request
from records.slurm.parse import Reservation
from records.units import plural

# `nimc doctor` prints what works on this host for a machine, and how to get what is missing.


#: Widths of the first two columns of a finding, characters, with the space after each column.
_SUBJECT_WIDTH, _STATE_WIDTH = 23, 9


@click.command()
@options.machine_option
@click.option(
    "--in-job",
    "in_job",
    is_flag=True,
    help="Also inspect nodes, and try writes between them, in a job.",
)
@options.wait_option
@options.results_option
@click.option("-v", "--verbose", is_flag=True, help="Show all findings, also of what works.")
@prints_answer()
def doctor_command(
    machine: str, in_job: bool, wait_s: float, results: Path, verbose: bool
) -> Answer:
    """Check this host: what works for machine M, and how to get what is missing.

    With --in-job, a job inspects target and origin nodes, and tries writes between them. This takes
    about two minutes.
    The exit code is 0 if nothing that M needs is missing and a workload can run, otherwise 3.
    """
    if not in_job:
        options.reject_without("--in-job", "--wait", "--results")
    node_findings: list[HostFinding] = []
    if in_job:
        options.require_writable_results(results)
        # Imported only with --in-job, since it imports all modules that run campaigns.
        from nimc.cluster.in_job import inspect_nodes, job_findings

        with exit_when_stopped():
            job_inspection = inspect_nodes(machine, results, wait_s, log, tries_writes=True)
        site = load_machine(machine)
        node_findings = [*job_findings(job_inspection, site)]
        if job_inspection.nodes:
            save_missing(site, needed_and_missing(node_findings), ROOT)
    diagnosis = examine(machine, node_findings)
    text = visible(diagnosis_text(diagnosis, node_findings, verbose=verbose))
    return Answer(diagnosis.as_dict(), [text], 3 if diagnosis.why else 0, schema=2)


def diagnosis_text(
    diagnosis: Diagnosis, node_findings: Sequence[HostFinding] = (), *, verbose: bool
) -> str:
    """Return a diagnosis as text of 80 columns: findings, then what runs where, then the verdict.

    Unless `verbose` is true, things that work are only named, without their finding. On a machine
    that is ready, things that are limited are only named too, except in `node_findings`: these
    took a job.
    """
    parts = [f"machine: {diagnosis.machine}"]
    detailed_findings = diagnosis.findings
    if not verbose:
        working = ", ".join(finding.what for finding in detailed_findings if finding.state == "ok")
        parts.append(wrapped(f"works: {working or 'nothing'}"))
        faults = [finding for finding in detailed_findings if finding.state != "ok"]
        detailed_findings = [fault for fault in faults if diagnosis.why or fault in node_findings]
        named = ", ".join(fault.what for fault in faults if fault not in detailed_findings)
        if named:
            parts.append(wrapped(f"limited: {named} (-v says why, and how to get it)"))
    if detailed_findings:
        lines = [line for finding in detailed_findings for line in _finding_lines(finding)]
        parts.append("\n".join(lines))
    if diagnosis.matrix.cells:
        parts += ["What runs where:", diagnosis.matrix.text]
    parts.append(wrapped(diagnosis.sentence))
    return "\n\n".join(parts)


def _finding_lines(finding: HostFinding) -> Iterator[str]:
    """Yield the lines of a finding in three columns: subject, state, detail with remedy."""
    detail = finding.detail
    if finding.remedy:
        detail += f" -> {finding.remedy}"
    subject_lines = wrapped_lines(finding.what, _SUBJECT_WIDTH - 1, indent="")
    detail_lines = wrapped_lines(detail, WIDTH - _SUBJECT_WIDTH - _STATE_WIDTH, indent="")
    rows = itertools.zip_longest(subject_lines, [finding.state], detail_lines, fillvalue="")
    for subject, state, detail_line in rows:
        yield f"{subject:<{_SUBJECT_WIDTH}}{state:<{_STATE_WIDTH}}{detail_line}".rstrip()


# `nimc origins` creates, shows and removes the reservation of a machine's origin nodes.


@click.group()
def origins_command() -> None:
    """Create, show or remove the reservation of a machine's origin nodes."""


@origins_command.command()
@options.machine_option
@click.option(
    "--time", "length_s", type=options.DURATION, default="4h", help="Length of the reservation."
)
@click.option(
    "--nodes",
    metavar="N,N",
    help="Reserve these nodes [default: as many as the site file says, in its partition].",
)
@prints_answer()
def create(machine: str, length_s: float, nodes: str | None) -> Answer:
    """Reserve the origin nodes for you, starting now."""
    minutes = max(1, round(length_s / 60))
    return _reservation_answer(reservation.create(load_machine(machine), minutes, nodes))


@origins_command.command()
@options.machine_option
@prints_answer()
def show(machine: str) -> Answer | int:
    """Show the reservation; exit code 3 if there is none."""
    name = reservation.name_of(load_machine(machine))
    current = find_reservation(name)
    if current is None:
        log(f"reservation {name} does not exist")
        return 3
    return _reservation_answer(current)


@origins_command.command()
@options.machine_option
def remove(machine: str) -> None:
    """Remove the reservation."""
    reservation.remove(load_machine(machine))


def _reservation_answer(current: Reservation) -> Answer:
    names_by_prefix = {"": current.users, "group ": current.groups, "account ": current.accounts}
    user_texts = [
        f"{prefix}{', '.join(names)}" for prefix, names in names_by_prefix.items() if names
    ]
    users = "; ".join(user_texts) or "everyone"
    nodes = f"{current.nodes} ({plural(current.node_count, 'node')})"
    period = f"{current.start} to {current.end}"
    line = f"{current.name}: {nodes} for {users}, {period}, {current.state}"
    times = {"start": str(current.start), "end": str(current.end)}
    return Answer(asdict(current) | times, [line])


# `nimc remedy` prints what an operator installs for a remedy that needs root, and how to revert it.


@click.group()
def remedy_command() -> None:
    """Remedies that need root. nimc sets none of them: it prints what an operator installs."""


@remedy_command.command(name="list")
@prints_answer()
def list_remedies() -> Answer:
    """List the remedies."""
    remedies = ROOT_REMEDIES.values()
    lines = [Line([remedy.name, remedy.does]) for remedy in remedies]
    listing = Listing(header=["remedy", "what it does"], lines=lines, min_columns=2)
    return Answer({"remedies": list(map(_remedy_facts, remedies))}, [listing])


@remedy_command.command(name="show")
@click.argument("name", shell_complete=options.completing(lambda: ROOT_REMEDIES))
@click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Set a value in the scripts."
)
@click.option("--part", type=click.Choice(PARTS), help="Print only this file.")
@prints_answer()
def show_remedy(name: str, assignments: tuple[str, ...], part: Part | None) -> Answer:
    """Print a prolog and an epilog for Slurm, and a systemd unit that runs the epilog at boot."""
    if part:
        options.allow_only("--part", "--set")
    remedy = ROOT_REMEDIES.get(name)
    if remedy is None:
        raise InputError(f"{name}: no such remedy; allowed: {', '.join(ROOT_REMEDIES)}")
    values = parameter_values(remedy, assignments)
    text_by_part: dict[str, str] = {
        part_name: render(remedy, values, part_name) for part_name in PARTS
    }
    if part:
        text = text_by_part[part].removesuffix("\n")
    else:
        text = _remedy_text(remedy, values, text_by_part)
    return Answer({**_remedy_facts(remedy), "values": values, **text_by_part}, [text])


def _remedy_facts(remedy: RootRemedy) -> dict[str, object]:
    parameters = {name: parameter["allowed"] for name, parameter in remedy.parameters.items()}
    return asdict(remedy) | {"feature": remedy.feature, "parameters": parameters}


def _remedy_text(remedy: RootRemedy, values: dict[str, str], text_by_part: dict[str, str]) -> str:
    facts = [
        f"{remedy.name}: {remedy.does}",
        f"needs: {remedy.needs}",
        f"price: {remedy.price}",
        f"trap: {remedy.trap}",
        f"request: {whole_node_request(remedy.feature)} (docs/remedies.md)",
    ]
    for name, parameter in remedy.parameters.items():
        facts.append(f"value: {name}={values[name]} (--set {name}=...: {parameter['allowed']})")
    files = [f"---- {path_of(remedy, part)} ----\n{text_by_part[part]}" for part in PARTS]
    return "\n".join(facts) + "\n\n" + "\n".join(files)
