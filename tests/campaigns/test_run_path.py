"""An argument RUN that leads nowhere, or to what would be read without end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaigns.conftest import ROOT


@pytest.mark.parametrize("command", ["report", "compare"])
@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("loop", "loop: Too many levels of symbolic links"),
        ("none", "none: does not exist"),
        ("piped", "piped/samples/x.jsonl: neither a file nor a folder"),
        ("headless", "headless/run.json: neither a file nor a folder"),
        ("a\udcffb", "a\\udcffb: does not exist"),
    ],
)
def test_one_line_and_code_two(tmp_path: Path, command: str, run: str, expected: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "piped/samples").mkdir(parents=True)
    (tmp_path / "piped/run.json").write_text("{}")
    os.mkfifo(tmp_path / "piped/samples/x.jsonl")
    (tmp_path / "headless").mkdir()
    os.mkfifo(tmp_path / "headless/run.json")
    done = subprocess.run(
        [sys.executable, "-c", "from campaigns.cli import main; main()", command, run, run],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, f"nimc: {expected}\n")
