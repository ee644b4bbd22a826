"""`nimc doctor`: what works on this host for a machine, and how to get what is missing."""

from __future__ import annotations

import itertools
import sys
import textwrap

import click

from analysis.escape import visible
from campaigns.document import Form, print_document
from campaigns.host.doctor import Diagnosis, examine
from campaigns.host.matrix_table import matrix_table
from campaigns.options import form_options, machine_option
from campaigns.text import WIDTH, wrapped

_WHAT, _STATE = 26, 9


@click.command()
@machine_option
@form_options
def command(machine: str, form: Form | None) -> None:
    """Check this host: what works for machine M, and how to get what is missing.

    Exits with 0 if the machine's injector and at least one workload can run, else with 3.
    """
    diagnosis = examine(machine)
    if form:
        print_document("doctor", diagnosis.as_dict(), form)
    else:
        click.echo(visible(text(diagnosis)))
    if not diagnosis.ready:
        sys.exit(3)


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
