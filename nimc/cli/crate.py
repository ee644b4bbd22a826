"""`nimc pack`, `nimc verify`, `nimc reproduce`: pack a run, verify it, and repeat it."""

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
from nimc.campaign.prepare import prepare
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
from nimc.run.verify import Verified, verify
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
    help="'Family, Given', or an institution; once for each.",
)
@prints_answer()
def pack_command(
    run: Path, output: Path | None, key: Path | None, license_: str, authors: tuple[str, ...]
) -> Answer:
    """Pack a run as a crate: one zip (RO-Crate) that can be cited, verified and repeated."""
    if not all(map(str.strip, authors)):
        raise InputError("--author: '' found; allowed: 'Family, Given', or an institution")
    run = run.resolve()
    crate = output or run.with_name(f"{run.name}.zip")
    packed = pack(run, crate, license_, authors, key)
    size = f"{quantity(packed['size_b'], 'B', 3)}, {packed['files']} files"
    lines = [
        f"crate:    {packed['crate']} ({size})",
        f"manifest: {packed['manifest_sha256']}",
        f"head:     {packed['head'] or 'none: the samples of this run are in no chain'}",
    ]
    if not packed["finished"]:
        lines.append("not finished: the crate has what was measured so far")
    return Answer(packed, lines)


# `nimc reproduce`: the analysis of a crate, or its run, once more.


@click.command()
@click.argument("crate", type=options.RunPath(), metavar="FILE.zip")
@click.option("--analysis-only", is_flag=True, help="Only results and page, from the samples.")
@options.machine_option
@options.results_option
@prints_answer()
@options.progress_options
def reproduce_command(
    crate: Path, analysis_only: bool, machine: str, results: Path, progress: Progress
) -> Answer | int:
    """Repeat the run in a crate: the same plan in the same order, or only its analysis.

    Ends with a comparison of both runs and their machines, and a verdict: reproduced (exit code 0),
    differs, no difference shown, or cannot be compared, with the reasons (1).
    """
    with open_crate(crate) as (content, run):
        if analysis_only:
            options.allow_only("--analysis-only", "--json")
            files = compared_files(content, report_files(run))
            lines = [f"{name}: {state}" for name, state in files.items()]
            return Answer({"files": files}, lines, int("differs" in files.values()))
        packed = load_run(run)
        campaign = run.with_name(f"{packed.header.campaign}.yaml")
        campaign.write_text(packed.header.campaign_text, encoding="utf-8")
        # The packer must not choose which file of this user is imported.
        if check_files := [named for _, named in third_party_check_names(yaml_file.load(campaign))]:
            raise InputError(
                f"{check_files[0]}: a third-party check is not in a crate; allowed: --analysis-only"
            )
        if any(entry.check == COMMAND_CHECK for entry in entries_of(packed.header) or ()):
            raise InputError("a command that the packer chose is not run; allowed: --analysis-only")
        if packed.header.seed is None:
            raise InputError(f"{packed.header.run}: has no seed: the order of its runs is unknown")
        request = runnable_request(packed.header, campaign, machine)
        origin = packed.header.reproduces or Reproduced(packed.header.run, packed.header.digest)
        header = replace(new_header(request), reproduces=origin)
        conclude = partial(comparison_answer, packed, details=progress == "verbose")
        call = Call(("reproduce", crate))
        return run_campaign(request, header, call, results, progress, conclude)


def runnable_request(packed: RunHeader, campaign: Path, machine: str) -> Request:
    """Return the cases of the packed run that this machine can run. Raises InputError if none."""
    cases = prepare(campaign, machine).campaign.cases
    runnable = [case.name for case in cases if case.name in packed.asked.cases]
    if not runnable:
        raise InputError(f"{machine}: cannot run any case of {packed.run}")
    return prepare(campaign, machine, case_names=runnable)


def comparison_answer(
    packed: RunData, run: RunFolder, failures: Sequence[Failure], *, details: bool
) -> Answer:
    """Compare the repeated run with the packed one. The exit status is 0 only if reproduced."""
    compared = compare_sides([packed], [load_run(run.path)])
    outcome, reasons = outcome_of(compared)
    document = {
        "packed": packed.header.run,
        "run": str(run.path),
        "outcome": outcome,
        "reasons": reasons,
        "failures": [asdict(failure) for failure in failures],
        "comparisons": list(map(flat_record, compared.rows)),
    }
    parts = [*comparison_parts(compared, details=details), *map(prose, reasons)]
    parts.append(prose(outcome, bold=True))
    status = 3 if failures else int(outcome != "reproduced")
    return Answer(document, parts, status, schema=2)


# `nimc verify`: whether stored runs and crates are what was written.


@click.command()
@click.argument("runs", nargs=-1, required=True, type=options.RunPath(), metavar="RUN...")
@click.option("--head", metavar="HEAD", help="Head that was kept of the one RUN elsewhere.")
@click.option(
    "--allowed-signers",
    "allowed",
    type=options.FILE,
    metavar="FILE",
    help="Whose signatures of crates are accepted (ssh-keygen(1), ALLOWED SIGNERS).",
)
@prints_answer()
def verify_command(runs: tuple[Path, ...], head: str | None, allowed: Path | None) -> Answer:
    """Verify stored runs, and crates (.zip): chain, digests, and figures re-read from kept logs.

    One line for each fault, which begins with its kind: 'broken' is not what was written,
    'contradicted' is denied by another record or by the log. 'unproven' is no fault. The exit code
    is 2 if there are faults. Compare the head with what was kept of it elsewhere, or give it: no
    command can find out otherwise that a whole folder was forged.
    """
    if head is not None and len(runs) != 1:
        raise InputError("--head: cannot be combined with several RUNs")
    unsigned = [run for run in runs if run.suffix != ".zip"] if allowed else []
    if unsigned:
        raise InputError(f"--allowed-signers: {unsigned[0]} is not signed; allowed: crates (.zip)")
    verified = [
        verify_crate(run, head, allowed) if run.suffix == ".zip" else verify(run, head)
        for run in dict.fromkeys(runs)
    ]
    lines = [line for result in verified for line in _verification_lines(result)]
    status = 0 if all(result.is_sound for result in verified) else 2
    return Answer({"runs": [result.as_dict() for result in verified]}, lines, status, schema=2)


def _verification_lines(verified: Verified) -> Iterator[str]:
    faults = sum(finding.kind != "unproven" for finding in verified.findings)
    state = plural(faults, "fault") if faults else "no fault"
    samples = plural(verified.samples, "sample")
    figures, runs = plural(verified.reread, "figure"), plural(verified.judged, "run")
    checks = f"{samples}, {figures} re-read, {runs} judged again"
    title = f"{verified.run}: {state}; {checks}; head {verified.head or 'none'}"
    yield click.style(visible(title), bold=True)
    for finding in verified.findings:
        colour = "yellow" if finding.kind == "unproven" else "red"
        yield click.style(visible(f"{finding.kind}: {finding.text}"), fg=colour)
    yield from map(visible, verified.remarks)
