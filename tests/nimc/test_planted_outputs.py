"""nimc does not follow links that another user has planted where it writes files."""

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
    """Yields a folder of mode 1777 that other users can reach."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o1777)
        yield folder


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Returns a file of the victim, the user who calls nimc. It must not be changed."""
    path = tmp_path / "authorized_keys"
    path.write_text("mine\n")
    return path


def as_mallory(*words: str | Path) -> None:
    command = ["setpriv", f"--reuid={MALLORY}", f"--regid={MALLORY}", "--clear-groups"]
    subprocess.run([*command, *map(str, words)], check=True)


def give_to_mallory(run: Path) -> None:
    for path in (run, *run.rglob("*")):
        os.lchown(path, MALLORY, MALLORY)


def a_run(folder: Path) -> Path:
    return write_run(folder, samples(STREAM, pairs=6), header(run=folder.name))


def test_a_report_is_not_written_into_a_run_of_another_user(shared, mine, command):
    """The run is named by the link `latest`, as in a shared results folder.

    With --output, the report is written elsewhere.
    """
    run = a_run(shared / "monday")
    give_to_mallory(run)
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


def test_a_report_does_not_follow_links_in_a_run_that_another_user_sent(tmp_path, mine, command):
    """The victim has unpacked the run, so all files and links belong to the victim."""
    file, folder = a_run(tmp_path / "file"), a_run(tmp_path / "folder")
    (file / "report").mkdir()
    (file / "report" / "results.json").symlink_to(mine)
    (tmp_path / "home").mkdir()
    (folder / "report").symlink_to(tmp_path / "home")
    for run, link in ((file, file / "report/results.json"), (folder, folder / "report")):
        assert command.refused("report", run).startswith(f"{link}: is a symbolic link; allowed: ")
    assert mine.read_text() == "mine\n"
    assert list((tmp_path / "home").iterdir()) == []


def test_runs_are_not_written_through_a_link_of_another_user(shared, mine, command, monkeypatch):
    monkeypatch.chdir(shared)
    as_mallory("ln", "-s", mine.parent, "results")
    for words in (["run"], ["nights", "run"]):
        command(*words, "quick", "--machine", "localhost", code=2)
        *_, line = command.err.splitlines()  # a night first prints that it begins
        assert line.endswith("results: is a symbolic link of another user; allowed: your own")
    assert os.listdir(mine.parent) == ["authorized_keys"]


def test_pages_are_not_written_through_links_in_a_shared_results_folder(shared, mine, command):
    """The output is a folder of another user, a link, or a folder with links in it."""
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
