"""The command `nimc run`, which measures a campaign and makes its report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from analysis.statistics.interval import flat_record
from nimc.campaign.cases import omission_lines
from nimc.campaign.plan import Request
from nimc.campaign.request import load_request, time_limit_warnings
from nimc.cli import options
from nimc.cli.answer import Answer, Listing, discard, log, prints_answer
from nimc.cli.pairs import pairs_option, require_floor
from nimc.readiness import reservation
from nimc.readiness.diagnosis import Feasibility
from nimc.readiness.reframe import find_reframe
from nimc.run.folder import (
    RunFolder,
    differing_parts,
    find_differing_run,
    find_latest,
    make_run_report,
    new_header,
    open_run,
    past_lengths,
)
from nimc.run.progress import Progress, display
from nimc.run.runner import CampaignRunner, Failure
from records import checkout
from records.calls import Call, RunCommands, load_call
from records.commands import Shell, campaign_word, command
from records.errors import MachineError
from records.failed_cases import save_failures
from records.interrupts import Interrupts, Stopped, stopped_at_once
from records.run import RunHeader
from records.slurm.outages import SilentError

if TYPE_CHECKING:
    from analysis.report.page import Report


fresh_option = click.option(
    "--fresh", is_flag=True, help="Start a new run even if an earlier one is unfinished."
)


@click.command()
@options.campaign_argument
@options.machine_option
@options.results_option
@prints_answer()
@options.progress_options
@fresh_option
@pairs_option("instead of the campaign's; a finished run with fewer pairs is resumed")
@click.option("--nodelist", metavar="N,N", help="Target nodes, for Slurm [default: any].")
@options.case_option
@click.option("--fail-inconclusive", is_flag=True, help="Exit with 1 if a case stays inconclusive.")
def run_command(
    campaign: Path,
    machine: str,
    results: Path,
    progress: Progress,
    fresh: bool,
    pairs: int | None,
    nodelist: str | None,
    cases: tuple[str, ...],
    fail_inconclusive: bool,
) -> Answer | int:
    """Run CAMPAIGN on a machine, or resume its latest unfinished run.

    With --pairs, a finished run is resumed as well: its cases that are not decided get more pairs.
    """
    request = load_request(campaign, machine, nodelist=nodelist, case_names=cases)
    option_words = ["--nodelist", nodelist] if nodelist else []
    for case in cases:
        option_words += ["--case", case]
    call = Call(("run", campaign_word(campaign)), tuple(option_words), folder=Path.cwd())
    return run_and_report(
        request,
        call,
        results,
        progress,
        fresh=fresh,
        pairs=pairs,
        fail_inconclusive=fail_inconclusive,
    )


def run_and_report(
    request: Request,
    call: Call,
    results: Path,
    progress: Progress,
    *,
    fresh: bool,
    pairs: int | None,
    fail_inconclusive: bool = False,
    reword: Callable[[str], str] = str,
) -> Answer | int:
    """Run or resume a campaign, and make its report. For the arguments see `run_campaign`.

    With `fail_inconclusive`, the exit status is 1 if a case stays inconclusive.
    """
    if pairs is not None:
        require_floor(request, pairs, reword)

    def conclude(folder: RunFolder, failures: list[Failure]) -> Answer:
        report = _make_report(folder.path)
        document = _document(folder, report, request, failures)
        parts = _result_parts(document, report, details=progress == "verbose") if report else []
        status = exit_code(report, failures, fail_inconclusive=fail_inconclusive)
        return Answer(document, parts, status)

    return run_campaign(
        request,
        new_header(request),
        call,
        results,
        progress,
        conclude,
        fresh=fresh,
        pairs=pairs,
        reword=reword,
    )


def exit_code(
    report: Report | None, failures: Sequence[Failure], *, fail_inconclusive: bool
) -> int:
    """Return the exit code of `nimc run`.

    It is 3 if cases failed, 2 if the run has integrity faults, 1 if a result is slower than its
    reference or (with `fail_inconclusive`) undecided, and otherwise 0. If several apply, the
    highest is returned.
    """
    if failures:
        return 3
    if report is None:
        return 0
    run = report.runs[0]
    if run.integrity.lines():
        return 2
    if any(result.slower_than_reference for result in run.results):
        return 1
    return int(fail_inconclusive and any(result.verdict.is_undecided for result in run.results))


def run_campaign(
    request: Request,
    header: RunHeader,
    call: Call,
    results: Path,
    progress: Progress,
    conclude: Callable[[RunFolder, list[Failure]], Answer | int],
    *,
    fresh: bool = False,
    pairs: int | None = None,
    reword: Callable[[str], str] = str,
) -> Answer | int:
    """Run a campaign, or resume its latest unfinished run, and return what `conclude` returns.

    `conclude` is called with the run's folder and the failures of cases. If a signal stops the run,
    or Slurm does not answer, the exit status is returned instead.

    `header` is the header of a new run. `call` is the command that the user typed. With `fresh`, a
    new run is started in any case. With `pairs`, a finished run is resumed too, up to this number
    of pairs in each case. `reword` changes the reason of a failure to the words of the user's
    command.
    """
    tell = discard if progress == "quiet" else log
    options.require_writable_results(results)
    reframe = find_reframe()
    request = replace(request, lengths=past_lengths(results.absolute(), header.digest))
    feasibility = request.feasibility()
    if feasibility.why:
        raise MachineError(f"{request.machine.name}: {feasibility.why}")
    required_folder = call.required_folder
    run_elsewhere = _unfinished_elsewhere(results.absolute(), header, required_folder)
    with open_run(
        results,
        header,
        fresh=fresh,
        uses_slurm=request.uses_slurm,
        pairs=pairs,
        required_folder=required_folder,
    ) as folder:
        request = request.with_pairs_cap(folder.header.max_pairs)
        new_by_default = not (folder.resumed or fresh)
        if new_by_default and (old_run := find_differing_run(folder.path.parent, header)):
            path, old_header = old_run
            differences = ", ".join(differing_parts(header, old_header)) or "version of nimc"
            tell(f"does not resume {path}: different {differences}")
        if folder.resumed:
            # A user's own command always runs in the folder in which it was first started.
            first_folder = load_call(folder.path, header.campaign).folder
            call = replace(call, folder=first_folder or call.folder)
        elif run_elsewhere and not fresh:
            tell(f"does not resume {run_elsewhere}: it was started in another folder")
        call.save(folder.path)
        save_failures(folder.path, {})  # those of an earlier session
        tell(f"machine: {request.machine.name}")
        tell(f"{'resumes' if folder.resumed else 'starts'} {folder.path}")
        if folder.resumed:
            tell(f"head of its chain: {folder.head}")
        if header.commit is None:
            fault = checkout.why_no_commit()
            tell(f"samples will not record the commit of this project: {fault}")
        for line in _request_lines(request, feasibility):
            tell(line)
        seed = folder.header.seed
        if seed is None:
            seed = folder.header.drawn_seed
        try:
            with stopped_at_once():
                with closing(display(progress)) as progress_display, Interrupts() as interrupts:
                    runner = CampaignRunner(
                        request=request,
                        run=folder.path,
                        reframe=reframe,
                        seed=seed,
                        interrupts=interrupts,
                        display=progress_display,
                        omission_reasons=feasibility.omission_reasons,
                    )
                    failures = _measure(runner)
                    interrupts.check()  # raises Stopped if a signal came after the last block
                failures = [replace(failure, reason=reword(failure.reason)) for failure in failures]
                save_failures(folder.path, {failure.case: failure.reason for failure in failures})
                for failure in failures:
                    log(str(failure))
                if failures:
                    log(_how_to_continue(folder, has_failed=True))
                else:
                    folder.finish()
                return conclude(folder, failures)
        except Stopped as stop:
            log(f"stopped by {stop}; {_how_to_continue(folder)}")
            return 128 + stop.signum
        except SilentError as error:
            log(f"{error}; {_how_to_continue(folder)}")
            return error.exit_code


def _request_lines(request: Request, feasibility: Feasibility) -> list[str]:
    """Return lines about a request: what cannot run, and what may go wrong."""
    planned = request.plan(feasibility.omission_reasons)
    return [
        *omission_lines([*request.omissions, *feasibility.omissions]),
        *feasibility.doubts,
        *time_limit_warnings(planned, request.time_limit_s),
    ]


def _measure(runner: CampaignRunner) -> list[Failure]:
    """Measure all cases and return the failures.

    Before that, raise MachineError if the reservation of the origins (the nodes that run only
    writers) does not last long enough.
    """
    request = runner.request
    with closing(runner):
        reservation.check(request.machine, request.most_origin_nodes, runner.least_time_s())
        return runner.run_all()


def _unfinished_elsewhere(
    results: Path, header: RunHeader, required_folder: Path | None
) -> Path | None:
    """Return the latest run of a user's own command, if it is unfinished and of another folder.

    Such a run is not resumed, since the same words may name another program in this folder.
    `required_folder` is the folder in which the user typed the command. It is None if the campaign
    does not measure a user's own command.
    """
    latest = find_latest(results, header.digest) if required_folder else None
    if latest is None:
        return None
    path, latest_header = latest
    if latest_header.finished_s is not None:
        return None
    return path if load_call(path, header.campaign).folder != required_folder else None


def _how_to_continue(folder: RunFolder, *, has_failed: bool = False) -> str:
    """Return what the user can do after a signal, or if Slurm does not answer.

    If a case failed (`has_failed`), the same command alone would often fail again.
    """
    header = folder.header
    if header.finished_s is None:
        commands = RunCommands(folder.path, header.campaign, header.machine, Shell.here())
        state, again = "no sample was taken", "try again"
        if _has_samples(folder.path):
            state, again = "all samples are saved", "resume"
        step = f"mend what failed, then {again}" if has_failed else "to resume"
        return f"{state}; {step}: {commands.resume()}"
    return f"the samples are complete; for the report: {command('report', folder.path)}"


def _has_samples(run: Path) -> bool:
    return any((run / "samples").glob("*.jsonl"))


def _make_report(run: Path) -> Report | None:
    """Make and return the report of a run; return None if the run has no samples.

    Raises MachineError if the report cannot be written.
    """
    if not _has_samples(run):
        return None

    report = make_run_report(run)
    for line in report.runs[0].integrity.lines():
        log(line)
    return report


def _document(
    folder: RunFolder, report: Report | None, request: Request, failures: Sequence[Failure]
) -> dict[str, object]:
    run = report.runs[0] if report else None
    return {
        "machine": folder.header.machine,
        "campaign": folder.header.campaign,
        "run": str(folder.path),
        "head": folder.head,
        "results": [flat_record(result) for result in run.results] if run else [],
        "contrasts": [flat_record(contrast) for contrast in run.contrasts] if run else [],
        "report": str(report.page) if report else None,
        "integrity_faults": run.integrity.lines()[1:] if run else [],
        "failures": [asdict(failure) for failure in failures],
        "absent": [asdict(omission) for omission in request.omissions],
    }


def _result_parts(
    document: Mapping[str, object], report: Report, *, details: bool
) -> Iterator[str | Listing]:
    from nimc.cli.results import tables_of_run

    yield from tables_of_run(report.runs[0], details=details)
    yield from ("", f"samples: {document['run']}", f"report:  {document['report']}")
    yield f"head:    {document['head']}"
