"""`nimc doctor`: what works on this host for a machine, and how to get what is missing."""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from analysis.escape import one_line, visible
from campaigns.document import Form, print_document
from campaigns.host.doctor import Diagnosis, examine
from campaigns.host.in_job import examine as examine_in_job
from campaigns.host.matrix_table import matrix_by_place, matrix_table
from campaigns.host.probes import Finding
from campaigns.options import (
    form_options,
    machine_option,
    results_option,
    useless_without,
    wait_option,
)
from campaigns.running.interrupts import exit_when_stopped
from campaigns.text import WIDTH, wrapped

_WHAT, _STATE = 23, 9


@click.command()
@machine_option
@click.option("--in-job", "in_job", is_flag=True, help="Look at nodes too, in a job of a minute.")
@wait_option
@results_option
@click.option("-v", "--verbose", is_flag=True, help="Also what works, and every workload.")
@form_options
def command(
    machine: str, in_job: bool, wait_s: float, results: Path, verbose: bool, form: Form | None
) -> None:
    """Check this host: what works for machine M, and how to get what is missing.

    With --in-job, Slurm is asked what it accepts, and a job looks at target and origin nodes.
    Exits with 0 if nothing that it needs is missing and a workload can run, else with 3.
    """
    if not in_job:
        useless_without("--in-job", "--wait", "--results")
    with exit_when_stopped():
        of_nodes = examine_in_job(machine, results, wait_s, _tell) if in_job else []
    diagnosis = examine(machine).extended(of_nodes)
    if form:
        print_document("doctor", diagnosis.as_dict(), form)
    else:
        click.echo(visible(text(diagnosis, verbose=verbose)))
    if not diagnosis.ready:
        sys.exit(3)


def _tell(line: str) -> None:
    """Progress, which is no part of the document."""
    click.echo(f"nimc: {one_line(line)}", err=True)


def text(diagnosis: Diagnosis, *, verbose: bool) -> str:
    """The findings in 80 columns, then what runs where, the verdict last.

    Unless `verbose`, what works is only named, and the forms of a tool that lack the same are
    `TOOL:*`.
    """
    findings, where, lines = diagnosis.findings, matrix_table, []
    if not verbose:
        works = ", ".join(found.what for found in findings if found.state == "ok")
        lines = [wrapped(f"works: {works or 'nothing'}"), ""]
        forms = [found.what for found in findings]
        findings = [
            replace(found, what=_short(found.what, forms))
            for found in findings
            if found.state != "ok"
        ]
        where = matrix_by_place
    lines += [line for found in findings for line in _rows(found)]
    if diagnosis.matrix.cells:
        lines += ["", "What runs where:", "", where(diagnosis.matrix)]
    if diagnosis.why:
        lines.append(f"\n{wrapped(f'{diagnosis.machine} is not ready: {diagnosis.why}')}")
    else:
        lines.append(f"\n{diagnosis.machine} is ready")
    return "\n".join(lines)


def _rows(found: Finding) -> Iterator[str]:
    detail = found.detail + (f" -> {found.remedy}" if found.remedy else "")
    what = textwrap.wrap(found.what, _WHAT - 1, break_on_hyphens=False)
    rows = textwrap.wrap(detail, WIDTH - _WHAT - _STATE, break_on_hyphens=False) or [""]
    for name, state, row in itertools.zip_longest(what, [found.state], rows, fillvalue=""):
        yield f"{name:<{_WHAT}}{state:<{_STATE}}{row}".rstrip()


def _short(what: str, all_findings: Sequence[str]) -> str:
    """`tool likwid:A, likwid:B` as `tool likwid:*` if no other finding is of a form of it."""
    first, *others = what.split(", ")
    stem = f"{first.partition(':')[0]}:"
    bare = stem.removeprefix("tool ")
    alike = others and all(other.startswith(bare) for other in others)
    elsewhere = any(bare in each for each in all_findings if each != what)
    return f"{stem}*" if alike and not elsewhere else what
