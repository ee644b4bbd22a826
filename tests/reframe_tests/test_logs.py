import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("machine", ["localhost", "example_slurm"])
def test_reframe_leaves_no_file_in_the_temporary_folder(machine: str, tmp_path: Path) -> None:
    """Its own default logs to a new file there before it reads the configuration."""
    config = [f"--config-file={ROOT}/configs/{machine}.py", f"--system={machine}"]
    done = subprocess.run(
        [Path(sys.executable).parent / "reframe", *config, "-c", ROOT / "reframe_tests/stream.py"]
        + ["--list", f"--prefix={tmp_path}/prefix"],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert "- stream" in done.stdout, done.stderr
    assert not list(tmp_path.glob("rfm-*"))
