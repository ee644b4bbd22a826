"""An argument RUN that leads nowhere, or to what would be read without end."""

import os
from pathlib import Path

import pytest

from tests.commands import Command
from tests.fuzz.target import limited


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("loop", "loop: Too many levels of symbolic links"),
        ("none", "none: does not exist"),
        ("empty", "empty: not a run folder (no run.json)"),
        ("page.html", "page.html: not a run folder (no run.json)"),
        ("piped", "piped/samples/x.jsonl: neither a file nor a folder"),
        ("headless", "headless/run.json: neither a file nor a folder"),
        ("a\udcffb", "a\\udcffb: does not exist"),
    ],
)
def test_one_line_and_code_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command, run: str, expected: str
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "empty").mkdir()
    (tmp_path / "page.html").touch()
    (tmp_path / "piped/samples").mkdir(parents=True)
    (tmp_path / "piped/run.json").write_text("{}")
    os.mkfifo(tmp_path / "piped/samples/x.jsonl")
    (tmp_path / "headless").mkdir()
    os.mkfifo(tmp_path / "headless/run.json")
    monkeypatch.chdir(tmp_path)
    with limited(60.0, 60.0, TimeoutError("reads without end")):
        command("report", run, run, code=2)
    assert command.err.replace(f"{tmp_path}/", "") == f"nimc: {expected}\n"
