"""A test of site/minicluster/try.sh, the command that demonstrates nimc on a minicluster.

The command starts a minicluster and runs two checks with real writers. It then shows the accounting
of Slurm and removes the minicluster.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nimc.minicluster.driven import cluster_or_skip

pytestmark = [pytest.mark.minicluster, pytest.mark.long]
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("fabric", ["veth", "rxe"])
def test_try_shows_a_slowdown_of_stream_and_lammps(fabric, tmp_path):
    next(cluster_or_skip(fabric))
    binaries = Path(sys.executable).parent
    (tmp_path / "nimc").write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "from nimc.cli.main import main; main()" "$@"\n'
    )
    (tmp_path / "nimc").chmod(0o755)
    (tmp_path / "reframe").symlink_to(binaries / "reframe")
    # setpriv lets the script get SIGTERM when this test ends. The script then removes its cluster.
    trial = subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", "sh", ROOT / "site" / "minicluster" / "try.sh", fabric],
        env={**os.environ, "NIMC": str(tmp_path / "nimc"), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = trial.communicate(timeout=600)
    finally:
        trial.terminate()
        trial.wait(timeout=120)
    assert trial.returncode == 0, out + err
    assert "Ran 2/2 test case(s) from 2 check(s) (0 failure(s)" in out
    for workload in ("stream_quick", "lammps_quick"):
        shown = re.findall(rf"{workload}.*writers_rate_on.*?([0-9.e+]+) │ pass", out)
        assert shown, out
        assert float(shown[0]) > 0
    booked = re.findall(r"^\d+\+([01])\s+(\w+)\s+(\S+)\s+(\w+)", out, re.MULTILINE)
    assert len(booked) == 4
    assert {state for _, _, _, state in booked} == {"COMPLETED"}
    targets = {nodes for part, _, nodes, _ in booked if part == "0"}
    origins = {nodes for part, _, nodes, _ in booked if part == "1"}
    assert targets
    assert not targets & origins
    assert "minicluster down: removed" in out
