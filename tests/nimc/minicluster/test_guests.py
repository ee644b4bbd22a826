"""A minicluster of virtual machines, with real RDMA verbs between them over soft-RoCE."""

import json
import os
import re
import signal
from collections.abc import Iterator

import pytest

from bench import minicluster as mini
from records.acceptance import AcceptanceLimits
from tests.nimc.minicluster.driven import Cluster, cluster_or_skip
from tests.undisturbed import UNJUDGED

pytestmark = [pytest.mark.minicluster, pytest.mark.guests, pytest.mark.slow]
#: A job step that writes 64 KiB from node2 to node1, 800 times. node1 prints what its devices have
#: counted before and after, and the facts of its host. On a busy host, an acknowledgement may take
#: seconds.
_BANDWIDTH = """#!/bin/bash
gid=$(python3 -c 'from records.machine import devices; print(devices.gid_index("rxe0"))')
write() { ib_write_bw -d rxe0 -x $gid -F -u 18 -s 65536 -n 800 "$@"; }
counters() {
    echo bytes=$(cat /sys/class/net/eth0/statistics/rx_bytes) \
        packets=$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts)
}
if [ "$SLURM_PROCID" = 0 ]; then
    counters; write > /dev/null; counters
    python3 -c 'import json; from records.machine import host
print("facts", json.dumps(host.detect().as_dict()))'
else
    for i in $(seq 40); do sleep 0.5; write node1 && break; done
fi
"""
_STEP = "srun --overlap --mpi=none --ntasks=1"
_FOREIGN = "timeout 60 ib_write_bw -d rxe0 -F -p 19777 -s 65536 -n 500"
#: The application ends when a file shows that the disturbance of its run is over.
_APPLICATION = "until [ -e {done} ]; do sleep 1; done; rm {done}; sleep 2; cat {melt}"
#: Shell code that waits until the application of an arm has started. It waits without `sleep`,
#: since starting a program takes a guest a tenth of a second.
_STARTED = """exec 9<> <(:)
started() {{ until compgen -G "{logs}/0-$1-0.out*" > /dev/null; do read -rt 1 -u 9; done; }}
"""
#: Scripts that run on target and origin beside the conductor. In the `off` run, a foreign program
#: writes 33 MB from origin to target. In the `on` run, the writer is stopped for 5 s. Soft-RoCE
#: still sends the 128 writes that are queued, which takes 2 s at 4 MB/s.
_TARGET = _STARTED + "started off; {foreign}\n"
_ORIGIN = (
    _STARTED
    + """started off
for i in $(seq 40); do {foreign} node1 && break; sleep 0.5; done
touch {done}
started on
writer=$(pgrep -x ib_write_bw); kill -STOP $writer; sleep 5; kill -CONT $writer
touch {done}
"""
)
_JOB = """#!/bin/bash
#SBATCH -N1 -p compute
#SBATCH hetjob
#SBATCH -N1 -p origin
{step} --het-group=0 bash {folder}/target.sh > /dev/null &
{step} --het-group=1 bash {folder}/origin.sh > {folder}/foreign.txt 2>&1 &
{conductor}
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    yield from cluster_or_skip("rxe")


@pytest.mark.long
def test_writes_are_counted_and_a_killed_virtual_machine_is_shown_as_missing(
    cluster: Cluster,
) -> None:
    sockets = ("--numa", "2", "--cores", "2", "--memory", "1536")
    cluster.nimc("up", "--fabric", "rxe", "--nodes", "2", "--origins", "1", *sockets)
    status = cluster.nimc_json("status")
    assert status["healthy"] is True
    assert status["state"]["accelerator"] in ("kvm", "tcg")

    # The job's script and output are in a folder that host and guests share.
    job, output = cluster.state / "run" / "job.sh", cluster.state / "run" / "job.out"
    step = cluster.state / "run" / "bandwidth.sh"
    step.write_text(_BANDWIDTH)
    job.write_text(
        "#!/bin/sh\n#SBATCH -N1 -p compute\n#SBATCH hetjob\n#SBATCH -N1 -p origin\n"
        f"srun --het-group=0,1 bash {step}\n"
    )
    cluster.run_job(job, output, timeout_s=400)
    printed = output.read_text()
    assert cluster.accounts(2) == ["COMPLETED|node1", "COMPLETED|node2"], printed
    facts = json.loads(re.search(r"^facts (.*)$", printed, re.MULTILINE).group(1))  # type: ignore[union-attr]
    assert facts["sockets"] == 2
    assert [node["cpus"] for node in facts["numa_nodes"]] == [[0, 1], [2, 3]]
    assert re.search(r"^ *65536 +800 ", printed, re.MULTILINE), printed
    # Each end prints the GID, of RoCE version 2, of its IPv4 address.
    ends = re.findall(
        r"GID: 00:00:00:00:00:00:00:00:00:00:255:255:(10:77:\d+):0?(\d+)$", printed, re.M
    )
    assert [end for _, end in ends] == ["2", "1"], printed
    received_b, packets = (
        int(b) - int(a)
        for a, b in (re.findall(rf"{key}=(\d+)", printed) for key in ("bytes", "packets"))
    )
    # A write has 16 packets of 4096 bytes, each with about 60 bytes of headers. On a busy host,
    # many are sent again. The limit `counter_share` of an emulated fabric allows half as many more.
    assert 1.0 <= received_b / (800 * 65536) < 1.5
    assert 1.0 <= packets / (800 * 16) < 1.5

    os.kill(status["pids"]["node2"], signal.SIGKILL)
    assert cluster.nimc_json("status", rc=3)["pids"]["node2"] is None
    cluster.nimc("down")
    assert cluster.left_behind() == []


def test_foreign_writes_and_a_stopped_writer_are_detected(cluster: Cluster) -> None:
    cluster.nimc("up", "--fabric", "rxe", "--nodes", "2", "--origins", "1", "--cores", "1")
    folder = cluster.state / "run"
    # These are the limits of site files for emulated fabrics (testbed/cluster.py), except
    # `counter_share`: bytes that soft-RoCE sends again on a busy host must not reject the runs.
    emulated = {"min_share": 0.02, "counter_share": 20, "late_rows": 60, "pause_s": 5}
    limits = {**UNJUDGED, "foreign_share": AcceptanceLimits.foreign_share}
    allowed = AcceptanceLimits(**emulated, **limits, retries=0, ready_timeout_s=180)
    writes = {"injector": "perftest", "devices": ("rxe0",)}
    command = ["sh", "-c", _APPLICATION.format(done=folder / "done", melt=mini.LAMMPS_OUTPUT)]
    # The figures of merit are not read, since ReFrame takes a minute to start on an emulated
    # processor.
    plan = mini.plan(folder, ["off", "on"], command, writes, limits=allowed, read_by_check=True)
    logs = folder / "run" / "logs" / "bench" / "0"
    for name, script in {"target.sh": _TARGET, "origin.sh": _ORIGIN}.items():
        text = script.format(logs=logs, foreign=_FOREIGN, done=folder / "done")
        (folder / name).write_text(text)
    job = folder / "job.sh"
    job.write_text(_JOB.format(folder=folder, step=_STEP, conductor=mini.conductor(plan)))
    output = folder / "job.out"
    cluster.run_job(job, output, timeout_s=600)
    printed = "".join(
        path.read_text() for path in (output, folder / "foreign.txt") if path.exists()
    )
    assert (logs / "unread.jsonl").exists(), printed
    rows = (logs / "unread.jsonl").read_text().splitlines()
    samples = {sample["arm"]: sample for sample in map(json.loads, rows)}
    assert sorted(samples) == ["off", "on"], printed

    off = samples["off"]
    assert off["outcome"] == "rejected", printed
    assert off["reason"].startswith("node1 received "), printed
    assert "(net:eth0) although nothing wrote; allowed: " in off["reason"]
    (conditions,) = off["conditions"]
    # The target received 500 messages of 64 KiB, with headers and repeated packets.
    assert 1.0 < conditions["received_b_s"] * conditions["over_s"] / (500 * 65536) < 2.0

    on = samples["on"]
    assert on["outcome"] == "rejected", printed
    # The row in which the writer is stopped has its writes from up to a second before the stop. So
    # its rate need not be zero, and it shows the stop only if it is below `min_share`.
    assert re.match(r"writer 0 wrote (nothing for|at) ", on["reason"]), on["reason"]
    if row := re.search(
        r" at ([0-9.]+) % of its rate alone .* at least ([0-9.]+) % ", on["reason"]
    ):
        share, required = map(float, row.groups())
        assert (share < required, required) == (True, 2), on["reason"]
    else:
        assert on["reason"].endswith(" (sent by rxe0); allowed: 0.5 s"), on["reason"]
