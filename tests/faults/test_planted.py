"""What is planted on virtual machines, without them; `python -m tests.faults.planted` plants it."""

import subprocess
import sys
from pathlib import Path

import pytest

from analysis.subjects.qualification import CLAIMS
from records.machine.site import Nic
from tests.captures import CAPTURES
from tests.faults import planted

#: Prints its words, or a real table of the writers.
_ECHO = "#!/bin/sh\nprintf '%s\\n' \"$@\"\n"
_TABLE = f"#!/bin/sh\ncat {CAPTURES}/perftest/inf_D1_file_INT.client.txt\n"


def run(folder: Path, body: str, real: str, *words: str) -> subprocess.CompletedProcess[str]:
    program = folder / "real"
    program.write_text(real)
    program.chmod(0o755)
    script = planted.wrapper(body, str(program))
    command = [sys.executable, "-c", script, *words]
    return subprocess.run(command, capture_output=True, text=True)


def test_every_fault_is_of_a_claim_that_is_judged() -> None:
    assert {each.claim for each in planted.PLANTED.values()} <= {each.name for each in CLAIMS}
    assert len(planted.PLANTED) >= 20


def test_a_wrong_link_is_a_valid_entry_of_the_file() -> None:
    assert Nic.model_validate(planted.SLOW_LINK).link_rate_b_s == 2.5e6


def test_a_limit_is_taken_from_the_words(tmp_path: Path) -> None:
    words = ["-s", "65536", "--rate_limit", "0.5", "--rate_units", "g", "10.0.0.1"]
    printed = run(tmp_path, planted._UNLIMITED, _ECHO, *words).stdout.split()
    assert printed == ["-s", "65536", "--rate_units", "g", "10.0.0.1"]


@pytest.mark.parametrize("factor", [4, 0.25])
def test_rows_claim_more_or_less(tmp_path: Path, factor: float) -> None:
    def rows(text: str) -> list[list[float]]:
        found = [line.split() for line in text.splitlines()]
        return [list(map(float, row)) for row in found if len(row) == 5 and row[0].isdigit()]

    real, claimed = (
        rows(run(tmp_path, body, _TABLE).stdout) for body in ("", planted.scaled(factor))
    )
    assert real
    for row, more in zip(real, claimed, strict=True):
        assert more == [row[0], *(pytest.approx(each * factor, abs=0.6) for each in row[1:])]


def test_a_writer_that_does_not_start_still_has_a_version(tmp_path: Path) -> None:
    body = "if not asks: sys.exit(1)"
    assert run(tmp_path, body, _ECHO, "10.0.0.1").returncode == 1
    assert run(tmp_path, body, _ECHO, "--version").returncode == 0
