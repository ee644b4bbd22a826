"""A campaign that runs against a stand-in for ReFrame, as a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CAMPAIGN = """\
name: small
workloads:
  - {check: stream, set: {iterations: 10}, expect: 1s}
arms: [off, on, aa]
pairs: {floor: 6}
"""
#: For the end of its list of workloads.
SECOND = "  - {check: lammps, expect: 1s}\n"
ARMS = {"off", "on", "aa"}


@dataclass
class Nimc:
    """`nimc run` in a folder of its own."""

    folder: Path

    def write(self, campaign: str) -> None:
        """Ask for another campaign."""
        (self.folder / "small.yaml").write_text(campaign)

    def write_two_cases(self) -> None:
        """Ask for a campaign of STREAM and LAMMPS."""
        self.write(CAMPAIGN.replace("arms:", f"{SECOND}arms:"))

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def start(
        self, *options: str, fake: str = "", figures: bool = False, **more: Any
    ) -> subprocess.Popen[str]:
        """Start `nimc run` on the small campaign with ReFrame's stand-in (`fake`: its faults).

        With `figures`, the page of its report is the real one.
        """
        nimc = "nimc.cli.main" if figures else "tests.nimc.nimc_without_figures"
        argv = ["run", "small.yaml", "--machine", "localhost", "--results", "results", *options]
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "NIMC_REFRAME": str(self.folder / "reframe"),
            "FAKE": fake,
        }
        return subprocess.Popen(
            [sys.executable, "-c", f"from {nimc} import main; main()", *argv],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    def run(self, *options: str, fake: str = "", **more: Any) -> tuple[int, str, str]:
        """Run it to its end: exit status, standard output, standard error."""
        process = self.start(*options, fake=fake, **more)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def the_run(self) -> Path:
        """The one run there is."""
        (run,) = self.runs()
        return run

    def runs(self) -> list[Path]:
        """Folders of all runs, without the link `latest`."""
        return [path for path in self.results.iterdir() if not path.is_symlink()]

    def has_samples(self) -> bool:
        """Whether any run has begun to measure."""
        return any(self.results.glob("*/samples/*"))

    def header(self) -> dict[str, Any]:
        header: dict[str, Any] = json.loads((self.the_run() / "run.json").read_text())
        return header

    def samples(self, case: str) -> list[dict[str, Any]]:
        """Whole samples of a case."""
        file = self.the_run() / "samples" / f"{case}.jsonl"
        text = file.read_text() if file.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def complete_pairs(self, case: str) -> int:
        """Pairs of the treatment with the fewest, counted by hand: its run and `off` count."""
        arms: dict[tuple[int, int], set[str]] = {}
        for sample in self.samples(case):
            if sample["outcome"] == "kept" and not sample["warmup"]:
                arms.setdefault((sample["block"], sample["pair"]), set()).add(sample["arm"])
        treated = ARMS - {"off"}
        return min(sum({arm, "off"} <= found for found in arms.values()) for arm in treated)


@pytest.fixture(scope="session", autouse=True)
def _configurations_are_run_once() -> Iterator[None]:
    """Those of this checkout, in the same environment: each takes a process of half a second."""
    from nimc.campaign import settings

    run, answers = settings.ask, dict[Any, Any]()

    def ask(command: list[str], environment: dict[str, str]) -> Any:
        file = Path(command[-1])
        if file.parent != ROOT / "configs":
            return run(command, environment)
        same = {**environment, "PYTEST_CURRENT_TEST": ""}
        key = (file, file.read_bytes(), *sorted(same.items()))
        if key not in answers:
            answers[key] = run(command, environment)
        return answers[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "ask", ask)
        yield


@pytest.fixture
def nimc(tmp_path: Path) -> Nimc:
    return nimc_in(tmp_path)


def nimc_in(folder: Path) -> Nimc:
    """The small campaign and the stand-in for ReFrame in a folder."""
    fake = folder / "reframe"
    script = Path(__file__).with_name("fake_reframe.py")
    fake.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    fake.chmod(0o755)
    (folder / "small.yaml").write_text(CAMPAIGN)
    return Nimc(folder)


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool]], None]:
    """Wait until something holds; fail after two minutes."""
    import time

    def wait(holds: Callable[[], bool]) -> None:
        until_s = time.monotonic() + 120
        while not holds():
            assert time.monotonic() < until_s, "waited in vain"
            time.sleep(0.02)

    return wait


class Command:
    """`nimc` as a user calls it; `out` and `err` are what it printed last."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self.out = self.err = ""

    def __call__(self, *words: object, code: int = 0) -> str:
        """What it prints; its exit status must be `code`."""
        from nimc.cli.main import main

        self._monkeypatch.setattr("sys.argv", ["nimc", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        self.out, self.err = self._capsys.readouterr()
        assert end.value.code == code, self.err
        return self.out

    def json(self, *words: object, code: int = 0) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self(*words, "--json", code=code))
        return document


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)
