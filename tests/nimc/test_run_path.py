"""An argument RUN that leads nowhere, or to what would be read without end."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nimc.conftest import Command


@pytest.fixture(autouse=True)
def _end() -> Iterator[None]:
    """Ends what reads a pipe for ever."""

    def late(*_: object) -> None:
        raise TimeoutError("reads without end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("subcommand", ["report", "compare"])
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
def test_one_line_and_code_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command,
    subcommand: str, run: str, expected: str,
) -> None:  # fmt: skip
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "piped/samples").mkdir(parents=True)
    (tmp_path / "piped/run.json").write_text("{}")
    os.mkfifo(tmp_path / "piped/samples/x.jsonl")
    (tmp_path / "headless").mkdir()
    os.mkfifo(tmp_path / "headless/run.json")
    monkeypatch.chdir(tmp_path)
    command(subcommand, run, run, code=2)
    assert command.err == f"nimc: {expected}\n"
