"""Helpers that call commands of `nimc`, and that run campaigns with a stand-in for ReFrame."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import pytest

from nimc.cli.main import COMMANDS, cli
from tests.in_process import call
from tests.nimc import fake_reframe, nimc_without_figures
from tests.nimc.documented import assert_documented

ROOT = Path(__file__).resolve().parents[1]
CAMPAIGN = """\
name: small
workloads:
  - {check: stream, set: {iterations: 10}, expect: 1s}
arms: [off, on, aa]
pairs: {floor: 6, cap: 6}
"""
#: An entry that `write_two_cases` appends to the list of workloads.
SECOND_WORKLOAD = "  - {check: lammps, expect: 1s}\n"
ARMS = {"off", "on", "aa"}


def _session(argv: Sequence[str], _: Path, log: Path, __: object, tick: Callable[[], None]) -> int:
    """Run one session of ReFrame's stand-in in this process; return its exit status."""
    with log.open("a") as output, redirect_stdout(output), redirect_stderr(output):
        status = fake_reframe.main(argv[1:])
    tick()
    return status


@cache
def _programs() -> TemporaryDirectory[str]:
    """Make a folder with dummies of the programs that a host must have for the campaigns.

    No test starts these programs.
    """
    folder = TemporaryDirectory()
    for name in ("cc", "lmp", "mpiexec", "mpi_put", "XSBench"):
        program = Path(folder.name) / name
        program.write_text("#!/bin/sh\necho sh\n")
        program.chmod(0o755)
    return folder


@dataclass
class Nimc:
    """Runs `nimc run` in a folder that only one test uses."""

    folder: Path

    def write(self, campaign: str) -> None:
        """Replace the text of the campaign's file."""
        (self.folder / "small.yaml").write_text(campaign)

    def write_two_cases(self) -> None:
        """Replace the campaign by one of STREAM and LAMMPS."""
        self.write(CAMPAIGN.replace("arms:", f"{SECOND_WORKLOAD}arms:"))

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def environment(self, faults: str = "") -> dict[str, str]:
        """Return the environment that selects ReFrame's stand-in.

        `faults` names the faults that the stand-in shows.
        """
        reframe = str(self.folder / "reframe")
        path = f"{os.environ['PATH']}:{_programs().name}"
        return {"PYTHONPATH": str(ROOT), "NIMC_REFRAME": reframe, "FAKE": faults, "PATH": path}

    def words(self, *options: str) -> list[str]:
        """Return the words of `nimc run` for the small campaign."""
        return ["run", "small.yaml", "--machine", "localhost", "--results", "results", *options]

    def start(self, *options: str, faults: str = "", **more: Any) -> subprocess.Popen[str]:
        """Start `nimc run` of the small campaign as a separate process."""
        words, environment = self.words(*options), self.environment(faults)
        return nimc_without_figures.start(words, self.folder, environment, **more)

    def run(self, *options: str, faults: str = "", figures: bool = False) -> tuple[int, str, str]:
        """Run the small campaign in this process.

        Returns exit status, standard output and standard error. Sessions of ReFrame's stand-in also
        run in this process. Only if `figures` is true, the report is the real page, and has the
        data files of its sections.
        """
        return self.typed(self.words(*options), self.folder, faults=faults, figures=figures)

    def typed(
        self, words: Iterable[str], folder: Path, *, faults: str = "", figures: bool = False
    ) -> tuple[int, str, str]:
        """Run any command of `nimc` in any folder; the rest is as in `run`."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("nimc.run.runner.run_session", _session)
            if not figures:
                patch.setattr("analysis.report.page.render", nimc_without_figures.render)
                patch.setattr("analysis.report.page.data_files", nimc_without_figures.data_files)
            return call(words, folder, self.environment(faults))

    def ended(
        self, *options: str, code: int = 0, faults: str = "", figures: bool = False
    ) -> tuple[str, str]:
        """Run the small campaign, and check that its exit status is `code`.

        Returns standard output and standard error.
        """
        status, out, err = self.run(*options, faults=faults, figures=figures)
        assert status == code, err
        return out, err

    def the_run(self) -> Path:
        """Return the folder of the only run."""
        (run,) = self.runs()
        return run

    def runs(self) -> list[Path]:
        """Return the folders of all runs, without the link `latest`."""
        paths = self.results.iterdir()
        return [path for path in paths if path.is_dir() and not path.is_symlink()]

    def has_samples(self) -> bool:
        """Return whether any run has begun to measure."""
        return any(self.results.glob("*/samples/*"))

    def header(self) -> dict[str, Any]:
        header: dict[str, Any] = json.loads((self.the_run() / "run.json").read_text())
        return header

    def samples(self, case: str) -> list[dict[str, Any]]:
        """Return the samples of a case, without a last line that is incomplete."""
        file = self.the_run() / "samples" / f"{case}.jsonl"
        text = file.read_text() if file.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def complete_pairs(self, case: str) -> int:
        """Return the number of complete pairs of the treatment that has the fewest.

        A pair is complete if its run with the treatment and its `off` run were accepted.
        """
        arms: dict[tuple[int, int], set[str]] = {}
        for sample in self.samples(case):
            if sample["outcome"] == "accepted" and not sample["warmup"]:
                arms.setdefault((sample["block"], sample["pair"]), set()).add(sample["arm"])
        paired_arms = ARMS - {"off"}
        return min(
            sum({arm, "off"} <= accepted for accepted in arms.values()) for arm in paired_arms
        )


@pytest.fixture(scope="session", autouse=True)
def _configurations_and_checks_are_read_once() -> Iterator[None]:
    """Ask ReFrame only once about each configuration and check of this checkout.

    Each answer takes a process of half a second. Answers are stored by file and environment,
    without the variables of ReFrame's stand-in. Answers on third-party checks are stored as well.
    """
    from nimc.readiness import checks, reframe_config

    ask_reframe, ask_check, answers = reframe_config.ask, checks.ask, dict[Any, Any]()

    def ask(command: list[str], environment: dict[str, str]) -> Any:
        file = Path(command[-1])
        if file.parent != ROOT / "configs":
            return ask_reframe(command, environment)
        irrelevant = dict.fromkeys(("PYTEST_CURRENT_TEST", "NIMC_REFRAME", "FAKE"))
        key = (file, file.read_bytes(), *sorted((environment | irrelevant).items()))
        if key not in answers:
            answers[key] = ask_reframe(command, environment)
        return answers[key]

    def describe(command: list[str], environment: dict[str, str], **limits: Any) -> Any:
        # The last words are the check's file, its class, ReFrame's configuration and its system.
        file = Path(command[-4])
        if not file.is_file():  # then the command has only one word, a folder of checks
            return ask_check(command, environment, **limits)
        key = (file.read_bytes(), *command)
        if key not in answers:
            answer = ask_check(command, environment, **limits)
            if not answer.ok or '"fault"' in answer.stdout:
                return answer
            answers[key] = answer
        return answers[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reframe_config, "ask", ask)
        patch.setattr(checks, "ask", describe)
        yield


@pytest.fixture
def nimc(tmp_path: Path) -> Nimc:
    return nimc_in(tmp_path)


def nimc_in(folder: Path) -> Nimc:
    """Write the small campaign and the stand-in for ReFrame to a folder."""
    stand_in = folder / "reframe"
    script = ROOT / "tests/nimc/fake_reframe.py"
    stand_in.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    stand_in.chmod(0o755)
    (folder / "small.yaml").write_text(CAMPAIGN)
    return Nimc(folder)


class Command:
    """Calls `nimc` as a user does; `out` and `err` are what the last call printed."""

    out = err = ""

    def __call__(self, *words: object, code: int = 0) -> str:
        """Call `nimc` and return what it prints; its exit status must be `code`."""
        status, self.out, self.err = call(words)
        assert status == code, self.err
        return self.out

    def refused(self, *words: object, code: int = 2) -> str:
        """Call `nimc` and return the one line in which it refuses."""
        self(*words, code=code)
        (line,) = self.err.splitlines()
        assert line.startswith("nimc: "), line
        return line.removeprefix("nimc: ")

    def json(self, *words: object, code: int = 0) -> dict[str, Any]:
        """Call `nimc --json` and return its document, whose keys docs/documents.json lists."""
        document: dict[str, Any] = json.loads(self(*words, "--json", code=code))
        assert_documented(" ".join(map(str, words)), document)
        return document


@pytest.fixture
def command() -> Command:
    return Command()


@pytest.fixture
def every_case_feasible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `nimc plan` plan all cases, even those that cannot run on this host."""
    from nimc.campaign.plan import Request
    from nimc.readiness.diagnosis import Feasibility
    from nimc.readiness.matrix import Matrix

    monkeypatch.setattr(Request, "feasibility", lambda _: Feasibility(Matrix(), [], ""))


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield the name of each command, and the command; commands of groups are included."""
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        if isinstance(command, click.Group):
            yield from (
                (f"{name} {sub}", subcommand) for sub, subcommand in command.commands.items()
            )
        else:
            yield name, command


def with_option(option: str) -> set[str]:
    """Return the names of the commands that have an option."""
    return {
        name
        for name, command in commands()
        if any(option in parameter.opts for parameter in command.params)
    }


def widest(text: str) -> int:
    """Return the length of the longest line.

    Lines of one word and lines with a report's path are not considered.
    """
    lines = [line for line in text.splitlines() if " " in line.removesuffix(" \\").strip()]
    return max((len(line) for line in lines if not line.startswith("report: ")), default=0)
