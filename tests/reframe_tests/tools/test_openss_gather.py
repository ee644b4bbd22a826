"""The order of `ossutil` and `openss`, with two scripts of a few lines in their place."""

import sys

import pytest

from reframe_tests.tools.base import ToolError
from reframe_tests.tools.openspeedshop import gather, view_path

OSSUTIL = "#!/bin/sh\n[ ! -e ../fails ] || { echo 'Unable to open'; exit 0; }\n: > X.0.openss\n"
#: Writes what commands print to their files. Loses those of the first call, as openss may.
OPENSS = f"""#!{sys.executable}
import pathlib, sys
commands = sys.stdin.read().splitlines()
assert sys.argv[1:] == ["-batch"] and commands[0] == "exprestore -f copy.openss"
calls = pathlib.Path("calls")
number = int(calls.read_text()) if calls.exists() else 0
calls.write_text(str(number + 1))
print("The restored experiment identifier is: -x 1")
for command in commands[1:-1]:
    asked, path = command.split(" > ")
    text = pathlib.Path("..", asked.split()[0]).read_text()
    if "expview" in asked and number == 1:
        text = "No valid experiment was specified."
    if "expview" in asked and "-p 11" in asked:
        text = text.replace("app", "app of 11")
    pathlib.Path(path).write_text(text)
"""
STATUS = """Experiment definition
  Currently Specified Components:
    -h node-1 -p 11 -t 140 -r 1 (app)
    -h node-1 -p 12 -t 141 -r 0 (app)
    -h node-1 -p 13 -t 142
"""
TABLE = "Exclusive CPU time in seconds.,% of CPU Time,LinkedObject\n0.5,100.0,app\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in (("ossutil", OSSUTIL), ("openss", OPENSS)):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    (tmp_path / "expstatus").write_text(STATUS)
    (tmp_path / "expview").write_text(TABLE)
    (tmp_path / "run" / "raw" / "openss-rawdata-node-1-11").mkdir(parents=True)
    return tmp_path / "run"


def test_each_rank_has_the_view_of_its_process(folder):
    gather(folder, 2, ["linkedobjects"])
    names = [view_path(folder, rank, "linkedobjects").read_text().split(",")[-1] for rank in (0, 1)]
    assert [name.strip() for name in names] == ["app", "app of 11"]


def test_a_command_that_openss_lost_is_asked_again(folder):
    gather(folder, 2, ["linkedobjects"])
    assert (folder / "calls").read_text() == "3"  # status, views without an experiment, views


def test_the_database_is_not_what_openss_reads(folder):
    gather(folder, 2, ["linkedobjects"])
    assert (folder / "X.0.openss").is_file()
    assert not (folder / "copy.openss").exists()


def test_an_empty_database_is_an_error(folder):
    message = "No performance measurements were made for the experiment."
    (folder.parent / "expview").write_text(message)
    with pytest.raises(ToolError, match=rf"rank-0\.linkedobjects\.csv: {message}"):
        gather(folder, 2, ["linkedobjects"])


def test_a_database_that_is_not_made_is_an_error(folder):
    (folder.parent / "fails").touch()
    with pytest.raises(ToolError, match=r"X\.0\.openss: not made by ossutil: Unable to open"):
        gather(folder, 2, ["linkedobjects"])


def test_a_rank_without_a_process_is_named(folder):
    with pytest.raises(ToolError, match="no data of rank 2; found 2 of 3"):
        gather(folder, 3, ["linkedobjects"])


def test_a_program_without_mpi_is_one_rank(folder):
    (folder.parent / "expstatus").write_text(STATUS.replace(" -r 1", "").replace(" -r 0", ""))
    gather(folder, 1, ["linkedobjects"])
    assert "-p" not in (folder / "commands.txt").read_text()


def test_programs_that_are_not_there_are_named(folder, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError, match="ossutil does not run"):
        gather(folder, 2, ["linkedobjects"])
