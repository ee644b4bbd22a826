"""`nimc verify`: whether stored runs are what was written."""

from __future__ import annotations

from pathlib import Path

import click

from nimc.base.errors import InputError
from nimc.base.text import visible
from nimc.base.units import plural
from nimc.cli.document import Form, show
from nimc.cli.options import FILE, RunPath, json_option
from nimc.cli.table import bold
from nimc.crate.verify import VerifiedCrate, verify_crate
from nimc.run.verify import Kind, Verified, verify

_COLOUR: dict[Kind, str] = {"broken": "red", "contradicted": "red", "unproven": "yellow"}


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunPath(), metavar="RUN...")
@click.option("--head", metavar="HEAD", help="Head that was kept of the one RUN elsewhere.")
@click.option(
    "--allowed-signers",
    "allowed",
    type=FILE,
    metavar="FILE",
    help="Whose signatures of crates are accepted (ssh-keygen(1), ALLOWED SIGNERS).",
)
@json_option
def verify_command(
    runs: tuple[Path, ...], head: str | None, allowed: Path | None, form: Form | None
) -> int:
    """Verify stored runs, and crates (.zip): chain, digests, and figures read anew from kept logs.

    One line for each fault, which begins with its kind: 'broken' is not what was written,
    'contradicted' is denied by another record or by the log. 'unproven' is no fault. The exit code
    is 2 if there are faults. Compare the head with what was kept of it elsewhere, or give it: no
    command can find out otherwise that a whole folder was made anew.
    """
    if head is not None and len(runs) != 1:
        raise InputError("--head: cannot be combined with several RUNs")
    found = [
        verify_crate(run, head, allowed) if run.suffix == ".zip" else verify(run, head)
        for run in dict.fromkeys(runs)
    ]
    lines = [line for each in found for line in _lines(each)]
    show("verify", {"runs": [each.as_dict() for each in found]}, form, "\n".join(lines))
    return 0 if all(each.is_sound for each in found) else 2


def _lines(of: Verified) -> list[str]:
    faults = sum(each.kind != "unproven" for each in of.findings)
    state = plural(faults, "fault") if faults else "no fault"
    checked = f"{plural(of.samples, 'sample')}, {plural(of.read_anew, 'figure')} read anew"
    return [
        bold(visible(f"{of.run}: {state}; {checked}; head {of.head or 'none'}")),
        *(
            click.style(visible(f"{each.kind}: {each.text}"), fg=_COLOUR[each.kind])
            for each in of.findings
        ),
        *(map(visible, of.remarks()) if isinstance(of, VerifiedCrate) else ()),
    ]
