"""Commands of `nimc`, and campaigns that run against a stand-in for ReFrame."""

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
    """A session of the stand-in, in this process."""
    with log.open("a") as output, redirect_stdout(output), redirect_stderr(output):
        status = fake_reframe.main(argv[1:])
    tick()
    return status


@cache
def _programs() -> TemporaryDirectory[str]:
    """Make the programs that campaigns need of a host; none of them is started."""
    folder = TemporaryDirectory()
    for name in ("cc", "lmp", "mpiexec", "mpi_put", "XSBench"):
        program = Path(folder.name) / name
        program.write_text("#!/bin/sh\necho sh\n")
        program.chmod(0o755)
    return folder


@dataclass
class Nimc:
    """`nimc run` in a folder of its own."""

    folder: Path

    def write(self, campaign: str) -> None:
        """Ask for another campaign."""
        (self.folder / "small.yaml").write_text(campaign)

    def write_two_cases(self) -> None:
        """Ask for a campaign of STREAM and LAMMPS."""
        self.write(CAMPAIGN.replace("arms:", f"{SECOND_WORKLOAD}arms:"))

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def environment(self, fake: str = "") -> dict[str, str]:
        """Return variables that select ReFrame's stand-in; `fake` has its faults."""
        reframe = str(self.folder / "reframe")
        path = f"{os.environ['PATH']}:{_programs().name}"
        return {"PYTHONPATH": str(ROOT), "NIMC_REFRAME": reframe, "FAKE": fake, "PATH": path}

    def words(self, *options: str) -> list[str]:
        """`run` of the small campaign."""
        return ["run", "small.yaml", "--machine", "localhost", "--results", "results", *options]

    def start(self, *options: str, fake: str = "", **more: Any) -> subprocess.Popen[str]:
        """Start it as a process of its own, `command`."""
        words, environment = self.words(*options), self.environment(fake)
        return nimc_without_figures.start(words, self.folder, environment, **more)

    def run(self, *options: str, fake: str = "", figures: bool = False) -> tuple[int, str, str]:
        """Run it in this process: exit status, standard output, standard error.

        Sessions of ReFrame's stand-in also run in this process. Only with `figures` is the report
        the real page.
        """
        return self.typed(self.words(*options), self.folder, fake=fake, figures=figures)

    def typed(
        self, words: Iterable[str], folder: Path, *, fake: str = "", figures: bool = False
    ) -> tuple[int, str, str]:
        """As `run`, for any command in any folder."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("nimc.run.runner.run_session", _session)
            if not figures:
                patch.setattr("analysis.report.page.render", nimc_without_figures.render)
            return call(words, folder, self.environment(fake))

    def ended(
        self, *options: str, code: int = 0, fake: str = "", figures: bool = False
    ) -> tuple[str, str]:
        """Run it to its end, with this exit status; return standard output and standard error."""
        status, out, err = self.run(*options, fake=fake, figures=figures)
        assert status == code, err
        return out, err

    def the_run(self) -> Path:
        """The only run."""
        (run,) = self.runs()
        return run

    def runs(self) -> list[Path]:
        """Folders of all runs, without the link `latest`."""
        paths = self.results.iterdir()
        return [path for path in paths if path.is_dir() and not path.is_symlink()]

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
        """Complete pairs of the treatment with the fewest; a pair has its run and that of `off`."""
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
    """Keep answers on the files of this checkout, since each takes a process of half a second.

    The environment is part of the key, without the variables of ReFrame's stand-in. Answers on
    third-party checks are kept as well.
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
        file = Path(command[-4])  # before its class, ReFrame's configuration and system
        if not file.is_file():  # a folder of checks is the only word
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
    """The small campaign and the stand-in for ReFrame in a folder."""
    fake = folder / "reframe"
    script = ROOT / "tests/nimc/fake_reframe.py"
    fake.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    fake.chmod(0o755)
    (folder / "small.yaml").write_text(CAMPAIGN)
    return Nimc(folder)


class Command:
    """`nimc` as a user calls it; `out` and `err` are what it printed last."""

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
    """Let `nimc plan` plan all cases, whatever this host lacks."""
    from nimc.campaign.plan import Request
    from nimc.readiness.diagnosis import Feasibility
    from nimc.readiness.matrix import Matrix

    monkeypatch.setattr(Request, "feasibility", lambda _: Feasibility(Matrix(), [], ""))


def commands() -> Iterator[tuple[str, click.Command]]:
    """All commands, those of groups too, with their names."""
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
    """Return the length of the longest line, without lines of one word or of a report's path."""
    lines = [line for line in text.splitlines() if " " in line.removesuffix(" \\").strip()]
    return max((len(line) for line in lines if not line.startswith("report: ")), default=0)
