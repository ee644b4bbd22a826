"""Conductor and agents start on nodes that have nothing but Python."""

import os
import subprocess
import sys

from nimc.base.checkout import ROOT


def test_conductor_and_agent_need_the_standard_library_only():
    # -S leaves site-packages out, so that any other import fails.
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import reframe_tests.conduct, nimc.node.agent"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
