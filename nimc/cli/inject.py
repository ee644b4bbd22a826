"""The command `nimc inject`, which runs only writers, beside an application of the user."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from analysis.display.figures import quantity
from conductor.injectors import INJECTORS
from nimc.cli import options
from nimc.cli.answer import Answer, log, prints_answer
from nimc.cli.programs import require_program
from records.errors import InputError
from records.injected import SCHEMA
from records.machine.site import load as load_machine
from records.units import percentage

if TYPE_CHECKING:
    from nimc.cluster.injection_session import InjectionOutcome

_INJECTORS = [
    name
    for name, injector in INJECTORS.items()
    if injector.writes and injector.direction == "write"
]


@click.command(context_settings={"allow_interspersed_args": False})
@options.machine_option
@click.option("--to", "targets", metavar="NODES", help="Target nodes, as Slurm lists them.")
@click.option("--from", "origins", metavar="NODES", help="Origin nodes.")
@click.option(
    "--rate",
    default="full",
    help="Rate of each writer: full, a share of the full rate (25%), or 2GB/s.",
)
@click.option(
    "--injector",
    type=click.Choice(_INJECTORS),
    help="Program that writes [default: that of the machine].",
)
@click.option("--for", "length_s", type=options.DURATION, help="How long the writers write.")
@options.output_option("File for the record [default: a new one in the folder of --results].")
@options.results_option
@options.wait_option
@prints_answer()
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[--] [COMMAND ARG...]")
def inject_command(
    machine: str,
    targets: str | None,
    origins: str | None,
    rate: str,
    injector: str | None,
    length_s: float | None,
    output: Path | None,
    results: Path,
    wait_s: float,
    command: tuple[str, ...],
) -> Answer | int:
    """Start only the writers, and prove their writes, while your own harness measures.

    They write until COMMAND ends, for the time given with --for, or until Ctrl-C. COMMAND runs in
    this terminal, or in the job of the writers if they need a job. If the writes were proven all
    the time, the exit code is that of COMMAND, or 0 if there is no COMMAND. Otherwise it is 1.
    """
    # Not at the top, since it imports all modules that run campaigns.
    from nimc.cluster.injection_session import RequestedWrites, inject, runs_here

    if command and "--json" in options.names_given():
        raise InputError("--json: cannot be combined with a COMMAND, which prints; allowed: -o")
    options.require_writable_results(results)
    if output is not None and output.exists():  # perhaps a record, which cannot be made again
        raise InputError(f"--output: {output} exists; allowed: a new file")
    site = load_machine(machine)
    if command:
        require_program("COMMAND", command, in_job=not runs_here(site))
    requested_writes = RequestedWrites(
        rate=rate,
        injector=injector,
        targets=targets,
        origins=origins,
        command=command,
        length_s=length_s,
        wait_s=wait_s,
    )
    record_path = output or new_record_path(results)
    outcome = inject(site, requested_writes, results, record_path, log)
    lines = [*summary_lines(outcome), f"record: {record_path}"]
    if not command:
        return Answer(_document(record_path), lines, exit_code(outcome), schema=SCHEMA)
    for line in lines:
        log(line)
    return exit_code(outcome)


def new_record_path(results: Path) -> Path:
    """Return a path for a record, which no other `nimc inject` has, on this host or another."""
    start = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return results / f"inject-{start}-{socket.gethostname()}-{os.getpid()}.json"


def exit_code(outcome: InjectionOutcome) -> int:
    """Return the exit code of `nimc inject`.

    It is 128 + the number of the signal that ended the writes, if one did. It is 1 if the writes
    were not proven, or if the command was killed with the conductor, such as at the job's time
    limit. Otherwise it is the exit status of the command, or 0 if there is no command.
    """
    summary = outcome.summary
    if outcome.signum is not None:
        return 128 + outcome.signum
    was_killed = summary.command_start_s is not None and summary.exit_status is None
    if was_killed or not summary.proven:
        return 1
    return summary.exit_status or 0


def _document(record_path: Path) -> dict[str, object]:
    """Return the record with its path, for printing as JSON.

    Its schema number is removed, since it is added again when the `Answer` is printed.
    """
    import json

    document: dict[str, object] = json.loads(record_path.read_bytes())
    del document["schema"]
    return {**document, "record": str(record_path)}


def summary_lines(outcome: InjectionOutcome) -> Iterator[str]:
    """Yield lines on what was written, what is proven, and how the command ended."""
    summary = outcome.summary
    length_s = (summary.end_s or 0.0) - (summary.start_s or 0.0)
    rate_b_s = summary.bytes_b / length_s if length_s else 0.0
    line = (
        f"wrote {quantity(summary.bytes_b, 'B')} in {length_s:.1f} s: {quantity(rate_b_s, 'B/s')}"
    )
    if summary.link_rate_b_s and outcome.link_count:
        links_b_s = summary.link_rate_b_s * outcome.link_count
        line += f", {percentage(rate_b_s / links_b_s)} of the link"
    yield line
    reason = "" if summary.proven else f": {summary.reason}"
    yield f"proven for {summary.proven_s:.1f} s of {length_s:.1f} s{reason}"
    if summary.exit_status is not None and summary.command_start_s and summary.command_end_s:
        command_s = summary.command_end_s - summary.command_start_s
        yield f"command: exit status {summary.exit_status} after {command_s:.2f} s"
    elif summary.command_start_s:
        yield "command: killed"
