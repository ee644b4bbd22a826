"""Nights as small Slurm jobs that submit the jobs of the campaign: real ReFrame, Slurm, STREAM."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nimc.nights.summary import Summary, load
from tests.commands import ROOT
from tests.nimc.minicluster.driven import Cluster, cluster_of

pytestmark = [pytest.mark.long, pytest.mark.minicluster]

CAMPAIGN = """\
name: tiny
workloads: [{check: stream, set: {iterations: 40, array_most: 64MiB}, expect: 1s}]
arms: [off, aa]
pairs: {floor: 6, cap: 6}
verify: {foreign_cpus: null, steal_share: null, frequency_drop: null, foreign_share: null}
run_timeout: 2min
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    yield from cluster_of(3)


def night(cluster: Cluster, folder: Path) -> Summary:
    """Submit a night as a job, and wait for its summary."""
    nights = folder / "results" / "nights"
    for path in nights.glob("*.json"):
        path.unlink()
    nimc = f"{sys.executable} -c 'from nimc.cli.main import main; main()'"
    script = folder / "night.sh"
    script.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={ROOT} NIMC_MINICLUSTER={cluster.state}"
        f" SLURM_CONF={cluster.layout.slurm_conf}\n"
        f"exec {nimc} nights run {folder}/tiny.yaml --machine minicluster"
        f" --results {folder}/results --tell 'cat > {folder}/told.json'\n"
    )
    options = ("--partition=compute", f"--output={folder}/night.log", "--overcommit")
    cluster.slurm("sbatch", *options, str(script))
    until_s = time.monotonic() + 600
    while time.monotonic() < until_s:
        for path in nights.glob("*.json"):
            if (summary := load(path)).finished_s is not None:
                return summary
        time.sleep(0.5)
    log = folder / "night.log"
    raise AssertionError(log.read_text() if log.exists() else "the night did not begin")


def test_a_night_that_is_a_job_measures_and_is_slower_than_a_reference(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "tiny.yaml").write_text(CAMPAIGN)
    first = night(cluster, tmp_path)
    assert first.outcome == "measured", first
    (off,) = (figure for figure in first.figures if figure["arm"] == "off")
    with (cluster.state / "machine.yaml").open("a") as file:
        file.write(f"references: {{stream: {20 * off['value']!r}}}\nreference_tolerance: 0.1\n")
    second = night(cluster, tmp_path)
    assert second.outcome == "slower", second
    assert [(alarm.case, alarm.source) for alarm in second.alarms] == [("stream", "reference")]
    assert (tmp_path / "told.json").read_text() == second.text
    assert first.run != second.run
