"""The trial of writes in `nimc doctor --in-job`: what it tries, and the findings that follow.

Figures are worked out by hand.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from conductor.block import trial
from conductor.block.trial import Trial
from nimc.cluster import in_job, tried_writes
from records.sample import WriterRecord
from tests import made_writers
from tests.nimc.cluster.made import FAST, node
from tests.records.machine.made import machine

NIC = {"model": "HDR", "processing": "offload", "link_rate": "200Gbit/s"}  # 25 GB/s
CLUSTER = machine("same_job", device="mlx5_0", nic=NIC)
NODES = [node("n1", FAST), node("n2", FAST)]


def writer(**changes: Any) -> WriterRecord:
    """Return the record of a writer that reaches 24 GB/s over four queue pairs.

    The target's device counts its bytes.
    """
    fields: dict[str, Any] = {
        "injector": "perftest",
        "origin": "n2",
        "target": "n1",
        "transport": "InfiniBand",
        "message_b": 65536,
        "asked_b_s": None,
        "rate_alone_b_s": 24e9,
        "rate_b_s": 24e9,
        "rate_min_b_s": 23e9,
        "bytes_b": 72e9,
        "counted_b": 72.6e9,
        "counted_s": 3.0,
        "counter": "rdma:mlx5_0/1",
        "proof": "device",
        "queue_pairs": 4,
        "target_buffers_b": {"1": 262144},
    }
    return made_writers.record(**{**fields, **changes})


def finding_of(**changes: Any) -> Any:
    """Return the finding of a trial of perftest, which succeeded; `changes` replace its fields."""
    fields = {"name": "perftest", "failure": None, "writers": [writer()], "sent_b_s": [24.1e9]}
    (finding,) = tried_writes.trial_findings([Trial(**{**fields, **changes})], NODES, CLUSTER)
    return finding


def test_the_finding_has_the_rate_its_share_of_the_link_and_the_counters():
    finding = finding_of()
    assert (finding.what, finding.state, finding.needed) == ("writes by perftest", "ok", True)
    assert finding.detail == (
        "24.00 GB/s, 96 % of the link over InfiniBand, 4 queue pairs; counted: 24.20 GB/s at the"
        " target by rdma:mlx5_0/1, 24.10 GB/s at the origin; proof: device; buffers on NUMA node 1"
        "; mlx5_0 on NUMA node 1"
    )


def test_one_origin_may_have_several_devices():
    assert ", 24.00 GB/s at the origin; " in finding_of(sent_b_s=[12e9, 12e9]).detail
    writers = [writer(origin="n2"), writer(origin="n3")]
    assert " at the origins; " in finding_of(writers=writers, sent_b_s=[12e9, 12e9]).detail


def test_the_gids_of_both_ends_are_shown():
    indexes = zip(NODES, ({"perftest": 3, "ucx": 0}, {"perftest": 1}), strict=True)
    nodes = [replace(node, gid_indexes=by_injector) for node, by_injector in indexes]
    node_trial = Trial("perftest", None, None, [writer()], [None])
    (finding,) = tried_writes.trial_findings([node_trial], nodes, CLUSTER)
    assert finding.detail.endswith("; GID index: n1 3, n2 1")


@pytest.mark.parametrize(
    ("changes", "state", "begin", "remedy"),
    [
        (
            {"failure": "writer 0 (perftest, n2): Couldn't create QP", "writers": []},
            "missing",
            "writer 0 (perftest, n2): Couldn't create QP",
            "",
        ),
        (
            {"rejection": "counted 1 B, claimed 9 B"},
            "limited",
            "a run would be rejected: counted 1 B, claimed 9 B; ",
            "how-writes-are-proven",
        ),
        ({"writers": [writer(proof="unproven")]}, "limited", "unproven; 24.00 GB/s", "device"),
        # 19 GB/s are 76 % of the link's 25 GB/s.
        (
            {"writers": [writer(rate_alone_b_s=19e9)]},
            "limited",
            "19.00 GB/s, 76 % of the link",
            "queue_pairs",
        ),
    ],
)
def test_problems_with_writes_of_the_machines_injector_are_named(changes, state, begin, remedy):
    finding = finding_of(**changes)
    assert (finding.state, finding.needed) == (state, True)
    assert finding.detail.startswith(begin)
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    ("alone_b_s", "pcie_b_s", "is_limit"),
    [
        (14e9, 15.75e9, True),  # 126 Gbit/s of Gen3 with 16 lanes
        (14e9, 31.5e9, False),
        (16e9, 15.75e9, False),  # the writer is faster than the rate that the link reports
        (14e9, None, False),
    ],
)
def test_a_pcie_link_slower_than_the_port_has_its_own_remedy(alone_b_s, pcie_b_s, is_limit):
    nodes = [replace(one, pcie_b_s={"mlx5_0": pcie_b_s} if pcie_b_s else {}) for one in NODES]
    node_trial = Trial("perftest", None, None, [writer(rate_alone_b_s=alone_b_s)], [None])
    (finding,) = tried_writes.trial_findings([node_trial], nodes, CLUSTER)
    assert finding.state == "limited"
    limit = "the PCIe link of mlx5_0 on n1 carries at most 15.75 GB/s"
    assert finding.remedy.startswith(limit) == is_limit
    assert ("queue_pairs" in finding.remedy) != is_limit


def test_a_port_that_came_up_at_a_lower_rate_is_named():
    """A bad cable can cause this: 50 Gb/sec (1X HDR), or 6.25 GB/s, instead of 25 GB/s (4X)."""
    slow = replace(FAST[0], ports=[replace(FAST[0].ports[0], rate_b_s=6.25e9)])
    nodes = [node("n1", FAST), node("n2", [slow])]
    node_trial = Trial("perftest", None, None, [writer(rate_alone_b_s=6.1e9)], [None])
    (finding,) = tried_writes.trial_findings([node_trial], nodes, CLUSTER)
    assert finding.remedy == (
        "the port of mlx5_0 on n2 carries at most 6.250 GB/s: check its cable and its switch, or"
        " correct `nic.link_rate`"
    )


def test_failures_of_injectors_that_the_machine_does_not_use_are_not_needed():
    failed = Trial("mpi_put", "writer 0 (mpi_put, n2): PML ucx cannot be selected")
    (finding,) = tried_writes.trial_findings([failed], NODES, CLUSTER)
    assert (finding.what, finding.state, finding.needed) == ("writes by mpi_put", "limited", False)
    readers = [writer(target=name) for name in ("n1", "n3")]
    (finding,) = tried_writes.trial_findings(
        [Trial("perftest_read", None, None, readers, [None])], NODES, CLUSTER
    )
    assert finding.what == "reads by perftest"
    assert "48.00 GB/s, 96 % of the link" in finding.detail  # the links of two targets together
    # Each target's device counted 24.2 GB/s.
    assert "counted: 48.40 GB/s at the targets by rdma:mlx5_0/1, nothing at the" in finding.detail


def test_the_plan_tries_writes_and_reads_of_the_machine_and_writes_of_the_others(tmp_path):
    plan = tried_writes.plan_of(CLUSTER, tmp_path)
    names = [treatment.name for treatment in plan.treatments]
    assert names[:2] == ["perftest", "perftest_read"]
    assert {"ucx", "mpi_put"} <= set(names[2:])
    assert [treatment.writes.queue_pairs for treatment in plan.treatments] == [None] * len(names)
    assert (plan.pairs, plan.nimc_dir) == (0, str(tmp_path))
    shared_host_plan = tried_writes.plan_of(machine("same_host", injector="ucx"), tmp_path)
    assert [treatment.name for treatment in shared_host_plan.treatments] == ["ucx", "ucx_read"]


def test_a_trial_that_did_not_end_says_why(tmp_path):
    assert tried_writes.read_trials(tmp_path) == []
    assert tried_writes.why_untried(tmp_path) == "the trial did not finish"
    logs = tried_writes.logs_of(tmp_path)
    logs.mkdir(parents=True)
    (logs / "block.json").write_text(json.dumps({"state": "agent_failed", "reason": "no agent"}))
    assert tried_writes.why_untried(tmp_path) == "no agent"
    (logs / "block.json").write_text(json.dumps({"state": "done", "reason": None}))
    assert tried_writes.why_untried(tmp_path) is None


def test_the_reason_why_some_writes_were_not_tried_comes_beside_the_findings_on_others(tmp_path):
    logs = tried_writes.logs_of(tmp_path)
    logs.mkdir(parents=True)
    trial.save([Trial("perftest", None, None, [writer()], [None])], logs)
    reason = "an agent did not read its node's load within 30 s"
    (logs / "block.json").write_text(json.dumps({"state": "machine_failed", "reason": reason}))
    (tmp_path / "trial-plan.json").touch()
    job_inspection = replace(in_job.read_job_inspection(tmp_path, 0), nodes=NODES)
    rows = {finding.what: finding for finding in in_job.job_findings(job_inspection, CLUSTER)}
    assert (rows["writes between nodes"].state, rows["writes between nodes"].detail) == (
        "missing",
        reason,
    )
    assert rows["writes by perftest"].state == "ok"


def test_a_trial_that_a_time_limit_ended_is_reported_with_the_state_of_the_job(tmp_path):
    assert tried_writes.why_untried(tmp_path, "TIMEOUT,TIMEOUT") == (
        "the trial did not finish; the job ended as TIMEOUT,TIMEOUT"
    )


def test_a_missing_injector_is_reported_with_how_to_install_it():
    why = "ucx_perftest with verbs is missing for mlx5_0: 'apt install ucx-utils'"
    nodes = [NODES[0], replace(NODES[1], injector_faults={"perftest": None, "ucx": why})]
    node_trial = Trial("ucx", "writer 0 (ucx, n2): No such file or directory", None, [], [])
    (finding,) = tried_writes.trial_findings([node_trial], nodes, CLUSTER)
    assert (finding.what, finding.state, finding.needed) == ("writes by ucx", "limited", False)
    assert (finding.detail, finding.remedy) == tuple(why.split(": "))


@pytest.mark.parametrize("counted_b", [0, 70, 719_000_000])
def test_a_counter_that_stands_still_is_named_first(counted_b):
    """If the writes do not pass an interface, it counts only a few other bytes.

    These are less than 1 % of the 72 GB that were written.
    """
    rejection = "writer 0 wrote nothing for 2.8 s"
    finding = finding_of(writers=[writer(counted_b=counted_b)], rejection=rejection)
    assert (finding.state, finding.needed) == ("missing", True)
    assert finding.detail.startswith(
        "a counter that stands still: rdma:mlx5_0/1 at n1; 24.00 GB/s, 96 % of the link"
    )
    assert "`device` that carries the writes in site/box.yaml" in finding.remedy


def test_a_counter_that_shows_a_part_of_the_writes_does_not_stand_still():
    rejection = "n1 counted 721.0 MB"
    finding = finding_of(writers=[writer(counted_b=721_000_000)], rejection=rejection)
    assert finding.detail.startswith(f"a run would be rejected: {rejection}; ")
