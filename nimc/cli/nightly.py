"""`nimc nightly`: a campaign every night."""

from __future__ import annotations

import os
import sys
import time
from datetime import date, datetime, timedelta
from pathlib import Path

import click

from analysis.history.tables import Outcome
from nimc.base import units
from nimc.base.errors import InputError, NimcError
from nimc.base.text import aligned, one_line
from nimc.cli import options
from nimc.cli.document import Form, log, print_document, show, silent
from nimc.nights import description, install, notify, summary
from nimc.nights.description import Nightly
from nimc.nights.night import NightRun, night_of, outside
from nimc.nights.summary import Summary
from nimc.run.progress import Progress

#: Exit status of a night. One that was not run is no failure: its summary says why.
EXIT: dict[Outcome, int] = {
    "measured": 0,
    "slower": 1,
    "not run": 0,
    "inconclusive": 0,
    "machine failed": 3,
}


@click.group()
def nightly_command() -> None:
    """Run a campaign every night: what a site installs, one night, and how nights ended.

    NAME is a file of site/nightly/, or the path of such a file.
    """


@nightly_command.command()
@click.argument("name")
@click.option("--scrontab", "kind", flag_value="scrontab", help="Lines for Slurm's scrontab.")
@click.option("--cron", "kind", flag_value="cron", help="Lines for crontab.")
@click.option("--systemd", "kind", flag_value="systemd", help="User units of systemd.")
@click.option("--gitlab", "kind", flag_value="gitlab", help="A pipeline of GitLab CI.")
@click.option("--jacamar", is_flag=True, help="For --gitlab: runners are Jacamar's.")
@click.option("--child", is_flag=True, help="For --gitlab: the child pipeline of one night.")
@click.option("--install", "do_install", is_flag=True, help="Install it instead of printing it.")
@options.output_option("File for --gitlab --install.")
def init(
    name: str, kind: str | None, jacamar: bool, child: bool, do_install: bool, output: Path | None
) -> None:
    """Print what starts the nights of NAME, or install it."""
    if kind is None:
        raise InputError("init: no scheduler given; allowed: --scrontab --cron --systemd --gitlab")
    if kind != "gitlab" and (jacamar or child or output):
        raise InputError("--jacamar, --child, --output: only with --gitlab")
    if kind == "gitlab" and do_install != (output is not None):
        raise InputError("--gitlab: --install and --output PATH must be given together")
    nightly = description.load(name)
    nimc = ["/usr/bin/env", f"PATH={_path()}", str(Path(sys.executable).parent / "nimc")]
    run = [*nimc, "nightly", "run", nightly.target]
    for word in (*run, str(nightly.folder)):
        if not word.isprintable():  # a line break would begin another line of a crontab
            raise InputError(f"init: {word!r} found; allowed: paths of printable characters")
    if kind == "gitlab":
        _gitlab(nightly, nimc, jacamar=jacamar, child=child, file=output)
    elif kind == "systemd":
        texts = install.systemd_units(nightly, run)
        listed = "\n".join(f"# {each}\n{text}" for each, text in texts.items())
        click.echo(install.units(texts) if do_install else listed, nl=do_install)
    else:
        block = (install.cron_block if kind == "cron" else install.scrontab_block)(nightly, run)
        program = "crontab" if kind == "cron" else "scrontab"
        summary.make_folder(nightly.folder)  # without it, the log stops the night
        click.echo(install.table(program, block) if do_install else block, nl=do_install)


def _path() -> str:
    """PATH, since that of cron and others has no Slurm; without what depends on a folder."""
    kept = (each for each in os.get_exec_path() if each.startswith("/") and each.isprintable())
    return os.pathsep.join(dict.fromkeys(kept))


def _zone() -> str:
    """Name of this host's time zone, or its abbreviation if files do not say."""
    name = os.environ.get("TZ", os.path.realpath("/etc/localtime")).rpartition("zoneinfo/")[2]
    return name if name and not name.startswith("/") else time.tzname[0]


def _gitlab(
    nightly: Nightly, nimc: list[str], *, jacamar: bool, child: bool, file: Path | None
) -> None:
    if child:
        from nimc.campaign.prepare import prepare

        request = prepare(nightly.campaign, nightly.machine)
        cases = [case.name for case in request.campaign.cases]
        text = install.gitlab_child(nightly, nimc, cases, jacamar=jacamar)
    else:
        text = install.gitlab_parent(nightly, nimc, _zone(), jacamar=jacamar)
    if file is None:
        click.echo(text, nl=False)
    else:
        summary.write(file, text)
        click.echo(f"written to {file}")


@nightly_command.command()
@click.argument("name")
@click.option("--night", type=click.DateTime(["%Y-%m-%d"]), help="Make up for this night now.")
@click.option("--summary", "copy", type=options.OutputPath(), help="Write the summary here too.")
@click.option("--fail-inconclusive", is_flag=True, help="Exit with 1 if it was inconclusive.")
@options.json_option
@options.progress_options
def run(
    name: str,
    night: datetime | None,
    copy: Path | None,
    fail_inconclusive: bool,
    form: Form | None,
    progress: Progress,
) -> int:
    """Run this night of NAME.

    Exit codes: 0 measured, inconclusive or not run; 1 slower; 2 invalid description or campaign; 3
    the machine failed.
    """
    nightly = description.load(name)
    remark = silent if progress == "quiet" else log
    now_s = time.time()
    found = night_of(nightly, now_s, night.date() if night else None)
    if found is None:
        ended = outside(nightly, now_s)
        remark(f"not run: {ended.reason}")
    else:
        this = NightRun(nightly, found, remark, verbose=progress == "verbose")
        try:
            ended = this.run()
        except NimcError as error:
            if copy:
                summary.write(copy, summary.summary_text(this.failed(error)))
            raise
    if copy:
        summary.write(copy, summary.summary_text(ended))
    if form:
        print_document("nightly run", ended.as_dict())
    return 1 if fail_inconclusive and ended.outcome == "inconclusive" else EXIT[ended.outcome]


@nightly_command.command()
@click.argument("file", metavar="SUMMARY", type=click.Path(path_type=Path))
@click.option("--junit", "kind", flag_value="junit", help="JUnit XML.")
@click.option("--prometheus", "kind", flag_value="prometheus", help="Metrics for Prometheus.")
@click.option("--case", help="Of one case only.")
@click.option("--fail", is_flag=True, help="Exit as the night did; with --case as the case did.")
def export(file: Path, kind: str | None, case: str | None, fail: bool) -> int:
    """Print a night's SUMMARY in another format."""
    if kind is None:
        raise InputError("export: no format given; allowed: --junit --prometheus")
    found = summary.load(file)
    if case is not None:
        found = found.of_case(case)
    if kind == "junit":
        click.echo(notify.junit_xml(found))
    else:
        click.echo(notify.prometheus_text(found), nl=False)
    if not fail:
        return 0
    if found.alarms:
        return 1
    # A case that was measured does not fail for others.
    measured = len(found.cases) == 1 and found.figures and not found.failures
    return 0 if measured else EXIT[found.outcome]


@nightly_command.command()
@click.argument("name")
@click.option("--since", default="30d", help="How far back.")
@options.form_options
def status(name: str, since: str, form: Form | None) -> None:
    """Show the calendar of NAME: each scheduled night, and how it ended."""
    nightly = description.load(name)
    now_s, days = time.time(), units.duration_s(since, "--since") / 86400
    first = datetime.fromtimestamp(now_s).date() - timedelta(days=min(days, 36525))
    known: dict[date, Summary] = {}
    for night, path in summary.summaries(nightly.folder, nightly.name):
        try:
            known[night] = summary.load(path)
        except InputError as error:
            log(f"left out: {error}")
    is_running = summary.running(nightly.folder, nightly.machine, nightly.name)
    nights = summary.calendar(nightly.window, known, first, now_s, running=is_running)
    found = {"nightly": nightly.name, "machine": nightly.machine}
    rows = [each.as_dict() for each in nights]
    cells = [
        [str(n.night), n.outcome or "", f"{n.used_node_h:.3g}", one_line(n.reason)] for n in nights
    ]
    text = aligned(["night", "outcome", "node-hours", "reason"], cells)
    show("nightly status", {**found, "nights": rows}, form, text)
