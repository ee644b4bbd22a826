"""A campaign on a real Slurm of which a part is away for a while, or for good."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import daemons
from testbed.containers import enter
from tests.nimc.minicluster.real import ENV, Cluster, cluster_of
from tests.nimc.minicluster.test_campaign import CAMPAIGN

pytestmark = [pytest.mark.minicluster, pytest.mark.long]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    yield from cluster_of(2)


def start(cluster: Cluster, folder: Path) -> subprocess.Popen[str]:
    """Start a campaign; return once its first sample is on disk."""
    (folder / "tiny.yaml").write_text(CAMPAIGN)
    words = ["run", "tiny.yaml", "--machine", "minicluster", "--results", "results"]
    campaign = subprocess.Popen(
        [sys.executable, "-c", "from nimc.cli.main import main; main()", *words],
        cwd=folder,
        env={**ENV, "NIMC_MINICLUSTER": str(cluster.state)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until_s = time.monotonic() + 180
    while not list(folder.glob("results/*/samples/*.jsonl")):
        assert campaign.poll() is None, campaign.communicate()
        assert time.monotonic() < until_s
        time.sleep(0.1)
    return campaign


def end(cluster: Cluster, name: str) -> None:
    (pid,) = cluster.processes(name)
    os.kill(pid, signal.SIGKILL)


def failures_of_sacct(folder: Path) -> int:
    (log,) = folder.glob("results/tiny-*/logs/*/0/reframe.log")
    return log.read_text().count("sacct failed")


def test_accounting_and_munge_may_be_away(cluster: Cluster, tmp_path: Path) -> None:
    """ReFrame gave up after three calls, and left job, writers and application running."""
    campaign = start(cluster, tmp_path)
    end(cluster, "slurmdbd")
    end(cluster, "munged")
    until_s = time.monotonic() + 300
    while failures_of_sacct(tmp_path) < 5:
        assert campaign.poll() is None, campaign.communicate()
        assert time.monotonic() < until_s
        time.sleep(0.5)
    daemons.start_munge(cluster.layout)
    environment = {
        "MYSQL_UNIX_PORT": daemons.DATABASE_SOCKET,
        **daemons.client_env(cluster.layout),
    }
    enter(cluster.layout, daemons.CONTROL, ["slurmdbd"], environment)
    _, said = campaign.communicate(timeout=600)
    # A run whose step could not be started meanwhile ends its block; the next one goes on.
    assert campaign.returncode in (0, 3), said
    assert "Traceback" not in said
    assert cluster.slurm("squeue", "--noheader") == ""


def test_ctrl_c_is_obeyed_though_slurmctld_is_gone(cluster: Cluster, tmp_path: Path) -> None:
    campaign = start(cluster, tmp_path)
    end(cluster, "slurmctld")
    campaign.send_signal(signal.SIGINT)
    _, said = campaign.communicate(timeout=300)
    assert campaign.returncode == 130, said
    jobs, resume = said.splitlines()[-2:]
    assert "jobs of this run may go on: scancel " in jobs
    assert resume.startswith("nimc: stopped by SIGINT; all samples are saved; to resume: nimc run")
