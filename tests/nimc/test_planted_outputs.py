"""Links that another user planted where nimc writes lead it nowhere, whoever calls it."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.report.data import load_run
from analysis.report.page import write_data
from tests.analysis.history.made import made_run
from tests.analysis.synthetic import STREAM, header, samples, write_run

MALLORY = 65534


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder of mode 1777 that other users can reach."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o1777)
        yield folder


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file of the victim."""
    path = tmp_path / "authorized_keys"
    path.write_text("mine\n")
    return path


def as_mallory(*words: str | Path) -> None:
    command = ["setpriv", f"--reuid={MALLORY}", f"--regid={MALLORY}", "--clear-groups"]
    subprocess.run([*command, *map(str, words)], check=True)


def given_away(run: Path) -> None:
    for path in (run, *run.rglob("*")):
        os.lchown(path, MALLORY, MALLORY)


def a_run(folder: Path) -> Path:
    return write_run(folder, samples(STREAM, pairs=6), header(run=folder.name))


def test_a_report_of_somebody_elses_run(shared, mine, command):
    """Through `latest`, as in a shared results folder; with --output it works."""
    run = a_run(shared / "monday")
    given_away(run)
    as_mallory("mkdir", run / "report")
    names = ("report.html", "results.json", "samples.parquet")
    for name in names:
        as_mallory("ln", "-s", mine, run / "report" / name)
    as_mallory("ln", "-s", "monday", shared / "latest")
    line = command.refused("report", shared / "latest")
    assert line == f"{run}: belongs to nobody; allowed: --output with another folder"
    command("report", run, "--output", mine.parent / "out")
    assert set(names) <= set(os.listdir(mine.parent / "out"))
    assert mine.read_text() == "mine\n"
    assert all((run / "report" / name).is_symlink() for name in names)


def test_a_report_of_a_run_that_somebody_sent(tmp_path, mine, command):
    """Unpacked by the victim, all of it is the victim's, links too."""
    file, folder = a_run(tmp_path / "file"), a_run(tmp_path / "folder")
    (file / "report").mkdir()
    (file / "report" / "results.json").symlink_to(mine)
    (tmp_path / "home").mkdir()
    (folder / "report").symlink_to(tmp_path / "home")
    for run, link in ((file, file / "report/results.json"), (folder, folder / "report")):
        assert command.refused("report", run).startswith(f"{link}: is a symbolic link; allowed: ")
    assert mine.read_text() == "mine\n"
    assert list((tmp_path / "home").iterdir()) == []


def test_runs_do_not_go_where_somebodys_link_leads(shared, mine, command, monkeypatch):
    monkeypatch.chdir(shared)
    as_mallory("ln", "-s", mine.parent, "results")
    for words in (["run"], ["nights", "run"]):
        command(*words, "quick", "--machine", "localhost", code=2)
        *_, line = command.err.splitlines()  # a night says first that it begins
        assert line.endswith("results: is a symbolic link of another user; allowed: a real folder")
    assert os.listdir(mine.parent) == ["authorized_keys"]


def test_pages_in_a_shared_results_folder(shared, mine, command):
    """Its `pages` is somebody else's folder, a link, or has links in it."""
    run = made_run(shared / "monday")
    (run / "report").mkdir()
    write_data(run / "report", [load_run(run)])
    options = ("--results", shared)
    as_mallory("mkdir", shared / "pages")
    as_mallory("ln", "-s", mine, shared / "pages" / "index.json")
    as_mallory("ln", "-s", mine.parent, shared / "link")
    for words, refusal in (
        ([], f"--output: {shared}/pages belongs to nobody; "),
        (["--output", shared / "pages"], f"{shared}/pages/index.json: is a symbolic link; allow"),
        (["--output", shared / "link"], f"{shared}/link: is a symbolic link of another user; "),
    ):
        assert refusal in command.refused("nights", "pages", *options, *words)
    assert mine.read_text() == "mine\n"
    assert sorted(os.listdir(mine.parent)) == ["authorized_keys"]
