"""Every JSON document that a command prints has the schema and keys of docs/documents.json.

`Command.json`, with which tests run commands, asserts this for each command line.
"""

import pytest

from nimc.cli import spack
from reframe_tests.spack.settings import SpackSettings
from tests.analysis.history.made import made_run
from tests.commands import Command, widest, with_option
from tests.nimc.documented import DOCUMENTED, assert_documented
from tests.nimc.nights.made import SUMMARY
from tests.nimc.nimc_without_figures import render


def test_every_command_with_the_option_json_is_documented():
    rows = {name.partition(" --")[0].partition(" without")[0] for name in DOCUMENTED}
    assert with_option("--json") == rows


def assert_printed(command: Command, *words: object) -> None:
    """Assert that a command prints a document with the documented keys, and text of 80 columns."""
    command.json(*words)
    assert widest(command(*words)) <= 80, words


@pytest.mark.usefixtures("every_case_feasible")
@pytest.mark.parametrize(
    "words",
    [
        "writers --ranks 64",
        "writers --paper",
        "simulate --ranks 16 --worst 2",
        "plan quick --machine localhost",
        "plan scaling --machine example_slurm",
        "remedy list",
        "model predict --platform henri",
    ],
)
def test_documents_of_commands_that_need_no_file(command, words):
    assert_printed(command, *words.split())


def test_documents_of_commands_whose_text_may_be_wide(command):
    for words in ("doctor --machine localhost", "remedy show ddio_ways"):
        command.json(*words.split())


@pytest.mark.slow
def test_documents_about_runs(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # so that printed paths are short
    monkeypatch.setattr("analysis.report.page.render", render)
    for day, name in enumerate(("monday", "tuesday")):
        made_run(tmp_path / "results" / name, day=day)
    monday, tuesday = "results/monday", "results/tuesday"
    for words in (
        ["runs"],
        ["advise", monday, tuesday],
        ["compare", monday, tuesday],
        ["report", monday],
        ["nights", "alarms"],
        ["nights", "pages"],
        ["nights", "list"],
    ):
        assert_printed(command, *words)


def test_documents_of_commands_that_take_long(tmp_path, command, monkeypatch):
    assert_documented("nights run", {"schema": 2, **SUMMARY.as_dict()})
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path))
    command.json("spack", "info")
    settings = SpackSettings(
        spack="/s", version="1.0", pinned=True, packages=None, machine_file=None, mirror=None
    )
    monkeypatch.setattr(spack, "set_up", lambda *_, **__: settings)
    command.json("spack", "setup")
