"""Printed commands do what the text around them says.

They are typed exactly as printed, in the folder where they were printed.
"""

import ast
import html
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from nimc.cli.main import COMMANDS, cli
from records.calls import Call, RunCommands
from records.checkout import ROOT
from records.commands import Shell, setup_command
from records.run_folder import run_folders
from tests.commands import Nimc, nimc_in

#: Folders with the code that users run.
PRODUCT = ("analysis", "conductor", "nimc", "records", "reframe_tests", "testbed")
#: Functions that make commands, by their names in the sources.
COMMAND_MAKERS = ("command", "shell.words", "self._line")
#: Modules with texts for readers on other hosts: metadata of crates, titles of schemas.
FOR_OTHERS = {"nimc/crate/metadata.py", "nimc/crate/schemas.py"}
INSTALLED = Path(sys.executable).with_name("nimc")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nimc:
    """Returns a user whose campaign is not in `home`, and whose shell does not find `nimc`."""
    path = os.environ["PATH"].split(os.pathsep)
    without = [folder for folder in path if not os.path.exists(os.path.join(folder, "nimc"))]
    monkeypatch.setenv("PATH", os.pathsep.join(without))
    for name in ("own files", "home"):
        (tmp_path / name).mkdir()
    return nimc_in(tmp_path / "own files")


def in_backticks(text: str) -> str:
    """Return the only command in backticks in a text."""
    (line,) = re.findall(r"`([^`]*nimc [^`]+)`", text)
    return str(line)


def typed(nimc: Nimc, line: str, folder: Path, **more: object) -> tuple[int, str, str]:
    """Run a printed command line in a folder; return exit status, output and error output.

    The user's shell must find the program.
    """
    program, *words = shlex.split(line)
    finds = ["sh", "-c", 'command -v "$1"', "sh", program]
    path = subprocess.run(finds, cwd=folder, capture_output=True, text=True, check=True).stdout
    assert (folder / path.strip()).resolve() == INSTALLED.resolve()
    return nimc.typed(words, folder, **more)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_plans_command_starts_a_run_and_the_runs_commands_continue_it(elsewhere: Nimc) -> None:
    """The run's command in the terminal is typed in the same folder, that of the page elsewhere."""
    home = elsewhere.folder.with_name("home")
    results = home / "my results"
    options = ["--machine", "localhost", "--results", "my results"]
    status, planned, err = elsewhere.typed(["plan", "../own files/small.yaml", *options], home)
    assert status == 0, err
    line = planned.rpartition("Next:")[2].replace("\\\n", "")
    status, out, err = typed(elsewhere, line, home, faults="faint", figures=True)
    assert status == 0, err
    (run,) = run_folders(results)
    before = run.joinpath("samples/stream.jsonl").read_text().count("\n")
    page = html.unescape((run / "report" / "report.html").read_text())
    status, out, err = typed(elsewhere, in_backticks(out), home, faults="faint", figures=True)
    assert status == 0, err
    assert f"resumes {run}" in err
    assert run.joinpath("samples/stream.jsonl").read_text().count("\n") > before
    (line,) = re.findall(r"Next: .*?<code>(.*?)</code>", page)
    status, _, err = typed(elsewhere, line, Path("/"), faults="faint")
    assert (status, f"resumes {run}" in err) == (0, True), err
    assert run_folders(results) == [run]


def test_commands_after_a_verdict_of_memory_contention_work(elsewhere: Nimc) -> None:
    """They show remedies, plan another campaign, and start a new run."""
    elsewhere.ended()
    commands = RunCommands(elsewhere.the_run(), "small", "localhost", Shell(elsewhere.folder))
    status, out, err = typed(elsewhere, commands.advise(), elsewhere.folder)
    assert (status, err) == (0, "")
    assert "localhost" in out
    status, out, err = typed(elsewhere, commands.throttling("plan"), elsewhere.folder)
    assert (status in (0, 1), err) == (True, "")
    assert out.startswith("throttling on localhost")
    line = commands.resume("--fresh")
    status, _, err = typed(elsewhere, line, elsewhere.folder)
    assert (status, len(elsewhere.runs())) == (0, 2), err


def test_the_command_in_the_message_of_an_unexpected_failure_shows_the_traceback(
    elsewhere: Nimc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nimc.cli.runs.run_folders", lambda _: 1 / 0)
    results = ["--results", str(elsewhere.folder)]
    status, _, err = elsewhere.typed(["runs", *results], elsewhere.folder)
    assert status == 3
    line = err.strip().rpartition("; to see where: ")[2]
    status, _, err = typed(elsewhere, line, elsewhere.folder)
    assert (status, "ZeroDivisionError" in err, "Traceback" in err) == (3, True, True)


def test_the_command_that_resumes_a_run_of_one_case_names_the_case(elsewhere: Nimc) -> None:
    elsewhere.write_two_cases()
    elsewhere.run("--case", "lammps", faults="torn")
    (run,) = elsewhere.runs()
    line = RunCommands(run, "small", "localhost", Shell(elsewhere.folder)).resume()
    assert line.endswith("run small.yaml --machine localhost --case lammps")
    status, _, err = typed(elsewhere, line, elsewhere.folder)
    assert (status, f"resumes {run}" in err) == (0, True), err


def test_a_command_begins_with_the_name_of_the_program_or_a_path_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is enough if the shell finds the program by it.

    Otherwise a relative or an absolute path is printed. PATH may have another program of this name.
    """
    monkeypatch.setattr("sys.executable", str(tmp_path / "venv/bin/python"))
    program = tmp_path / "venv/bin/nimc"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    other = tmp_path / "other" / "nimc"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    first = {"": "venv/bin/nimc", "venv/bin": "nimc", "other": "venv/bin/nimc"}
    for folder, word in first.items():
        monkeypatch.setenv("PATH", str(tmp_path / folder) if folder else "/nonexistent")
        assert Shell(tmp_path).words("runs") == [word, "runs"]
    assert Shell(tmp_path / "other").words() == [str(program)]
    assert Shell(program.parent).words() == ["./nimc"]
    assert Shell().line("report", Path("/a b")) == f"{program} report '/a b'"


def test_the_printed_command_to_install_uses_the_script_of_this_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, line in (
        (ROOT, "sh scripts/setup.sh spack"),
        (tmp_path, f"sh {ROOT}/scripts/setup.sh spack"),
    ):
        monkeypatch.chdir(folder)
        assert setup_command("spack") == line


def test_a_results_folder_is_named_unless_it_is_the_default(tmp_path: Path) -> None:
    here = Shell(tmp_path)
    assert here.results_option(tmp_path / "results") == []
    assert Shell().results_option(tmp_path / "results") == ["--results", tmp_path / "results"]
    assert here.results_option(tmp_path / "mine") == ["--results", tmp_path / "mine"]
    assert here.line("runs", *here.results_option(tmp_path / "mine")).endswith(
        "nimc runs --results mine"
    )


def test_commands_on_a_page_for_other_hosts_have_no_paths_of_this_host(tmp_path: Path) -> None:
    Call(("run", tmp_path / "small.yaml"), ("--nodelist", "a")).save(tmp_path)
    commands = RunCommands(tmp_path, "small", "m")
    assert commands.resume("--fresh") == "nimc run campaign.yaml --machine m --fresh"
    shipped = RunCommands(tmp_path, "quick", "m")
    assert shipped.resume() == "nimc run quick --machine m"
    assert commands.advise() == f"nimc advise {tmp_path.name} --traffic-share 30%"


def _sources() -> Iterator[tuple[str, ast.Module]]:
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def test_no_text_in_the_sources_contains_a_command() -> None:
    """All printed commands are made by one function.

    Only comments, docstrings and texts for other hosts contain commands.
    """
    written = re.compile(rf"\bnimc ({'|'.join(COMMANDS)})\b")
    for name, tree in _sources():
        documented = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        texts = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documented
        ]
        commands = [text for text in texts if written.search(text)]
        assert not commands or name in FOR_OTHERS, (name, commands)
    for page in ROOT.glob("analysis/**/*.html"):
        assert not written.search(page.read_text()), page


def test_every_command_that_the_sources_make_exists_with_its_options() -> None:
    """Only words that are literal in the sources are checked."""
    count = 0
    for name, tree in _sources():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) not in COMMAND_MAKERS:
                continue
            words = [str(getattr(word, "value", "x")) for word in node.args]
            if words and words[0] in COMMANDS:
                count += 1
                _require(name, words)
    assert count > 8


def _require(name: str, words: list[str]) -> None:
    leaf = cli.get_command(click.Context(cli), words.pop(0))
    if isinstance(leaf, click.Group):
        leaf = leaf.commands[words.pop(0)]
    assert leaf is not None
    options = {word for param in leaf.params for word in param.opts}
    assert {word for word in words if word.startswith("-")} <= options, (name, words)
