"""Licences under a real Slurm: who takes one, that the bound holds, and how long jobs wait."""

import math
import os
import re
import signal
import statistics
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from analysis.simulate.licence import waits_s
from testbed import daemons
from tests.nimc.minicluster.real import ENV, NIMC, Cluster, wait

pytestmark = pytest.mark.minicluster

LICENCES = 3
JOBS = 200
#: Jobs that arrive faster than they can run, to measure what Slurm needs between two of them.
CALIBRATION = 45
#: Arrivals against what the licences let pass. Near 1, an error of a percent in the time of a job
#: would be many percents of its wait.
OVERLOAD = 1.5

#: Submitted jobs after which slurmctld is restarted.
RESTARTS = (150, 175)

#: It writes 8 MiB in about 1 s, and notes when it began and ended.
STAGE_OUT = """\
#!/bin/sh
#SBATCH --comment=stage-out --output=/dev/null
cd {folder} || exit 1
began=$(date +%s.%N)
for part in 1 2 3 4 5 6 7 8; do head -c 1048576 /dev/zero >> data.$SLURM_JOB_ID; sleep 0.125; done
rm data.$SLURM_JOB_ID
echo "$began $(date +%s.%N)" > new.$SLURM_JOB_ID && mv new.$SLURM_JOB_ID $SLURM_JOB_ID.times
"""


def install(cluster: Cluster, more: str = "") -> None:
    """What the page docs/licence.md says."""

    def part(name: str) -> str:
        words = ["licence", "--licences", str(LICENCES), "--part", name]
        command = [*NIMC[:-1], *words]
        return subprocess.run(command, env=ENV, capture_output=True, text=True, check=True).stdout

    conf = cluster.layout.slurm_conf
    lines = part("slurm.conf").replace(f":{LICENCES}", f":{LICENCES}{more}")
    conf.write_text(conf.read_text() + lines)
    conf.with_name("job_submit.lua").write_text(part("job_submit.lua"))
    cluster.slurm("scontrol", "reconfigure")
    wait(None, lambda: "nimc_writers" in cluster.slurm("scontrol", "show", "lic"), 20)


def licences_of(cluster: Cluster, job: str) -> str:
    found = re.search(r"Licenses=(\S+)", cluster.slurm("scontrol", "show", "job", job))
    assert found
    return found[1]


def submit(cluster: Cluster, *options: str) -> str:
    return cluster.slurm("sbatch", "--parsable", *options).strip()


def test_stage_outs_take_one_and_no_other_job_does(two_nodes: Cluster) -> None:
    install(two_nodes, more=",matlab:4")

    def of(*options: str) -> str:
        # Held, since those of jobs that run cannot be changed.
        job = submit(two_nodes, "--hold", "--output=/dev/null", *options, "--wrap=true")
        return licences_of(two_nodes, job)

    assert of() == "(null)"
    assert of("--comment=not-stage-out") == "(null)"
    assert of("-L", "matlab:2") == "matlab:2"
    assert of("--comment=stage-out") in ("nimc_writers", "nimc_writers:1")
    assert of("--comment=project-7,stage-out") in ("nimc_writers", "nimc_writers:1")
    assert re.fullmatch("matlab:2,nimc_writers(:1)?", of("--comment=stage-out", "-L", "matlab:2"))
    assert of("--comment=stage-out", "-L", "nimc_writers:2,matlab").startswith("nimc_writers:2")
    assert of("--comment=stage-out", "-L", "nimc_writers:0") in ("nimc_writers", "nimc_writers:1")

    job = submit(two_nodes, "--hold", "--comment=stage-out", "--output=/dev/null", "--wrap=true")
    two_nodes.slurm("scontrol", "update", f"JobId={job}", "Licenses=")
    assert licences_of(two_nodes, job).startswith("nimc_writers"), "not given away"
    job = submit(two_nodes, "--hold", "--output=/dev/null", "--wrap=true")
    two_nodes.slurm("scontrol", "update", f"JobId={job}", "Comment=stage-out")
    assert licences_of(two_nodes, job).startswith("nimc_writers"), "as it became one"
    two_nodes.slurm("scancel", "--me")


class StageOuts:
    """Jobs of one script, and what they noted."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder, self.script = cluster, folder, folder / "stage-out.sh"
        self.script.write_text(STAGE_OUT.format(folder=folder))
        self.submitted_s: dict[str, float] = {}

    def submit(self) -> str:
        at_s = time.time()
        job = submit(self.cluster, str(self.script))
        self.submitted_s[job] = at_s
        return job

    def times(self, jobs: Iterable[str], timeout_s: float) -> list[tuple[float, float]]:
        """When each began and ended, once all have."""
        files = [self.folder / f"{job}.times" for job in jobs]
        wait(None, lambda: all(file.exists() for file in files), timeout_s)
        return [(float(a), float(b)) for a, b in (file.read_text().split() for file in files)]

    def in_use(self) -> int:
        found = re.search(r"Used=(\d+)", self.cluster.slurm("scontrol", "show", "lic"))
        assert found
        return int(found[1])


def most_at_once(times: Iterable[tuple[float, float]]) -> int:
    """Ends come first: Slurm's books have whole seconds."""
    changes = sorted([(b, -1) for a, b in times] + [(a, 1) for a, b in times])
    return max(np.cumsum([change for _, change in changes]))


@pytest.mark.long
def test_the_bound_holds_and_jobs_wait_as_simulated(cluster: Cluster, tmp_path: Path) -> None:
    cluster.nimc("up", "--nodes", str(LICENCES + 2), "--origins", "0")
    install(cluster)
    jobs = StageOuts(cluster, tmp_path)

    # What a job takes to begin when a licence is free, and from one to the next with it.
    alone = []
    for _ in range(3):
        job = jobs.submit()
        ((began_s, _),) = jobs.times([job], 30)
        alone.append(began_s - jobs.submitted_s[job])
        wait(None, lambda: jobs.in_use() == 0, 30)
    # Slurm is as busy with submissions and questions as it will be.
    first = []
    for _ in range(CALIBRATION):
        first.append(jobs.submit())
        jobs.in_use()
        time.sleep(0.2)
    calibrated = sorted(jobs.times(first, 120))
    rounds = CALIBRATION / LICENCES - 1
    cycle_s = (
        statistics.mean(a for a, _ in calibrated[-LICENCES:])
        - statistics.mean(a for a, _ in calibrated[:LICENCES])
    ) / rounds
    handover_s = cycle_s - statistics.mean(b - a for a, b in calibrated)
    wait(None, lambda: jobs.in_use() == 0, 30)

    between_s = np.random.default_rng(1).exponential(cycle_s / LICENCES / OVERLOAD, JOBS)
    due_s, ids, used, stopped_s = time.time() + between_s.cumsum(), [], [], math.inf
    for number in range(JOBS):
        time.sleep(max(0.0, due_s[number] - time.time()))
        ids.append(jobs.submit())
        used.append(jobs.in_use())
        if number in RESTARTS:
            stopped_s = min(stopped_s, time.time())
            (controller,) = cluster.processes("slurmctld")
            os.kill(controller, signal.SIGTERM)  # as 'systemctl restart' does; it saves its state
            wait(None, lambda: not cluster.processes("slurmctld"), 30)
            daemons.start_controller(cluster.layout)
            used.append(jobs.in_use())
    times = jobs.times(ids, 300)
    books = cluster.accounts(3 + CALIBRATION + JOBS)
    assert all(row.startswith("COMPLETED") for row in books)
    booked = [
        (float(a), float(b))
        for a, b in (
            row.split("|")
            for row in cluster.slurm(
                "env", "SLURM_TIME_FORMAT=%s", "sacct", "-XnP", "-o", "start,end"
            ).splitlines()
        )
    ]
    assert len(booked) == len(books)
    assert max(used) == most_at_once(times) == most_at_once(booked) == LICENCES

    # In order of submission, those that began before no job could.
    undisturbed = [
        (jobs.submitted_s[job], a, b)
        for job, (a, b) in zip(ids, times, strict=True)
        if a < stopped_s
    ]
    assert len(undisturbed) >= JOBS // 3
    measured_s = [a - at_s - statistics.median(alone) for at_s, a, _ in undisturbed]
    taken_s = [b - a + handover_s for _, a, b in undisturbed]
    simulated_s = waits_s([at_s for at_s, *_ in undisturbed], taken_s, LICENCES)
    means = statistics.mean(measured_s), statistics.mean(simulated_s)
    tails = float(np.quantile(measured_s, 0.95)), float(np.quantile(simulated_s, 0.95))
    print(f"alone {alone}, cycle {cycle_s:.3f} s, handover {handover_s:.3f} s; {means=}, {tails=}")
    assert means[0] == pytest.approx(means[1], rel=0.15)
    assert tails[0] == pytest.approx(tails[1], rel=0.15)
