"""`nimc` with a stand-in for the page of the report, and without the data files of its sections.

The figures of the real page, and these files, take most of the time of a small run. This `nimc`
ignores concurrent runs on this host, which other tests make. A night also starts this `nimc`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.report import page
from nimc.cli import main as cli
from nimc.run import runner, session
from records.checkout import python_main

if TYPE_CHECKING:
    from analysis.report.data import RunData
    from analysis.report.sections import Files
    from records.commands import Shell

COMMAND = tuple(python_main(__name__))


def render(runs: Sequence[RunData], shell: Shell | None) -> str:  # noqa: ARG001
    return f"<title>{len(runs)} runs</title>\n"


def data_files(runs: Sequence[RunData]) -> Files:  # noqa: ARG001
    return {}


def start(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    command: Sequence[str] = COMMAND,
    **more: Any,
) -> subprocess.Popen[str]:
    """Start `nimc` in a folder with these additional variables.

    `command` starts another `nimc` than this one.
    """
    return subprocess.Popen(
        [*command, *words],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def main() -> None:
    page.render, page.data_files = render, data_files
    runner.concurrent_runs = lambda _: []
    session.NIMC_COMMAND = COMMAND
    cli.main()
