"""`nimc run`: runs or resumes a campaign."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from analysis.errors import MachineError
from analysis.escape import one_line
from campaigns.document import Form, print_document
from campaigns.host import reservation
from campaigns.options import (
    Progress,
    campaign_argument,
    form_options,
    machine_option,
    progress_options,
    results_option,
)
from campaigns.planning.omitted import omission_lines
from campaigns.planning.partitions import too_long
from campaigns.planning.prepare import Request, prepare
from campaigns.request.nodes import origins_taken
from campaigns.running.folder import RunFolder, find_other, foreign_runs, open_run
from campaigns.running.header import new_header
from campaigns.running.interrupts import Interrupts, Stopped, stopped_at_once
from campaigns.running.progress import display
from campaigns.running.runner import CampaignRunner, Failure
from campaigns.running.session import find_reframe
from campaigns.running.slurm_watch import SilentError

if TYPE_CHECKING:
    from analysis.report.make import Report


@click.command()
@campaign_argument
@machine_option
@results_option
@form_options
@progress_options
@click.option("--fresh", is_flag=True, help="Start a new run even if there is an unfinished one.")
@click.option(
    "--nodelist", metavar="N,N", help="Names of the target nodes, for Slurm. Default: any."
)
@click.option("--case", "cases", multiple=True, help="Only this case. May be repeated.")
@click.option("--fail-inconclusive", is_flag=True, help="Exit with 1 if a case stays inconclusive.")
def command(
    campaign: Path,
    machine: str,
    results: Path,
    form: Form | None,
    progress: Progress,
    fresh: bool,
    nodelist: str | None,
    cases: tuple[str, ...],
    fail_inconclusive: bool,
) -> int:
    """Run CAMPAIGN on a machine, or resume its latest unfinished run."""
    asked = prepare(campaign, machine, nodelist=nodelist, only=cases)
    remark = _silent if progress == "quiet" else _log
    reframe = find_reframe()
    site = asked.site
    header = new_header(asked)
    with open_run(results, header, fresh=fresh, slurm=site.slurm) as folder:
        other = None if folder.resumed or fresh else find_other(folder.path.parent, header)
        if other:
            remark(f"does not resume {other}: campaign, cases, machine file or host differ")
        foreign = [] if folder.resumed or fresh else foreign_runs(folder.path.parent, header)
        if foreign:
            more = f" (nor {len(foreign) - 1} more)" if len(foreign) > 1 else ""
            remark(f"does not resume {foreign[-1]}{more}")
        remark(f"{'resumes' if folder.resumed else 'starts'} {folder.path}")
        long = too_long(asked.plan(), site.time_limit_s)
        if header.commit is None:
            remark("git does not give the commit of this project: samples will not record it")
        for line in [*omission_lines(asked.absent), *long, *asked.matrix().lines()]:
            remark(line)
        try:
            with stopped_at_once():
                failures = _measure(asked, folder, reframe, progress)
                for failure in failures:
                    _log(str(failure))
                if not failures:
                    folder.finish()
                return _conclude(asked, folder, failures, form, fail_inconclusive)
        except Stopped as stop:
            _log(f"stopped by {stop}; {_how_to_go_on(folder)}")
            return 128 + stop.signum
        except SilentError as error:
            _log(f"{error}; {_how_to_resume()}")
            return error.exit_code


def _how_to_resume() -> str:
    again = shlex.join(["nimc", *(word for word in sys.argv[1:] if word != "--fresh")])
    return f"all samples are saved; to resume: {again}"


def _how_to_go_on(folder: RunFolder) -> str:
    """What to do after a signal."""
    if folder.header.finished_s is None:
        return _how_to_resume()
    report = shlex.join(["nimc", "report", str(folder.path)])
    return f"the samples are complete; for the report: {report}"


def _measure(asked: Request, folder: RunFolder, reframe: str, progress: Progress) -> list[Failure]:
    shown = display(progress)
    try:
        with Interrupts() as interrupts:
            # A run that an earlier version began has the campaign's own seed.
            seed = asked.campaign.seed if folder.header.seed is None else folder.header.seed
            runner = CampaignRunner(
                asked.campaign, asked.site, folder.path, reframe, seed, interrupts, shown
            )
            cases = asked.campaign.cases
            most = max((origins_taken(asked.campaign, c, asked.machine) for c in cases), default=0)
            reservation.check(asked.machine, most, runner.least_s())
            failures = runner.run_all()
            interrupts.check()  # one that came after the last block
            return failures
    finally:
        shown.close()


def _conclude(
    asked: Request,
    folder: RunFolder,
    failures: list[Failure],
    form: Form | None,
    fail_inconclusive: bool,
) -> int:
    """Make the report, print the results, and return the exit status."""
    report = _report(folder.path)
    results = report.runs[0].results if report else []
    contrasts = report.runs[0].contrasts if report else []
    faults = report.runs[0].integrity.lines() if report else []
    for line in faults:
        _log(line)
    if form:
        document = {
            "machine": folder.header.machine,
            "campaign": folder.header.campaign,
            "run": str(folder.path),
            "results": [row.as_dict() for row in results],
            "contrasts": [each.as_dict() for each in contrasts],
            "report": str(report.page) if report else None,
            "integrity_faults": faults[1:],
            "failures": [asdict(failure) for failure in failures],
            "absent": [asdict(each) for each in asked.absent],
        }
        print_document("run", document, form)
    elif report:
        from analysis.table import console, results_table

        console().print(results_table(results, contrasts))
        click.echo(f"\nsamples: {folder.path}\nreport:  {report.page}")
    if failures:
        return 3
    if faults:
        return 2
    if any(row.slower_than_reference for row in results):
        return 1
    return int(fail_inconclusive and any(row.verdict.is_open for row in results))


def _report(run: Path) -> Report | None:
    """Make the report; None where there is no sample to report."""
    if not any((run / "samples").glob("*.jsonl")):
        return None

    from polars.exceptions import PolarsError

    from analysis.report.make import make_reports

    try:
        (report,) = make_reports([run], force=True)
    except (OSError, PolarsError) as error:
        what = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise MachineError(f"{run}/report: {what}; the samples are saved") from error
    return report


def _silent(text: str) -> None:
    """Print nothing."""


def _log(text: str) -> None:
    click.echo(f"nimc: {one_line(text)}", err=True)
