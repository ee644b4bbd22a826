"""Pages of all machines, from a store, the folder of runs and the summaries of their nights."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from analysis.errors import InputError
from analysis.escape import one_line
from analysis.history.files import Naming
from analysis.pages.data import MachineHistory, PageNight
from analysis.pages.gather import gather
from analysis.pages.write import FILES, write_pages
from analysis.trust import require_own
from campaigns.nightly import description, lock, summary
from campaigns.nightly.calendar import calendar
from campaigns.nightly.summary import Summary


def make_pages(
    store: Path, results: Path, output: Path | None, left_out: Naming
) -> tuple[Path, list[MachineHistory]]:
    """Write the pages; returns the page over all machines, and what is known of each.

    Without `output` they are in the folder `pages` of the results, which must be one's own. What
    cannot be read is named to `left_out`, each line once. Raises InputError if there is no
    store or no machine, and OSError if a file cannot be written.
    """
    if output is None:
        output = results / "pages"
        require_own(output, "--output", team="owns")
    lines: dict[str, None] = {}
    outcomes = _outcomes(results / "nights", lines.setdefault)
    gathered = gather(store, results, output, outcomes, lines.setdefault)
    histories = [each for each in gathered if each.machine not in FILES]
    for each in gathered:
        if each.machine in FILES:
            lines.setdefault(f"machine {each.machine}: left out, a file of the pages has this name")
    for line in lines:
        left_out(line)
    if not histories:
        raise InputError(f"{store}: no runs, and {results}/nights: no summaries of nights")
    return write_pages(output, histories), histories


def _outcomes(folder: Path, left_out: Naming) -> dict[str, list[PageNight]]:
    """Machine -> its nights with how they ended."""
    require_own(folder, "results", or_root=True, team="owns")
    nightlies: dict[str, dict[date, Summary]] = {}
    for path in sorted(folder.glob("*-????-??-??.json")):
        try:
            found = summary.load(path)
        except InputError as error:
            left_out(str(error))
        else:
            nightlies.setdefault(found.nightly, {})[found.night] = found
    outcomes: dict[str, list[PageNight]] = {}
    for name, known in nightlies.items():
        last = known[max(known)]
        outcomes.setdefault(last.machine, []).extend(_nights(name, folder, last, known))
    return outcomes


def _nights(
    name: str, folder: Path, last: Summary, known: Mapping[date, Summary]
) -> list[PageNight]:
    """The nights of one nightly: those of its calendar too, if it is still described."""
    try:
        nightly = description.load(name)
    except InputError:
        nightly = None
    if nightly is None or nightly.folder.resolve() != folder.resolve():
        return [
            PageNight(night, each.campaign, each.outcome, one_line(each.reason), _run(each.run))
            for night, each in sorted(known.items())
        ]
    is_running = lock.running(folder, last.machine, name)
    nights = calendar(nightly.window, known, min(known), time.time(), running=is_running)
    return [
        PageNight(each.night, last.campaign, each.outcome, one_line(each.reason), _run(each.run))
        for each in nights
        if each.outcome is not None
    ]


def _run(folder: str | None) -> str:
    return Path(folder).name if folder else ""
