"""What `init --scrontab --install` does to the scrontab of a real Slurm."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.nimc.minicluster.real import Cluster
from tests.nimc.nights.test_five_nights import NIMC, Nights, wait

pytestmark = [pytest.mark.slow, pytest.mark.minicluster]


def install(nights: Nights, cluster: Cluster) -> list[str]:
    """Install it; returns the table."""
    cluster.slurm(*NIMC, "nightly", "init", str(nights.file), "--scrontab", "--install")
    return cluster.slurm("scrontab", "-l").splitlines()


def test_an_entry_is_installed_once_next_to_those_of_others_and_starts(
    scrontab_cluster: Cluster, tmp_path: Path
) -> None:
    """Its campaign is not there: that the night was not run, and why, is said by the night."""
    cluster, nights = scrontab_cluster, Nights(tmp_path, "minicluster")
    (tmp_path / "tiny.yaml").unlink()
    start = datetime.now() + timedelta(seconds=75)
    days = (start, start + timedelta(days=2))
    nights.file.write_text(
        nights.file.read_text().replace(
            'start: "00:00", end: "00:00"',
            f'start: "{start:%H:%M}", end: "{start + timedelta(hours=1):%H:%M}",'
            f" days: [{', '.join(f'{day:%a}'.lower() for day in days)}]",
        )
    )
    assert install(nights, cluster)[0] == f"# BEGIN nimc nightly {nights.file}"
    others = ["X=1", "7 7 7 7 * true"]
    table = cluster.slurm("scrontab", "-l")
    (tmp_path / "table").write_text("".join(f"{line}\n" for line in others) + table)
    cluster.slurm("scrontab", str(tmp_path / "table"))
    lines = install(nights, cluster)
    assert lines[:3] == [*others, f"# BEGIN nimc nightly {nights.file}"]
    assert sum("nightly run" in line for line in lines) == 1
    assert cluster.slurm("squeue", "--noheader", "--format=%j").split().count("nimc-box") == 1
    wait(lambda: nights.ended(start.date()))
    found = nights.summary(start.date())
    assert found.outcome == "not run"
    assert "tiny.yaml" in found.reason
    log = nights.results / "nights" / "box.log"
    wait(lambda: found.reason in log.read_text())
