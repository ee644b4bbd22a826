"""A few seeded faults, so that the harness keeps working; `python -m tests.faults` makes more."""

import os
import subprocess
import sys

import pytest

from testbed import needs
from testbed.spec import CHECKOUT

pytestmark = pytest.mark.long


def make(*words: str, timeout_s: float) -> None:
    if os.geteuid() != 0:
        pytest.skip("mount namespaces need root")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        pytest.skip("this host lets nobody make namespaces")
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", *words],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| all | 0 " not in done.stdout


def test_three_faults_on_this_host() -> None:
    chosen = "kill nimc,kill conductor,kill writer_origin"
    make("--seed", "16", "--count", "3", "--only", chosen, timeout_s=1500)


@pytest.mark.minicluster
def test_a_fault_on_a_minicluster() -> None:
    if lacking := needs.missing("veth"):
        pytest.skip(f"missing for --fabric veth: {', '.join(each.thing for each in lacking)}")
    make("--place", "veth", "--seed", "16", "--count", "1", "--only", "kill agent", timeout_s=900)


@pytest.mark.minicluster
def test_a_clock_that_is_set_in_a_virtual_machine() -> None:
    if lacking := needs.missing("rxe"):
        pytest.skip(f"missing for --fabric rxe: {', '.join(each.thing for each in lacking)}")
    words = ("--place", "rxe", "--seed", "18", "--count", "1", "--only", "clock set back")
    make(*words, timeout_s=1500)
