"""A job that inspects nodes, and the findings of `nimc doctor --in-job` that follow from it.

`tests/nimc/minicluster/test_in_job.py` tests that ReFrame submits such a job.
"""

import errno
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from conductor.block import trial
from conductor.block.trial import Trial
from nimc.cluster import in_job, tried_writes
from nimc.cluster.in_job import JobInspection
from nimc.cluster.node_inspection import NodeReport, inspect_node
from nimc.readiness.finding import HostFinding
from nimc.readiness.reframe_config import ReframeSettings
from records.checkout import ROOT
from records.errors import InputError, MachineError
from records.files import private_lock
from records.machine.host import detect
from records.machine.site import Machine, Origins
from tests.messages import assert_message
from tests.nimc.cluster.made import FAST, node
from tests.records.machine.made import machine

HETJOB = Origins(policy="hetjob", partition="io")


#: Facts of the nodes that `made.node` makes.
FACTS = {"cores": 64, "sockets": 2, "numa_nodes": 4, "llc": "512MiB", "memory": "256GiB"}


def cluster_machine(**fields: Any) -> Machine:
    """Return a machine with a device and an interface; `fields`: further keys of its site file."""
    return machine(**{"device": "mlx5_0", "interface": "hsn0", "facts": FACTS, **fields})


def inspection_of(*nodes: NodeReport) -> JobInspection:
    """Return what a job on these nodes found, the target first."""
    return JobInspection(job="7", why=None, nodes=list(nodes))


def findings_by_subject(job_inspection: JobInspection, box: Machine) -> dict[str, HostFinding]:
    return {finding.what: finding for finding in in_job.job_findings(job_inspection, box)}


def only_fault(job_inspection: JobInspection) -> HostFinding:
    """Return the only finding that is not ok."""
    findings = in_job.job_findings(job_inspection, cluster_machine())
    (fault,) = (finding for finding in findings if finding.state != "ok")
    return fault


@pytest.mark.parametrize(
    ("facts", "detail"),
    [
        # Slurm may leave a job fewer cores, and kernels report less memory than there is.
        (FACTS | {"cores": 48, "memory": "270GiB"}, None),
        (FACTS | {"llc": None}, None),
        # A job gets less memory than the site file says, for example if it must request memory.
        (FACTS | {"memory": "512GiB"}, "memory: 262144 MiB on the node, 524288 MiB expected"),
        (
            FACTS | {"cores": 128, "numa_nodes": 2, "sockets": 1},
            "cores: 64 on the node, 128 expected, sockets: 2 on the node, 1 expected,"
            " NUMA nodes: [0, 1, 2, 3] on the node, [0, 1] expected",
        ),
        (FACTS | {"llc": "256MiB"}, "last-level caches: 512 MiB on the node, 256 MiB expected"),
    ],
)
def test_facts_of_the_site_file_that_nodes_do_not_have_are_named(facts, detail):
    findings = findings_by_subject(inspection_of(node("n1", FAST)), cluster_machine(facts=facts))
    row = findings.get("facts on nodes")
    assert (row and (row.state, row.detail)) == (detail and ("limited", f"n1: {detail}"))


def test_without_facts_in_the_site_file_those_of_this_host_are_compared_with_the_nodes():
    row = findings_by_subject(inspection_of(node("n1", FAST)), cluster_machine(facts=None))[
        "facts on nodes"
    ]
    assert "cores: 64 on the node, " in row.detail
    assert row.remedy == "add facts to site/box.yaml; without them, those of this host count"


@pytest.mark.parametrize(
    ("job_threads", "threads", "state"),
    [(1, 2, "missing"), (2, 2, None), (None, 2, None), (1, 1, None)],
)
def test_threads_of_a_core_that_jobs_do_not_get_are_named(job_threads, threads, state):
    """If jobs get one thread of each core, a job that requests two CPUs a core is refused."""
    job_inspection = replace(inspection_of(node("n1", FAST)), threads_per_core=job_threads)
    box = cluster_machine(facts=FACTS | {"threads_per_core": threads})
    row = findings_by_subject(job_inspection, box).get("threads of jobs")
    assert (row and row.state) == state
    assert row is None or "threads_per_core: 1 in facts of site/box.yaml" in row.remedy


@pytest.mark.parametrize(
    ("core_spec", "cores", "remedy"),
    [
        (8, 64, "cores: 56 in facts, and core_spec: false, in site/box.yaml"),
        (8, 56, None),
        (0, 64, None),
    ],
)
def test_cores_that_a_site_keeps_from_jobs_are_named(core_spec, cores, remedy):
    """By its documentation, `-S 8` is the default on Frontier, so jobs get 56 of 64 cores."""
    job_inspection = replace(inspection_of(node("n1", FAST)), core_spec=core_spec)
    box = cluster_machine(facts=FACTS | {"cores": cores})
    assert "cores of jobs" not in findings_by_subject(
        replace(job_inspection, nodes=[], why="failed"), box
    )
    row = findings_by_subject(job_inspection, box).get("cores of jobs")
    assert (row and row.remedy) == remedy


def test_all_findings_are_ok_if_nodes_lack_nothing():
    job_inspection = inspection_of(node("n1", FAST), node("n2", FAST))
    findings = findings_by_subject(job_inspection, cluster_machine())
    assert {subject: finding.state for subject, finding in findings.items()} == {
        "job on nodes": "ok",
        "shared folders": "ok",
        "locks": "ok",
        "interface on nodes": "ok",
        "device mlx5_0 on nodes": "ok",
        "perftest on nodes": "ok",
    }
    assert all(finding.needed for finding in findings.values())
    assert findings["job on nodes"].detail == "job 7: target n1, origins n2"
    assert findings["locks"].detail.startswith("n1, n2: ")


def test_the_start_of_the_job_and_of_each_trial_is_printed_once(tmp_path: Path) -> None:
    plan = tried_writes.plan_of(cluster_machine(origins=HETJOB), tmp_path)
    names = [treatment.name for treatment, _ in trial.treatments_tried(plan)]
    assert names[:2] == ["perftest", "perftest_read"]
    lines: list[str] = []
    tick = in_job.progress_teller(tmp_path, plan, lines.append, (tmp_path / "0.json").exists)

    def told_in_two_ticks() -> list[str]:
        lines.clear()
        tick()
        tick()
        return [*lines]

    assert told_in_two_ticks() == []
    (tmp_path / "0.json").touch()
    (start,) = told_in_two_ticks()
    assert "job" in start
    plan.logs.mkdir(parents=True)
    (first_trial,) = told_in_two_ticks()
    assert first_trial.endswith(f" writes by perftest (1 of {len(names)})")
    trial.save([Trial("perftest", "it ended")], plan.logs)
    (second_trial,) = told_in_two_ticks()
    assert second_trial.endswith(f" reads by perftest (2 of {len(names)})")
    trial.save([Trial(name, "it ended") for name in names], plan.logs)
    assert len(told_in_two_ticks()) == len(names) - 2


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        ({"sees_lock": None}, "locks"),
        ({"addresses": {"hsn0": None, "eno1": "10.0.0.2"}}, "interface on nodes"),
        ({"rdma": []}, "device mlx5_0 on nodes"),
        ({"injector_faults": {"perftest": "ib_write_bw is missing: install"}}, "perftest on nodes"),
    ],
)
def test_a_finding_is_missing_if_one_node_lacks_it(change, subject):
    fault = only_fault(inspection_of(node("n1", FAST), node("n2", FAST, **change)))
    assert (fault.what, fault.state, fault.needed) == (subject, "missing", True)
    assert fault.detail.startswith("n2")
    assert fault.remedy


def test_a_current_folder_that_nodes_lack_limits_only_reframe_without_nimc():
    """`nimc run` stages in the results folder, which the nodes see, since they report there."""
    fault = only_fault(inspection_of(node("n1", FAST), node("n2", FAST, unseen=["/tmp/mine"])))
    assert (fault.what, fault.state, fault.needed) == ("shared folders", "limited", False)
    assert fault.detail.startswith("n2: does not see /tmp/mine")
    assert "campaigns do not need it" in fault.detail
    assert "RFM_STAGE_DIR" in fault.remedy


@pytest.mark.parametrize(("state", "has_remedy"), [("TIMEOUT", True), ("NODE_FAIL", False)])
def test_trials_that_a_time_limit_has_ended_say_which_limit_is_needed(tmp_path, state, has_remedy):
    why = tried_writes.why_untried(tmp_path, state)
    findings = findings_by_subject(
        replace(inspection_of(node("n1", FAST)), why_untried=why), cluster_machine()
    )
    row = findings["writes between nodes"]
    assert (row.state, row.detail) == ("missing", why)
    assert ("time_limit in configs/box.py to 300s" in row.remedy) == has_remedy


@pytest.mark.parametrize(
    ("job_inspection", "remedy"),
    [
        (JobInspection(job=None, why="Slurm refuses the job: no"), "same_job"),
        (
            JobInspection(job=None, why="Slurm refuses the job: QOSMaxWallDurationPerJobLimit"),
            "time_",
        ),
        (JobInspection(job="7", why="it had not started after 9 s"), "--wait"),
        (JobInspection(job="7", why="its output did not reach /run"), "results folder"),
        (JobInspection(job="7", why="1 of 2 nodes answered", nodes=[node("n1", FAST)]), "results"),
        # slurmd's shell and slurmstepd print this if the Python of .venv belongs to a module in a
        # folder that nodes do not mount.
        (
            JobInspection(
                job="7",
                why="0 of 2 nodes answered; job 7 ended as FAILED: slurm_script: line 8:"
                " /home/u/nimc/.venv/bin/python: No such file or directory",
            ),
            os.path.realpath(sys.executable),
        ),
    ],
)
def test_a_job_that_did_not_run_gives_a_single_fault(job_inspection, remedy):
    fault = only_fault(job_inspection)
    assert (fault.what, fault.state, fault.detail) == (
        "job on nodes",
        "missing",
        job_inspection.why,
    )
    assert remedy in fault.remedy


def test_interfaces_of_each_node_are_named_if_the_site_file_names_none():
    nodes = node("n1", FAST), node("n2", FAST, addresses={"eno1": "10.0.0.2"})
    findings = findings_by_subject(inspection_of(*nodes), cluster_machine(interface=None))
    finding = findings["interface on nodes"]
    assert (finding.state, finding.needed) == ("limited", False)
    first, second = finding.detail.split("; n2: ")
    assert first.startswith("n1: ")
    assert first.endswith(": docker0, eno1, hsn0")
    assert second.endswith(": eno1")


@pytest.mark.parametrize(("name", "shown"), [("eno1", "up 1 Gbit/s"), ("mlx5_9", "InfiniBand")])
def test_the_device_of_the_site_file_may_be_an_interface_or_have_no_ports(name, shown):
    without_ports = replace(FAST[0], name="mlx5_9", ports=[])
    job_inspection = inspection_of(node("n1", [without_ports]))
    findings = findings_by_subject(job_inspection, cluster_machine(device=name))
    finding = findings[f"device {name} on nodes"]
    assert (finding.state, finding.detail) == ("ok", f"n1: {shown}")


def test_each_rail_is_looked_for():
    rails = [{"device": "mlx5_0"}, {"device": "mlx5_1"}]
    job_inspection = inspection_of(node("n1", FAST), node("n2", FAST[:1]))
    findings = findings_by_subject(job_inspection, cluster_machine(rails=rails))
    assert findings["device mlx5_0 on nodes"].state == "ok"
    assert findings["device mlx5_1 on nodes"].state == "missing"


# How ReFrame is called, and the files that it leaves.


def write_report(folder: Path, job_id: str | None, phase: str, why: str) -> None:
    """Write ReFrame's report of a check that failed in a phase."""
    case = {"jobid": job_id, "result": "fail", "fail_phase": phase, "fail_reason": why}
    (folder / "reframe.json").write_text(json.dumps({"runs": [{"testcases": [case]}]}))


def test_the_reason_of_the_failed_check_says_how_many_nodes_answered(tmp_path):
    write_report(tmp_path, "7", "sanity", "sanity error: 0 of 2 nodes answered")
    expected = JobInspection(job="7", why="0 of 2 nodes answered", nodes=[])
    assert in_job.read_job_inspection(tmp_path, 1) == expected


SBATCH_FAILED = """\
spawned process error: command 'sbatch rfm_job.sh' failed with exit code 1:
--- stderr ---
sbatch: error: no hetjobs
sbatch: error: no way
--- stderr ---"""


@pytest.mark.parametrize(
    ("phase", "why", "shown"),
    [("run", SBATCH_FAILED, "no hetjobs; no way"), ("setup", "x", "'setup': x")],
)
def test_the_reason_why_no_job_was_submitted_is_one_line(tmp_path, phase, why, shown):
    write_report(tmp_path, None, phase, why)
    job_inspection = in_job.read_job_inspection(tmp_path, 1)
    assert (job_inspection.job, job_inspection.nodes) == (None, [])
    assert job_inspection.why.endswith(f" {shown}")


PARTITIONS = [
    {"name": name, "scheduler": scheduler, "environs": ["x", "y"]}
    for name, scheduler in (("a", "slurm"), ("b", "slurm"), ("c", "local"))
]
CLUSTER_SETTINGS = ReframeSettings(
    environment={"SLURM_CONF": "/x"}, partitions=PARTITIONS, environs=[{"name": "x"}, {"name": "y"}]
)


def use_made_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace what is read of the machine by a made machine with one target and one origin."""
    monkeypatch.setenv("SLURM_CONF", "")
    monkeypatch.setattr(in_job.client, "command_fault", lambda _: "")
    box = cluster_machine(partition="b", origins=HETJOB)
    monkeypatch.setattr(in_job, "settings_of", lambda _: CLUSTER_SETTINGS)
    monkeypatch.setattr(in_job, "load_machine", lambda *_: box)
    monkeypatch.setattr(in_job.processes, "become_subreaper", lambda: None)


@dataclass(frozen=True)
class FailedInspection:
    """An inspection of nodes that failed with an error of ReFrame's session."""

    results: Path
    #: ReFrame's command, and the values of the check's variables in it.
    words: list[str]
    variables: dict[str, str]
    #: Folders whose jobs were cancelled.
    cancelled: list[Path]


@pytest.fixture
def failed_inspection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FailedInspection:
    words: list[str] = []
    cancelled: list[Path] = []

    def run_session(argv: list[str], *_: object) -> int:
        words.extend(argv)
        raise MachineError("accounting (sacct) has not answered for 600 s")

    monkeypatch.setenv("RFM_STAGE_DIR", "/stage")
    use_made_cluster(monkeypatch)
    monkeypatch.setattr(in_job, "run_session", run_session)
    monkeypatch.setattr(in_job.client, "cancel_jobs", cancelled.append)
    results = tmp_path / "new" / "results"
    with pytest.raises(MachineError, match="600 s"):
        in_job.inspect_nodes("box", results, 60.0, print, Path("/c"))
    settings = (
        word.removeprefix("NodeInspection.") for word in words if word.startswith("NodeInspection.")
    )
    return FailedInspection(
        results, words, dict(word.split("=", 1) for word in settings), cancelled
    )


@pytest.mark.parametrize("tries_writes", [False, True])
def test_a_late_accounting_is_awaited_once_the_job_has_done_its_work(
    monkeypatch, tmp_path, tries_writes
):
    """ReFrame waits for the accounting, which may notice the end of a job minutes late."""
    readings: list[bool] = []

    class Watch:
        def __init__(self, *_: object) -> None:
            self.pending, self.jobs = None, {}

        def check(self, _: float, *, reading: bool, **__: bool) -> None:
            readings.append(reading)

        def close(self) -> None:
            pass

    def run_session(
        _: list[str], folder: Path, __: Path, ___: object, tick: Callable[[], None]
    ) -> int:
        tick()
        for rank in range(2):  # the target and one origin
            (folder / f"{rank}.json").touch()
            tick()
        end = tried_writes.logs_of(folder) / "block.json"
        end.parent.mkdir(parents=True)
        end.write_text("{}")
        tick()
        raise MachineError("the accounting answers late")

    use_made_cluster(monkeypatch)
    monkeypatch.setattr(in_job, "run_session", run_session)
    monkeypatch.setattr(in_job, "SlurmWatch", Watch)
    monkeypatch.setattr(in_job.client, "cancel_jobs", lambda _: None)
    with pytest.raises(MachineError, match="late"):
        in_job.inspect_nodes(
            "box", tmp_path, 60.0, lambda _: None, Path("/c"), tries_writes=tries_writes
        )
    assert readings == [False, False, not tries_writes, True]


def test_reframe_is_called_for_the_targets_partition(failed_inspection):
    system = ["-C", "/c/configs/box.py", "--system=box:b", "-p", "^x$"]
    start = failed_inspection.words.index("-C")
    assert failed_inspection.words[start : start + len(system)] == system
    assert os.environ["SLURM_CONF"] == "/x"


def test_the_check_gets_what_it_needs_of_the_machine(failed_inspection):
    variables = failed_inspection.variables
    assert json.loads(variables["origins"]) == HETJOB.model_dump()
    assert (variables["stage"], variables["max_pending_time"]) == ("/stage", "60s")
    assert (variables["device"], variables["time_limit"]) == ("mlx5_0", "960s")


@pytest.mark.parametrize(
    ("limit", "inspection_limit", "injection_limit"),
    [
        (None, "960s", "960s"),
        ("4h", "960s", "960s"),
        ("10m", "600s", "600s"),
        ("2m", "120s", "300s"),
        (30, "60s", "300s"),
    ],
)
def test_jobs_request_no_more_than_their_partition_allows_unless_their_work_takes_longer(
    monkeypatch, limit, inspection_limit, injection_limit
):
    """Agents have 660 s to connect. Slurm refuses a job that its partition does not allow.

    An injection writes as long as its user says. Slurm may allow more than the configuration.
    """
    partitions = [{**partition, "time_limit": limit} for partition in PARTITIONS]
    settings = replace(CLUSTER_SETTINGS, partitions=partitions)
    use_made_cluster(monkeypatch)
    monkeypatch.setattr(in_job, "settings_of", lambda _: settings)
    destination = in_job.job_destination("box", "--in-job")
    assert destination.time_limit(60.0, 240.0) == inspection_limit
    assert destination.time_limit(300.0) == injection_limit


def test_no_job_is_submitted_if_slurm_lacks_its_configuration(monkeypatch):
    """Every command of Slurm would wait for the file for a minute."""
    command_fault = in_job.client.command_fault
    use_made_cluster(monkeypatch)
    monkeypatch.setattr(in_job.client, "command_fault", command_fault)
    monkeypatch.setattr(in_job.client.shutil, "which", lambda name: f"/bin/{name}")
    with pytest.raises(MachineError, match=r"^SLURM_CONF names '/x'.*`unset SLURM_CONF`"):
        in_job.job_destination("box", "--in-job")


def test_an_inspection_that_fails_leaves_no_job_and_no_file(failed_inspection):
    folder = Path(failed_inspection.variables["folder"])
    assert folder.parent == failed_inspection.results
    assert failed_inspection.cancelled == [folder]
    assert not list(failed_inspection.results.iterdir())


def inspect_from_node(folder: Path, rank: int, stage: Path) -> None:
    """Start a process as a stand-in for a node, which writes its report to a folder."""
    environment = {**os.environ, "SLURM_PROCID": str(rank), "PYTHONPATH": str(ROOT)}
    words = [str(folder), "", "", str(stage)]
    command = [sys.executable, "-m", "nimc.cluster.node_inspection", *words]
    subprocess.run(command, env=environment, check=True, timeout=300)


def test_locks_of_one_host_only_limit_where_nimc_is_started():
    """Lustre with `localflock`, and BeeGFS unless it is configured, have locks of each host."""
    fault = only_fault(inspection_of(node("n1", FAST), node("n2", FAST, sees_lock=False)))
    assert (fault.what, fault.state) == ("locks", "limited")
    assert fault.detail.startswith("n2")
    assert "on one host only" in fault.remedy
    without_locks = node("n2", FAST, sees_lock=None)
    fault = only_fault(inspection_of(node("n1", FAST, sees_lock=False), without_locks))
    assert (fault.what, fault.state) == ("locks", "missing")


def test_a_node_without_locks_says_so(tmp_path, monkeypatch):
    """flock() fails like this on Lustre if it is mounted without the option flock."""

    def flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    assert inspect_node(tmp_path, None, None, []).sees_lock is None


def test_nodes_see_the_stage_folder_and_a_lock_that_is_held(tmp_path):
    with private_lock(tmp_path / "lock") as lock:
        assert lock.acquire()
        inspect_from_node(tmp_path, 0, tmp_path)
    inspect_from_node(tmp_path, 1, Path("/not/there"))
    seeing, blind = in_job.read_job_inspection(tmp_path, 1).nodes
    assert (seeing.sees_lock, seeing.unseen) == (True, [])
    assert (blind.sees_lock, blind.unseen) == (False, ["/not/there"])


def without_miniclusters(host):
    """The host without the interfaces of miniclusters, which come and go with other tests."""
    interfaces = [port for port in host.interfaces if not port.name.startswith("nimc-")]
    return replace(host, interfaces=interfaces)


def test_a_node_reports_its_host_and_its_injectors(tmp_path):
    inspect_from_node(tmp_path, 0, tmp_path)
    (report,) = in_job.read_job_inspection(tmp_path, 1).nodes
    assert without_miniclusters(report.host) == without_miniclusters(detect())
    assert report.injector_faults["spin"] is None


def test_a_machine_without_slurm_is_refused(tmp_path):
    with pytest.raises(InputError) as error:
        in_job.inspect_nodes("localhost", tmp_path, 1.0, print)
    assert_message(str(error.value), "--in-job: configs/localhost.py", "Slurm", allowed="Slurm")


def test_hardware_that_limits_what_can_be_measured_is_named():
    unusual = node("n1", FAST, processor="AuthenticAMD-27-1-0", memory_side_cache_b=2**36)
    findings = findings_by_subject(inspection_of(unusual), cluster_machine())
    processor = findings["processor on nodes"]
    assert processor.state == "limited"
    assert processor.detail.startswith("n1: AuthenticAMD family 27, model 1 (Example 9000) ")
    assert findings["memory-side cache on nodes"].detail.startswith("n1: 64 GiB ")


@pytest.mark.parametrize(
    ("quota", "detail"),
    [(1.5, "n1: a control group allows the time of 1.5 of 4 CPUs"), (4.0, None), (None, None)],
)
def test_a_limit_of_cpu_time_below_the_cpus_is_named(quota, detail):
    """`docker run --cpus=1.5` sets such a limit; all CPUs can be used, but not at once for long."""
    limited = node("n1", FAST, cpu_quota=quota, usable_cpus=[0, 1, 2, 3])
    row = findings_by_subject(inspection_of(limited), cluster_machine()).get("CPU quota on nodes")
    assert (row and row.state) == ("limited" if detail else None)
    assert row is None or row.detail.startswith(detail)
