"""What the trial of a job tries, and the rows that come of it; figures are by hand."""

import json
from dataclasses import replace
from typing import Any

import pytest

from conductor.trial import Trial
from nimc.cluster import trial
from records.sample import WriterRecord
from tests.nimc.cluster.made import FAST, node
from tests.records.machine.made import machine

NIC = {"model": "HDR", "processing": "offload", "link_rate": "200Gbit/s"}  # 25 GB/s
CLUSTER = machine("same_job", device="mlx5_0", nic=NIC)
NODES = [node("n1", FAST), node("n2", FAST)]


def writer(**changes: Any) -> WriterRecord:
    """A writer that reaches 24 GB/s over four queue pairs, which the target's device counts."""
    fields: dict[str, Any] = {
        **{"injector": "perftest", "origin": "n2", "target": "n1", "transport": "InfiniBand"},
        **{"message_b": 65536, "asked_b_s": None, "rate_alone_b_s": 24e9, "rate_b_s": 24e9},
        **{"rate_min_b_s": 23e9, "bytes_b": 72e9, "counted_b": 72.6e9, "counted_s": 3.0},
        **{"counter": "rdma:mlx5_0/1", "proof": "device", "queue_pairs": 4},
        "target_buffers_b": {"1": 262144},
    }
    return WriterRecord(**{**fields, **changes})


def row(**changes: Any) -> Any:
    fields = {"name": "perftest", "failure": None, "writers": [writer()], "sent_b_s": [24.1e9]}
    (found,) = trial.findings([Trial(**{**fields, **changes})], NODES, CLUSTER)
    return found


def test_what_writers_reached_and_what_counted_them():
    found = row()
    assert (found.what, found.state, found.needed) == ("writes by perftest", "ok", True)
    assert found.detail == (
        "24.00 GB/s, 96% of the link over InfiniBand, 4 queue pairs; counted: 24.20 GB/s at the"
        " target by rdma:mlx5_0/1, 24.10 GB/s at the origin; proof: device; buffers on NUMA node 1"
        "; mlx5_0 on NUMA node 1"
    )


def test_the_gids_of_both_ends_are_shown():
    nodes = [replace(node, gid_index=index) for node, index in zip(NODES, (3, 1), strict=True)]
    tried = Trial("perftest", None, None, [writer()], [None])
    (found,) = trial.findings([tried], nodes, CLUSTER)
    assert found.detail.endswith("; GID index: n1 3, n2 1")


@pytest.mark.parametrize(
    ("changes", "state", "begin", "remedy"),
    [
        (
            {"failure": "writer 0 (perftest, n2): Couldn't create QP", "writers": []},
            *("missing", "writer 0 (perftest, n2): Couldn't create QP", ""),
        ),
        (
            {"rejection": "counted 1 B, claimed 9 B"},
            *("limited", "a run would be rejected: counted 1 B, claimed 9 B; ", "reliability"),
        ),
        ({"writers": [writer(proof="unproven")]}, "limited", "unproven; 24.00 GB/s", "device"),
        # 19 of 25 GB/s are 76 %.
        (
            {"writers": [writer(rate_alone_b_s=19e9)]},
            *("limited", "19.00 GB/s, 76% of the link", "queue_pairs"),
        ),
    ],
)
def test_what_is_wrong_with_the_writes_of_the_machines_injector(changes, state, begin, remedy):
    found = row(**changes)
    assert (found.state, found.needed) == (state, True)
    assert found.detail.startswith(begin)
    assert remedy in found.remedy


def test_other_injectors_restrict_nothing_and_those_that_nodes_lack_are_left_out():
    failed = Trial("mpi_put", "writer 0 (mpi_put, n2): PML ucx cannot be selected")
    (found,) = trial.findings([failed], NODES, CLUSTER)
    assert (found.what, found.state, found.needed) == ("writes by mpi_put", "limited", False)
    lacking = [replace(NODES[0], injectors={"mpi_put": "mpi_put is missing: make"})]
    assert list(trial.findings([failed], lacking, CLUSTER)) == []
    both = [writer(target=name) for name in ("n1", "n3")]
    (found,) = trial.findings([Trial("perftest_read", None, None, both, [None])], NODES, CLUSTER)
    assert found.what == "reads by perftest"
    assert "48.00 GB/s, 96% of the link" in found.detail  # of two targets
    assert "nothing at the origin" in found.detail


def test_the_plan_tries_writes_and_reads_of_the_machine_and_writes_of_the_others(tmp_path):
    plan = trial.plan_of(CLUSTER, tmp_path)
    names = [treatment.name for treatment in plan.treatments]
    assert names[:2] == ["perftest", "perftest_read"]
    assert {"ucx", "mpi_put"} <= set(names[2:])
    assert [treatment.writes.queue_pairs for treatment in plan.treatments] == [None] * len(names)
    assert (plan.pairs, plan.nimc_dir) == (0, str(tmp_path))
    alone = trial.plan_of(machine("same_host", injector="ucx"), tmp_path)
    assert [treatment.name for treatment in alone.treatments] == ["ucx", "ucx_read"]


def test_a_trial_that_did_not_end_says_why(tmp_path):
    assert trial.read(tmp_path) == []
    assert trial.why_untried(tmp_path) == "the trial left no result"
    logs = trial.logs_of(tmp_path)
    logs.mkdir(parents=True)
    (logs / "block.json").write_text(json.dumps({"state": "agent_failed", "reason": "no agent"}))
    assert trial.why_untried(tmp_path) == "no agent"


def test_a_job_that_its_time_limit_ended_says_so(tmp_path):
    assert trial.why_untried(tmp_path, "TIMEOUT,TIMEOUT") == (
        "the trial left no result; the job ended as TIMEOUT,TIMEOUT"
    )


def test_a_counter_that_stands_still_is_named_first():
    found = row(writers=[writer(counted_b=0.0)], rejection="writer 0 wrote nothing for 2.8 s")
    assert (found.state, found.needed) == ("missing", True)
    assert found.detail.startswith(
        "a counter that stands still: rdma:mlx5_0/1 at n1; 24.00 GB/s, 96% of the link"
    )
    assert "`device` that carries the writes in site/box.yaml" in found.remedy
