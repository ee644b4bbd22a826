"""`nimc pages`: static pages of every machine's nights, and one over all machines."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from analysis.escape import visible
from analysis.history.store import to_stderr
from analysis.pages.render import state_of
from campaigns.document import print_document
from campaigns.options import history_options, json_option, output_option
from campaigns.pages import make_pages


@click.command()
@history_options
@json_option
@output_option("Folder for the pages [default: RESULTS/pages].", folder=True)
def command(results: Path, store: Path, output: Path | None, as_json: bool) -> None:
    """Write a page for every machine of the store, and one over all machines.

    OUTPUT/index.html is the page over all, OUTPUT/MACHINE/index.html that of a machine, each one
    file with the data of its figures next to it. Nights that were not run come from the summaries
    in RESULTS/nights.
    """
    page, histories = make_pages(store, results, output, to_stderr)
    states = [state_of(history) for history in histories]
    if as_json:
        machines = [asdict(each) for each in states]
        print_document("pages", {"page": str(page), "machines": machines})
        return
    for each in states:
        night = f"last night {each.last_night}, {each.outcome}" if each.last_night else "no night"
        alarms = f"open alarms: {each.open_alarms}"
        click.echo(visible(f"{each.machine}: {night}; {alarms}"))
    click.echo(f"page: {page}")
