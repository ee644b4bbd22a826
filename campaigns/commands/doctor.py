"""`nimc doctor`: what works on this host for a machine, and how to get what is missing."""

from __future__ import annotations

import itertools
import sys
import textwrap
from pathlib import Path

import click

from analysis.escape import one_line, visible
from campaigns.document import Form, print_document
from campaigns.host.doctor import Diagnosis, examine
from campaigns.host.in_job import examine as examine_in_job
from campaigns.host.matrix_table import matrix_table
from campaigns.options import (
    form_options,
    machine_option,
    results_option,
    useless_without,
    wait_option,
)
from campaigns.running.interrupts import exit_when_stopped
from campaigns.text import WIDTH, wrapped

_WHAT, _STATE = 26, 9


@click.command()
@machine_option
@click.option("--in-job", "in_job", is_flag=True, help="Look at nodes too, in a job of a minute.")
@wait_option
@results_option
@form_options
def command(machine: str, in_job: bool, wait_s: float, results: Path, form: Form | None) -> None:
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
        click.echo(visible(text(diagnosis)))
    if not diagnosis.ready:
        sys.exit(3)


def _tell(line: str) -> None:
    """Progress, which is no part of the document."""
    click.echo(f"nimc: {one_line(line)}", err=True)


def text(diagnosis: Diagnosis) -> str:
    """The findings as a table in 80 columns, then what runs where, the verdict last."""
    lines = []
    for found in diagnosis.findings:
        detail = found.detail + (f" -> {found.remedy}" if found.remedy else "")
        what = textwrap.wrap(found.what, _WHAT - 1, break_on_hyphens=False)
        room = WIDTH - _WHAT - _STATE
        rows = textwrap.wrap(detail, room, break_on_hyphens=False) or [""]
        states = [found.state]
        for name, state, row in itertools.zip_longest(what, states, rows, fillvalue=""):
            lines.append(f"{name:<{_WHAT}}{state:<{_STATE}}{row}".rstrip())
    if diagnosis.matrix.cells:
        lines += ["", "What runs where:", "", matrix_table(diagnosis.matrix)]
    if diagnosis.why:
        lines.append(f"\n{wrapped(f'{diagnosis.machine} is not ready: {diagnosis.why}')}")
    else:
        lines.append(f"\n{diagnosis.machine} is ready")
    return "\n".join(lines)
