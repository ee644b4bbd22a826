"""Faults of a fabric, and how the trial of `nimc doctor --in-job` names them.

Real programs printed the captured outputs under planted faults. Here stand-ins print them again, in
a trial on this host. `tests/nimc/minicluster/test_planted.py` plants faults for real.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nimc.cluster import in_job, tried_writes
from nimc.cluster.in_job import JobInspection
from nimc.readiness import faults
from nimc.readiness.finding import HostFinding
from records.checkout import ROOT
from records.machine.site import Machine
from tests.captures import CAPTURES
from tests.cases.last_words import reason_reader
from tests.nimc.checkouts import program
from tests.nimc.cluster.made import FAST, node
from tests.records.machine.made import machine

PERFTEST = CAPTURES / "perftest"
#: A stand-in for ib_write_bw. It prints the captured output of its end and fails, or waits if the
#: captured program did not end.
STAND_IN = f"""\
exec {sys.executable} - {PERFTEST} "$@" <<'PYTHON'
import os, socket, sys, time
from pathlib import Path

folder, name, *words = sys.argv[1:2] + [os.environ["CAPTURE"]] + sys.argv[2:]
is_target = words[-1].startswith("-") or words[-2].startswith("-")
port = int(words[words.index("-p") + 1])
capture = Path(folder, name + (".server.txt" if is_target else ".client.txt"))
lasts = name == "udp_dropped"
if is_target and (lasts or not capture.exists()):
    server = socket.create_server(("", port))
    server.accept()
    time.sleep(300)
for line in capture.read_text().splitlines():
    print(line, flush=True)
    if lasts and line.split()[:2] == ["65536", "0"]:
        time.sleep(0.3)
sys.exit(1)
PYTHON
"""


def tried(folder: Path, site: Machine, capture: str) -> HostFinding:
    """Return the finding on writes by perftest, from a trial with stand-ins on this host."""
    program(folder / "bin", "ib_write_bw", STAND_IN)
    plan = tried_writes.plan_of(site, folder)
    plan.save(folder / "plan.json")
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "CAPTURE": capture}
    command = [sys.executable, "-m", "conductor.block.trial", str(folder / "plan.json")]
    subprocess.run(command, env=environment, cwd=folder, check=True, timeout=300)
    rows = tried_writes.trial_findings(tried_writes.read_trials(folder), [node("n1", FAST)], site)
    (row,) = (row for row in rows if row.what == "writes by perftest")
    return row


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capture", "begin", "words", "remedy"),
    [
        (
            "gid_absent",
            "a GID or an MTU that does not fit: writer 0 (perftest, ",
            "Failed to modify QP 17 to RTR; Unable to Connect",
            "--gid-index",
        ),
        (
            "memlock",
            "too little locked memory: writer 0 (perftest, ",
            "Couldn't allocate MR",
            "LimitMEMLOCK=infinity",
        ),
        (
            "port_down",
            "a device that is down: writer 0 (perftest, ",
            "(before it: Port number 1 state is Down)",
            "bring its port or link up",
        ),
        (
            "udp_dropped",
            "packets that do not arrive: writer 0 (perftest, ",
            "wrote nothing in its first rows (",
            "UDP port 4791",
        ),
    ],
)
def test_a_planted_fault_is_named_in_one_line_with_what_to_do(
    tmp_path, capture, begin, words, remedy
):
    row = tried(tmp_path, machine("same_host", injector="perftest"), capture)
    assert (row.state, row.needed) == ("missing", True)
    assert row.detail.startswith(begin)
    assert words in row.detail
    assert "\n" not in row.detail
    assert remedy in row.remedy


#: Words that a program printed -> name of the fault. `tests/cases` has words from public reports.
WORDS = {
    "port 20003 of 10.77.25.1 does not answer (TCP)": "a firewall, or no route",
    "client failed. connect() failed: Connection refused": "a firewall, or no route",
    'The application appears to have been direct launched using "srun", but OMPI was not built'
    " with SLURM's PMI support and therefore cannot": "an MPI that Slurm's PMI does not start",
    "1 ranks found, 2 are needed: is the launcher that of its MPI?": (
        "an MPI that Slurm's PMI does not start"
    ),
    "Runtime environment uses unsupported PMI version PMIx. Aborting.": (
        "an MPI that Slurm's PMI does not start"
    ),
    "PMI_KVS_Put returned -1": "an MPI that Slurm's PMI does not start",
    "srun: error: Only allocated 1 nodes asked for 2": "an MPI that Slurm's PMI does not start",
    # This is the text of ESLURM_INTERCONNECT_FAILURE in Slurm's slurm_errno.c.
    "srun: error: Application launch failed: Error configuring interconnect": (
        "a step without a network of Slingshot"
    ),
    # This was printed on Frontier, without a VNI (flux-framework/flux-core, issue 5976).
    "MPIDI_OFI_mpi_init_hook(599): OFI fi_open domain failed (ofi_init.c:Invalid argument)": (
        "a step without a network of Slingshot"
    ),
    "no active messages transport to <no debug data>: self/memory - iface mismatch, tcp/eth1 - not"
    " available; ucp_ep_create() failed: Destination is unreachable": "a device that is down",
    "PSM2 can't open hfi unit: -1 (err=23)": "a device that is down",
    "IB device mlx5_0 not found; Unable to find the Infiniband/RoCE device": (
        "a device that a step may not open"
    ),
    "Couldn't get context for the device (before it: libibverbs: Warning: couldn't open"
    " /dev/infiniband/uverbs0: Permission denied)": "a device that a step may not open",
    "Did not detect devices": "a device that a step may not open",
    "Couldn't set the link layer (before it: Port number 1 state is Down); Couldn't get context for"
    " the device": "a device that is down",
    "ibv_create_cq(cqe=4096) failed: Cannot allocate memory": "too little locked memory",
    "Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)": (
        "packets that do not arrive"
    ),
    "Completion with error at client; Failed status 12: wr_id 0 syndrom 0x81": (
        "packets that do not arrive"
    ),
    # perftest prints this since 25.10 (NOTIFY_COMP_ERROR_SEND), with words of ibv_wc_status_str.
    "Completion with error at client; Failed status-transport retry counter exceeded (12): wr_id 0"
    " syndrom 0x81": "packets that do not arrive",
}


@pytest.mark.parametrize(("words", "name"), WORDS.items())
def test_words_of_programs_show_a_fault(words, name):
    fault = faults.fault_in(f"writer 0 (x, n2): origin side ended: {words}")
    assert fault
    assert fault.name == name


@pytest.mark.parametrize(
    "ending",
    [
        " Did not detect devices \n If device exists, check if driver is up\n",
        "IB device bnxt_re2 not found\n",
    ],
)
def test_a_library_older_than_its_driver_is_told_from_a_device_that_may_not_be_opened(ending):
    """The first ending is from k8snetworkplumbingwg/sriov-cni, issue 348.

    perftest prints the second one with -d (ctx_find_dev).
    """
    warning = (
        "libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 6 (supports 1 to 1)"
        " for device /sys/class/infiniband/bnxt_re2\n"
    )
    ending += " Unable to find the Infiniband/RoCE device\n"
    for text, name in (
        (2 * warning + ending, "a library that does not fit the driver"),
        (ending, "a device that a step may not open"),
    ):
        fault = faults.fault_in(reason_reader("perftest")(text, Path()))
        assert fault
        assert fault.name == name


def test_the_remedy_for_lost_packets_over_infiniband_names_the_partition_key():
    """With a fixed index 0 of the partition key, NVSHMEM hung (NVIDIA/nvshmem, issue 82)."""
    option = "--pkey_index=1"
    fault = faults.fault_in("Failed status-transport retry counter exceeded (12): wr_id 0")
    assert fault
    assert option.partition("=")[0] in fault.remedy
    assert machine("same_job", perftest_options=[option]).perftest_options == [option]


@pytest.mark.parametrize(
    "words", ["exit status 7", "Couldn't create QP", "Invalid communicator", "out of memory"]
)
def test_other_words_show_no_fault(words):
    assert faults.fault_in(words) is None


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("machine_failed: interface eth7: No such device", ["`interface`"]),
        ("injector_never_ready: writer 0 (ucx, n2): exit status 7", ["`injector`, `device`"]),
        (
            "injector_never_ready: writer 0 (ucx, n2): network device 'mlx5_9' is not available",
            ["name another `device`"],
        ),
    ],
)
def test_a_failed_block_names_keys_and_file_and_the_command_that_finds_the_cause(reason, words):
    remedy = faults.remedy_of_block(reason, machine(), in_jobs=True)
    for word in [*words, "site/box.yaml", "doctor --machine box --in-job"]:
        assert word in remedy
    assert "--in-job" not in faults.remedy_of_block(reason, machine("same_host"), in_jobs=False)


def test_a_block_that_failed_otherwise_has_no_remedy_of_writers():
    reason = "application_failed: exit status 3: interface eth7: No such device"
    assert faults.remedy_of_block(reason, machine(), in_jobs=True) == ""


def test_a_low_limit_of_locked_memory_is_reported_for_rdma_devices_only():
    inspection = JobInspection(
        job="7", why=None, nodes=[node(name, FAST, lockable_b=64 * 1024) for name in ("a", "b")]
    )
    rows = {row.what: row for row in in_job.job_findings(inspection, machine(device="mlx5_0"))}
    row = rows["locked memory on nodes"]
    assert (row.state, row.detail.startswith("a, b: 0.0625 MiB may be locked")) == ("limited", True)
    assert "LimitMEMLOCK=infinity" in row.remedy
    rows = {row.what: row for row in in_job.job_findings(inspection, machine(device="eno1"))}
    assert "locked memory on nodes" not in rows
