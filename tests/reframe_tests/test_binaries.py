"""Where no program is, a check is skipped in every environment, and says why."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reframe_tests.machine import ROOT


@pytest.mark.skipif(
    shutil.which("test_HPCCG", path="/usr/bin:/bin") is not None, reason="HPCCG is installed here"
)
def test_skipped_with_the_reason_of_each_environment(tmp_path):
    environment = {
        **{name: value for name, value in os.environ.items() if name != "SPACK_ROOT"},
        "PATH": "/usr/bin:/bin",
        "NIMC_SPACK_DIR": str(tmp_path / "none"),
        "PYTHONPATH": str(ROOT),
    }
    reframe = [str(Path(sys.executable).parent / "reframe"), "-C", f"{ROOT}/configs/localhost.py"]
    check = ["-c", f"{ROOT}/reframe_tests/hpccg.py", "-n", "^hpccg_quick$"]
    done = subprocess.run(
        [*reframe, *check, "--prefix", str(tmp_path), "-r"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "test_HPCCG is not on PATH; 'nimc spack' builds it" in done.stdout
    assert "no Spack is set up for localhost: nimc spack setup" in done.stdout
    assert "2 skipped" in done.stdout
