"""Licences under a real Slurm: which jobs take one."""

import re
import subprocess

import pytest

from tests.nimc.minicluster.real import ENV, NIMC, Cluster, wait_until

pytestmark = pytest.mark.minicluster

LICENCES = 3


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
    wait_until(lambda: "nimc_writers" in cluster.slurm("scontrol", "show", "lic"), 20)


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
