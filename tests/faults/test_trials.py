"""A few seeded faults, so that the harness keeps working; `python -m tests.faults` makes more."""

import os
import subprocess
import sys

import pytest

from testbed import needs
from testbed.spec import CHECKOUT, Fabric

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
@pytest.mark.parametrize(
    ("fabric", "seed", "fault"), [("veth", "16", "kill agent"), ("rxe", "18", "clock set back")]
)
def test_a_fault_on_a_minicluster(fabric: Fabric, seed: str, fault: str) -> None:
    if lacking := needs.missing(fabric):
        pytest.skip(f"missing for --fabric {fabric}: {', '.join(each.thing for each in lacking)}")
    words = ("--place", fabric, "--seed", seed, "--count", "1", "--only", fault)
    make(*words, timeout_s=1500)
