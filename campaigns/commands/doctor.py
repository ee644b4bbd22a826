"""`nimc doctor`: what works on this host for a machine, and how to get what is missing."""

from __future__ import annotations

import sys
import textwrap

import click

from analysis.escape import visible
from campaigns.document import print_document
from campaigns.host.doctor import Diagnosis, examine
from campaigns.options import machine_option

_WIDTH = 100
_WHAT, _STATE = 24, 9


@click.command()
@machine_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of a table.")
def command(machine: str, as_json: bool) -> None:
    """Check this host: what works for machine M, and how to get what is missing.

    Exits with 0 if the machine's injector and at least one workload can run, else with 3.
    """
    diagnosis = examine(machine)
    if as_json:
        print_document("doctor", diagnosis.as_dict())
    else:
        click.echo(visible(text(diagnosis)))
    if not diagnosis.ready:
        sys.exit(3)


def text(diagnosis: Diagnosis) -> str:
    """The findings as a table, the verdict last."""
    lines = []
    for found in diagnosis.findings:
        detail = found.detail + (f" -> {found.remedy}" if found.remedy else "")
        rows = textwrap.wrap(detail, _WIDTH - _WHAT - _STATE, break_on_hyphens=False) or [""]
        lines.append(f"{found.what:<{_WHAT}} {found.state:<{_STATE - 1}}{rows[0]}")
        lines += [" " * (_WHAT + _STATE) + row for row in rows[1:]]
    if diagnosis.why:
        lines.append(f"\n{diagnosis.machine} is not ready: {diagnosis.why}")
    else:
        lines.append(f"\n{diagnosis.machine} is ready")
    return "\n".join(lines)
