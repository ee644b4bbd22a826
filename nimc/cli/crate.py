"""The commands `nimc pack`, `nimc reproduce` and `nimc verify`.

They pack the run of a campaign as a crate (a zip), repeat the run in a crate, and verify runs and
crates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import click

from analysis.compare.sides import compare_sides
from analysis.display.figures import quantity
from analysis.display.lines import visible
from analysis.report.data import RunData, load_run
from analysis.statistics.interval import flat_record
from nimc.campaign.campaign_file import third_party_check_names
from nimc.campaign.plan import Request
from nimc.campaign.request import load_request
from nimc.cli import options
from nimc.cli.answer import Answer, prints_answer, prose
from nimc.cli.results import comparison_parts
from nimc.cli.run import run_campaign
from nimc.crate.metadata import LICENSES
from nimc.crate.pack import open_crate, pack, report_files, verify_crate
from nimc.crate.reproduce import compared_files, outcome_of
from nimc.run.folder import RunFolder, new_header
from nimc.run.progress import Progress
from nimc.run.runner import Failure
from nimc.run.verify import Verification, verify
from records import yaml_file
from records.calls import Call
from records.errors import InputError
from records.measured import COMMAND_CHECK
from records.run import Reproduced, RunHeader, entries_of
from records.units import plural


@click.command()
@click.argument("run", type=options.RunPath(), metavar="RUN")
@options.output_option("The crate [default: RUN.zip, next to the run].")
@click.option(
    "--sign",
    "key",
    type=options.FILE,
    metavar="KEY",
    help="Sign the manifest with this SSH key (ssh-keygen -Y sign).",
)
@click.option(
    "--license",
    "license_",
    type=click.Choice(list(LICENSES)),
    default="CC-BY-4.0",
    help="Licence of the data.",
)
@click.option(
    "--author",
    "authors",
    multiple=True,
    default=("anonymous",),
    metavar="NAME",
    help="'Family, Given', or an institution. May be repeated.",
)
@prints_answer()
def pack_command(
    run: Path, output: Path | None, key: Path | None, license_: str, authors: tuple[str, ...]
) -> Answer:
    """Pack a run as a crate: one zip (RO-Crate) that can be cited, verified and repeated."""
    if not all(map(str.strip, authors)):
        raise InputError("--author: '' found; allowed: 'Family, Given', or an institution")
    if output is not None and output.suffix != ".zip":
        raise InputError(f"--output: {output} found; allowed: a name that ends with .zip")
    run = run.resolve()
    crate = output or run.with_name(f"{run.name}.zip")
    crate_facts = pack(run, crate, license_, authors, key)
    size = f"{quantity(crate_facts['size_b'], 'B', 3)}, {crate_facts['files']} files"
    lines = [
        f"crate:    {crate_facts['crate']} ({size})",
        f"manifest: {crate_facts['manifest_sha256']}",
        f"head:     {crate_facts['head']}",
    ]
    if not crate_facts["finished"]:
        lines.append("not finished: the crate has what was measured so far")
    return Answer(crate_facts, lines)


# `nimc reproduce` repeats the run in a crate, or only its analysis.


@click.command()
@click.argument("crate", type=options.RunPath(), metavar="FILE.zip")
@click.option(
    "--analysis-only",
    is_flag=True,
    help="Only make the results and the page again from the samples.",
)
@options.machine_option
@options.results_option
@prints_answer()
@options.progress_options
def reproduce_command(
    crate: Path, analysis_only: bool, machine: str, results: Path, progress: Progress
) -> Answer | int:
    """Repeat the run in a crate: the same plan in the same order, or only its analysis.

    Ends with a comparison of both runs and their machines, and a verdict with its reasons. The exit
    code is 0 if the run is reproduced. It is 1 if the run differs, if no difference is shown, or if
    the runs cannot be compared. It is 3 if a case failed.
    """
    with open_crate(crate) as (crate_files, run):
        if analysis_only:
            options.allow_only("--analysis-only", "--json")
            agreements = compared_files(crate_files, report_files(run))
            lines = [f"{name}: {agreement}" for name, agreement in agreements.items()]
            return Answer({"files": agreements}, lines, int("differs" in agreements.values()))
        packed_run = load_run(run)
        packed_header = packed_run.header
        campaign = run.with_name(f"{packed_header.campaign}.yaml")
        campaign.write_text(packed_header.campaign_text, encoding="utf-8")
        # A crate from somebody else must not decide which file of this user is imported.
        if check_files := [file for _, file in third_party_check_names(yaml_file.load(campaign))]:
            raise InputError(
                f"{check_files[0]}: a third-party check is not in a crate; allowed: --analysis-only"
            )
        if any(entry.check == COMMAND_CHECK for entry in entries_of(packed_header) or ()):
            raise InputError("a command that the packer chose is not run; allowed: --analysis-only")
        if packed_header.seed is None:
            raise InputError(f"{packed_header.run}: has no seed: the order of its runs is unknown")
        request = runnable_request(packed_header, campaign, machine)
        reproduced = packed_header.reproduces or Reproduced(packed_header.run, packed_header.digest)
        pairs_cap = packed_header.max_pairs
        header = replace(new_header(request), reproduces=reproduced, pairs_cap=pairs_cap)
        conclude = partial(comparison_answer, packed_run, details=progress == "verbose")
        call = Call(("reproduce", crate))
        return run_campaign(request, header, call, results, progress, conclude)


def runnable_request(packed_header: RunHeader, campaign: Path, machine: str) -> Request:
    """Return a request for those cases of the packed run that a machine can run.

    Raises InputError if the machine can run none of them.
    """
    cases = load_request(campaign, machine).campaign.cases
    case_names = [case.name for case in cases if case.name in packed_header.asked.cases]
    if not case_names:
        raise InputError(f"{machine}: cannot run any case of {packed_header.run}")
    return load_request(campaign, machine, case_names=case_names)


def comparison_answer(
    packed_run: RunData, run: RunFolder, failures: Sequence[Failure], *, details: bool
) -> Answer:
    """Return the comparison of the packed run with `run`, its repetition.

    The exit status is 0 if the run is reproduced, 3 if cases failed, and 1 otherwise. `details` are
    printed if it is true.
    """
    compared_sides = compare_sides([packed_run], [load_run(run.path)])
    outcome, reasons = outcome_of(compared_sides)
    document = {
        "packed": packed_run.header.run,
        "run": str(run.path),
        "outcome": outcome,
        "reasons": reasons,
        "failures": [asdict(failure) for failure in failures],
        "comparisons": list(map(flat_record, compared_sides.rows)),
    }
    parts = [*comparison_parts(compared_sides, details=details), *map(prose, reasons)]
    parts.append(prose(outcome, bold=True))
    status = 3 if failures else int(outcome != "reproduced")
    return Answer(document, parts, status, schema=2)


# `nimc verify` finds out whether stored runs and crates were changed after they were written.


@click.command()
@click.argument("runs", nargs=-1, required=True, type=options.RunPath(), metavar="RUN...")
@click.option(
    "--head",
    metavar="HEAD",
    help="Head of the run that you kept elsewhere; only with one RUN.",
)
@click.option(
    "--allowed-signers",
    "allowed_signers",
    type=options.FILE,
    metavar="FILE",
    help="File of the signers whose signatures are accepted (ssh-keygen(1), ALLOWED SIGNERS).",
)
@prints_answer()
def verify_command(
    runs: tuple[Path, ...], head: str | None, allowed_signers: Path | None
) -> Answer:
    """Verify stored runs, and crates (.zip): chain, digests, and figures re-read from kept logs.

    Each finding is a line that begins with its kind. 'broken': a file was changed after it was
    written. 'contradicted': a value differs from another record or from the log. 'unproven':
    something cannot be verified, which is no fault. The exit code is 2 if there are faults.

    If you have kept the head of the run elsewhere, pass it as --head, or compare it with the
    printed head. Without this, no command can find out that a whole folder was forged.
    """
    if head is not None and len(runs) != 1:
        raise InputError("--head: cannot be combined with several RUNs")
    unsigned = [run for run in runs if run.suffix != ".zip"] if allowed_signers else []
    if unsigned:
        raise InputError(f"--allowed-signers: {unsigned[0]} is not signed; allowed: crates (.zip)")
    verifications = [
        verify_crate(run, head, allowed_signers) if run.suffix == ".zip" else verify(run, head)
        for run in dict.fromkeys(runs)
    ]
    lines = [line for verification in verifications for line in _verification_lines(verification)]
    status = 0 if all(verification.is_sound for verification in verifications) else 2
    return Answer(
        {"runs": [verification.as_dict() for verification in verifications]},
        lines,
        status,
        schema=2,
    )


def _verification_lines(verification: Verification) -> Iterator[str]:
    fault_count = sum(finding.kind != "unproven" for finding in verification.findings)
    state = plural(fault_count, "fault") if fault_count else "no fault"
    samples = plural(verification.samples, "sample")
    figures, runs = plural(verification.reread, "figure"), plural(verification.judged, "run")
    checks = f"{samples}, {figures} re-read, {runs} judged again"
    title = f"{verification.run}: {state}; {checks}; head {verification.head or 'none'}"
    yield click.style(visible(title), bold=True)
    for finding in verification.findings:
        colour = "yellow" if finding.kind == "unproven" else "red"
        yield click.style(visible(f"{finding.kind}: {finding.text}"), fg=colour)
    yield from map(visible, verification.remarks)
