"""A nightly of the small campaign, whose ReFrame is a stand-in."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nimc.nights.summary import Summary, load
from tests.nimc import nimc_without_figures
from tests.nimc.conftest import ROOT, Nimc, call, nimc_in
from tests.nimc.minicluster.real import Cluster, cluster_of
from tests.nimc.nights.made_history import make_history


@dataclass
class Box:
    """`nimc nightly` in a folder of its own."""

    nimc: Nimc
    #: When the night's window opened: in the first hour of a day, that is the day before.
    opened: datetime = field(default_factory=lambda: datetime.now() - timedelta(hours=1))

    @property
    def tonight(self) -> date:
        return self.opened.date()

    @property
    def folder(self) -> Path:
        return self.nimc.folder

    @property
    def file(self) -> Path:
        return self.folder / "box.yaml"

    def describe(self, **changes: str) -> None:
        """Write the description: a night that began an hour ago and ends in an hour."""
        start, end = (f"{self.opened + timedelta(hours=hours):%H:%M}" for hours in (0, 2))
        lines = {
            "machine": "localhost",
            "campaign": str(self.folder / "small.yaml"),
            "window": f'{{start: "{start}", end: "{end}"}}',
            "budget": "1",
            "results": str(self.nimc.results),
            **changes,
        }
        self.file.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))

    def start(
        self, *words: str, fake: str = "", root: Path = ROOT, **more: Any
    ) -> subprocess.Popen[str]:
        """Start it as a process of its own, `command`; `root`: folder of its checkout."""
        environment = {**self.nimc.environment(fake), "PYTHONPATH": str(root)}
        words = ("nightly", *words)
        return nimc_without_figures.start(words, self.folder, environment, **more)

    def call(self, *words: str, fake: str = "", **variables: str) -> tuple[int, str, str]:
        """Run it in this process: exit status, standard output, standard error."""
        environment = {**self.nimc.environment(fake), **variables}
        with pytest.MonkeyPatch.context() as patch:
            for module in ("measure", "night"):
                patch.setattr(f"nimc.nights.{module}.NIMC", nimc_without_figures.COMMAND)
            found = call(["nightly", *words], self.folder, environment)
        assert "Traceback" not in found[2], found
        return found

    def run(self, *options: str, fake: str = "") -> tuple[int, str]:
        """Run this night: exit status and standard error."""
        status, _, err = self.call("run", str(self.file), *options, fake=fake)
        return status, err

    def nights(self) -> list[Summary]:
        """All summaries, in order."""
        return [load(path) for path in sorted((self.nimc.results / "nights").glob("*.json"))]

    def night(self) -> Summary:
        """The one summary that there is."""
        (found,) = self.nights()
        return found

    def runs(self) -> list[Path]:
        """All runs, in the order of their start."""
        return sorted(
            self.nimc.results.glob("*-localhost-*"),
            key=lambda run: float(json.loads((run / "run.json").read_text())["started_s"]),
        )


@pytest.fixture
def box(nimc: Nimc) -> Box:
    found = Box(nimc)
    found.describe()
    return found


@pytest.fixture(scope="session")
def steady_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of steady nights, and of some at half the speed."""
    nimc = nimc_in(tmp_path_factory.mktemp("history"))
    status, _, err = nimc.run()
    assert status == 0, err
    make_history(nimc.results / "store", nimc.the_run(), loss=0.5)
    (nimc.results / "latest").unlink()
    return nimc.results


@pytest.fixture
def scrontab_cluster() -> Iterator[Cluster]:
    """A minicluster of three nodes, the last one an origin."""
    if shutil.which("scrontab") is None:
        pytest.skip("no scrontab (Debian's Slurm 22.05 is packaged without it)")
    yield from cluster_of(3)
