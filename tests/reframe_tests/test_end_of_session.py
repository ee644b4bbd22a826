"""A test of a ReFrame session that a signal ends; scripts stand in for the commands of Slurm."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from records.checkout import ROOT
from tests.reframe_tests.reframe_call import script
from tests.waiting import wait_until

CONFIG = """
partition = {
    "name": "p", "scheduler": "slurm", "launcher": "srun", "environs": ["builtin"],
    "sched_options": {"max_sacct_failures": 1000, "job_submit_timeout": 3},
}
site_configuration = {
    "systems": [{"name": "localhost", "hostnames": [".*"], "partitions": [partition]}]
}
"""
CHECK = """
import reframe as rfm

from reframe_tests import internals
from tests.reframe_tests.slurm.probe import probe

internals.CANCEL_WAIT_S = 2.0


@rfm.simple_test
class ended(probe):
    valid_systems = valid_prog_environs = ["*"]
    arms = ["off"]
"""
#: State of Slurm -> what its commands do after the job is submitted. Each command takes some time,
#: so that the signal arrives while ReFrame waits for a command. If a signal arrived while ReFrame
#: logs a message, the logging of ReFrame would drop the exception.
SILENT = {
    "has lost the job": "sleep 1; exit 0",
    "does not answer": "sleep 1; echo Unable to contact slurm controller >&2; exit 1",
    "hangs": 'until [ -e "$over" ]; do sleep 0.1; done',
}


@pytest.mark.slow
@pytest.mark.parametrize("slurm", SILENT)
def test_a_session_ends_on_sigterm_in_each_state_of_slurm(tmp_path: Path, slurm: str) -> None:
    """ReFrame waits some time for the job that it has cancelled, and ignores further signals."""
    for name in ("sacct", "squeue", "scancel"):
        script(tmp_path / "bin" / name, f"echo >>'{tmp_path}/{name}.called'; {SILENT[slurm]}")
    script(tmp_path / "bin/sbatch", "echo Submitted batch job 7")
    script(tmp_path / "bin/srun", "echo slurm 22.05.8")
    (tmp_path / "config.py").write_text(CONFIG)
    (tmp_path / "check.py").write_text(CHECK)
    command = [str(Path(sys.executable).parent / "reframe"), "--nocolor", "--prefix", str(tmp_path)]
    command += ["-C", str(tmp_path / "config.py"), "-c", str(tmp_path / "check.py"), "-r"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment["over"] = str(tmp_path / "over")
    environment["PATH"] = f"{tmp_path}/bin:{os.environ['PATH']}"
    with (tmp_path / "out").open("wb") as output:
        session = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        wait_until((tmp_path / "sacct.called").exists, process=session)
        session.send_signal(signal.SIGTERM)
        session.wait(60)
    finally:
        (tmp_path / "over").touch()
        session.kill()
        session.wait()
    output_text = (tmp_path / "out").read_text()
    assert "job 7 may not have ended: `scancel 7` cancels it" in output_text
    assert (tmp_path / "scancel.called").exists()
