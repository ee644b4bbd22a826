"""A campaign on a real Slurm, a part of which is killed, and may be started again later."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import daemons
from testbed.containers import enter
from tests.nimc.minicluster.campaigns import CAMPAIGN
from tests.nimc.minicluster.driven import Cluster, cluster_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.minicluster, pytest.mark.long]


@pytest.fixture
def two_nodes() -> Iterator[Cluster]:
    """Yields a cluster for one test, since the test damages it."""
    yield from cluster_of(2)


def start(cluster: Cluster, folder: Path) -> subprocess.Popen[str]:
    """Start a campaign; return once its first sample is on disk."""
    (folder / "tiny.yaml").write_text(CAMPAIGN)
    words = ["run", "tiny.yaml", "--machine", "minicluster", "--results", "results"]
    campaign = cluster.start(*words, folder=folder)
    wait_until(lambda: list(folder.glob("results/*/samples/*.jsonl")), process=campaign)
    return campaign


def end(cluster: Cluster, name: str) -> None:
    (pid,) = cluster.processes(name)
    os.kill(pid, signal.SIGKILL)


def failures_of_sacct(folder: Path) -> int:
    (log,) = folder.glob("results/tiny-*/logs/*/0/reframe.log")
    return log.read_text().count("sacct failed")


def test_accounting_and_munge_may_be_away_for_a_while(two_nodes: Cluster, tmp_path: Path) -> None:
    """By default, ReFrame gives up after three failed calls of sacct.

    It then leaves the job running, with its writers and application.
    """
    campaign = start(two_nodes, tmp_path)
    end(two_nodes, "slurmdbd")
    end(two_nodes, "munged")
    wait_until(lambda: failures_of_sacct(tmp_path) >= 5, process=campaign)
    daemons.start_munge(two_nodes.layout)
    environment = {
        "MYSQL_UNIX_PORT": daemons.DATABASE_SOCKET,
        **daemons.client_env(two_nodes.layout),
    }
    enter(two_nodes.layout, daemons.CONTROLLER, ["slurmdbd"], environment)
    _, err = campaign.communicate(timeout=600)
    # If a step could not be started meanwhile, its block has failed.
    assert campaign.returncode in (0, 3), err
    assert "Traceback" not in err
    assert two_nodes.slurm("squeue", "--noheader") == ""


def test_ctrl_c_ends_a_campaign_even_if_slurmctld_is_gone(
    two_nodes: Cluster, tmp_path: Path
) -> None:
    campaign = start(two_nodes, tmp_path)
    end(two_nodes, "slurmctld")
    campaign.send_signal(signal.SIGINT)
    _, err = campaign.communicate(timeout=300)
    assert campaign.returncode == 130, err
    jobs, resume = err.splitlines()[-2:]
    assert "jobs of this run may go on: scancel " in jobs
    assert resume.startswith("nimc: stopped by SIGINT; all samples are saved; to resume: ")
    assert "nimc run " in resume
