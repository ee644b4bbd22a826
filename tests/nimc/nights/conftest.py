"""Runs `nimc nights run` with a small campaign and a stand-in for ReFrame.

A night is one unattended run of a campaign. Its summary is a JSON file.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nimc.nights.summary import Summary, load
from tests.commands import ROOT, Nimc
from tests.in_process import call
from tests.nimc import nimc_without_figures


@dataclass
class Box:
    """`nimc nights run` in a folder of its own."""

    nimc: Nimc

    @property
    def folder(self) -> Path:
        return self.nimc.folder

    def words(self, *options: str, campaign: str = "small.yaml") -> tuple[str, ...]:
        fixed = ("--machine", "localhost", "--results", str(self.nimc.results))
        return ("nights", "run", str(self.folder / campaign), *fixed, *options)

    def start(self, *options: str, faults: str = "", **more: Any) -> subprocess.Popen[str]:
        """Start a night as a separate process."""
        environment = {**self.nimc.environment(faults), "PYTHONPATH": str(ROOT)}
        return nimc_without_figures.start(self.words(*options), self.folder, environment, **more)

    def run(
        self, *options: str, faults: str = "", campaign: str = "small.yaml"
    ) -> tuple[int, str, str]:
        """Run a night in this process; return exit status, standard output and standard error."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("nimc.nights.night.NIMC_COMMAND", nimc_without_figures.COMMAND)
            patch.setattr("analysis.report.page.render", nimc_without_figures.render)
            patch.setattr("analysis.report.page.data_files", nimc_without_figures.data_files)
            ended = call(
                self.words(*options, campaign=campaign), self.folder, self.nimc.environment(faults)
            )
        assert "Traceback" not in ended[2], ended
        return ended

    def summaries(self) -> list[Path]:
        return sorted((self.nimc.results / "nights").glob("*.json"))

    def night(self) -> Summary:
        """Return the only summary."""
        (path,) = self.summaries()
        return load(path)

    def runs(self) -> list[Path]:
        """Return the folders of all runs, in the order of their start."""
        return sorted(
            self.nimc.results.glob("*-localhost-*"),
            key=lambda run: float(json.loads((run / "run.json").read_text())["started_s"]),
        )


@pytest.fixture
def box(nimc: Nimc) -> Box:
    return Box(nimc)
