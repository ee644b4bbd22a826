"""Short calls of other programs: how they end, and the reason if they fail."""

import shutil
import sys
from pathlib import Path

import pytest

from records.errors import MachineError
from records.programs import ask, find_program, first_line, last_line


def test_the_reason_of_a_failed_program_is_its_last_line() -> None:
    answer = ask(["/bin/sh", "-c", "echo out; echo no >&2; echo file >&2; exit 3"])
    assert (answer.name, answer.status) == ("sh", 3)
    assert (answer.stdout, answer.stderr) == ("out\n", "no\nfile\n")
    assert (answer.ok, answer.is_missing, answer.text) == (False, False, "out\nno\nfile\n")
    assert (answer.first_line, answer.last_line, answer.reason) == (
        "no",
        "file",
        "exit status 3: file",
    )
    assert answer.require_end() is answer
    with pytest.raises(MachineError, match=r"^sh: exit status 3: file$"):
        answer.required_output()
    done = ask(["echo", "x"])
    assert (done.ok, done.first_line, done.required_output()) == (True, "x", "x\n")


@pytest.mark.parametrize(
    ("command", "missing", "reason"),
    [
        (["/nowhere/tool"], True, "not found on this host"),
        (["/etc"], False, "Permission denied"),
        (["sleep", "60"], False, "has not answered for 0.05 s"),
    ],
)
def test_a_program_that_does_not_start_or_end_has_no_exit_status(
    command: list[str], missing: bool, reason: str
) -> None:
    answer = ask(command, timeout_s=0.05)
    assert (answer.status, answer.ok, answer.is_missing, answer.reason) == (
        None,
        False,
        missing,
        reason,
    )
    with pytest.raises(MachineError, match=f"^{Path(command[0]).name}: {reason}$"):
        answer.require_end()


def test_input_environment_and_folder_are_passed_and_invalid_utf_8_is_replaced(
    tmp_path: Path,
) -> None:
    assert ask(["cat"]).stdout == ""
    assert ask(["cat"], stdin="text").stdout == "text"
    (tmp_path / "file").write_text("of a file")
    with (tmp_path / "file").open() as file:
        assert ask(["cat"], stdin=file).stdout == "of a file"
    assert ask(["env"], {"A": "1"}).stdout == "A=1\n"
    assert ask(["pwd"], folder=tmp_path).stdout == f"{tmp_path}\n"
    assert ask(["printf", r"\377"]).stdout == "\ufffd"
    assert ask(["printf", r"\377"], errors="surrogateescape").stdout == "\udcff"


def test_programs_start_in_the_root_folder_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tool").write_text("#!/bin/sh\npwd\n")
    (tmp_path / "tool").chmod(0o755)
    assert ask(["pwd"]).stdout == "/\n"
    assert ask(["./tool"]).stdout == "/\n"  # the path is still relative to the current folder


def test_first_and_last_line_are_stripped_of_colours_and_blanks() -> None:
    text = "\n \x1b[31;1mfirst\x1b[0m \n\nlast\n\n"
    assert (first_line(text), last_line(text)) == ("first", "last")
    assert first_line(" \n") == last_line("") == "no output"


def test_a_program_next_to_this_python_is_found_before_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sh").touch(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert find_program("sh") == str(tmp_path / "sh")
    assert find_program("cat") == shutil.which("cat")
    assert find_program("no-such-program") is None
