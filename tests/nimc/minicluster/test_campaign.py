"""A campaign on a real Slurm. Its ReFrame is killed meanwhile, and the campaign is resumed."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from records.kernel_text import read
from tests.nimc.minicluster.campaigns import CAMPAIGN
from tests.nimc.minicluster.driven import Cluster
from tests.waiting import wait_until

REFRAME = Path(sys.executable).parent / "reframe"


@pytest.mark.minicluster
@pytest.mark.slow
def test_a_killed_reframe_leaves_no_job_and_the_campaign_goes_on(
    two_nodes: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "tiny.yaml").write_text(CAMPAIGN)
    words = ["run", tmp_path / "tiny.yaml", "--machine", "minicluster", "--results", tmp_path]
    first = two_nodes.start(*words, "--json")
    (samples,) = wait_until(
        lambda: list(tmp_path.glob("tiny-*/samples/lammps.jsonl")), process=first
    )
    children = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
    (reframe,) = (
        int(child) for child in children if str(REFRAME) in read(Path(f"/proc/{child}/cmdline"))
    )
    os.kill(reframe, signal.SIGKILL)
    _, err = first.communicate(timeout=300)
    assert first.returncode == 3
    assert "ReFrame was killed by SIGKILL" in err
    assert two_nodes.slurm("squeue", "--noheader") == ""
    before = samples.read_text()

    second = two_nodes.start(*words)

    def writes_on() -> bool:
        """Return whether a run with writers was accepted in the next block."""
        lines = samples.read_text().splitlines(keepends=True)
        written = [json.loads(line) for line in lines if line.endswith("\n")]
        kept = [
            s for s in written if s["block"] == 1 and (s["arm"], s["outcome"]) == ("on", "accepted")
        ]
        return any(writer["rate_b_s"] > 0 for sample in kept for writer in sample["writers"])

    wait_until(writes_on, process=second)
    assert samples.read_text().startswith(before)
    second.send_signal(signal.SIGTERM)
    _, err = second.communicate(timeout=300)
    assert (second.returncode, "stopped by SIGTERM" in err) == (143, True)
    assert two_nodes.slurm("squeue", "--noheader") == ""
