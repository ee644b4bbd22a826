"""Which bytes the devices of a run's targets must count, and must not, by the plan of its block."""

from dataclasses import replace

import pytest

from conductor.block.allocation import Allocation
from conductor.block.assignment import Assignment
from conductor.block.demands import Demands
from conductor.judge.series import Rails
from records.block_plan import BlockPlan
from records.treatment import Start, Treatment, Writes
from tests.conductor.block_plans import PLAN

WRITES = Writes(injector="perftest", message_b=65536, devices=("m0", "m1"))
READS = replace(WRITES, injector="perftest_read")
CONTROL = Writes(injector="spin", message_b=0)
APART = replace(PLAN, origin_policy="hetjob")
RAILS = ["m0", "m1"]
NODES = Allocation(["n1"], ["o1"])


def treatment_with(writes: Writes | None) -> Treatment:
    return Treatment(name="on", start=Start(command=["x"]), writes=writes)


def block(plan: BlockPlan = APART, writes: Writes | None = WRITES) -> BlockPlan:
    """Return a block with three treatments: without writes, with these writes, with a control."""
    return replace(plan, treatments=[treatment_with(kind) for kind in (None, writes, CONTROL)])


def demands(plan: BlockPlan, nodes: Allocation = NODES) -> Demands:
    return Demands(plan, Assignment(plan, nodes))


@pytest.mark.parametrize(
    ("plan", "devices"),
    [
        (APART, ["m0", "m1"]),  # the devices of the writers
        (replace(APART, rails=["m0"]), ["m0"]),
        (replace(APART, rails=["m0"], origin_policy="same_host"), []),
    ],
)
def test_targets_devices_are_counted_unless_writes_stay_on_one_host(plan, devices):
    assert demands(block(plan)).devices == devices


@pytest.mark.parametrize(
    ("writes", "block_writes", "silent"),
    [
        (None, WRITES, ["received"]),
        (CONTROL, WRITES, ["received"]),
        (replace(WRITES, scheduled=0), WRITES, ["received"]),
        (None, READS, ["sent"]),
        (None, None, []),  # nothing in the block writes
        (WRITES, WRITES, []),
        (replace(WRITES, scheduled=2), WRITES, []),
    ],
)
def test_no_bytes_may_pass_in_a_run_without_writes_in_the_direction_of_its_blocks_writes(
    writes, block_writes, silent
):
    treatment = treatment_with(writes)
    assert demands(block(writes=block_writes)).forbidden_directions(treatment) == silent


def test_rails_that_no_writer_uses_are_not_required():
    """Of 4 targets with 2 writers each, the last writer uses the fifth of 8 rails."""
    rails = [f"m{number}" for number in range(8)]
    writes = replace(WRITES, devices=tuple(rails), clients=2)
    nodes = Allocation(["n1", "n2", "n3", "n4"], ["o1"])
    plan = replace(APART, rails=rails, n_origins=1)
    assert demands(plan, nodes).rails(treatment_with(writes)) == Rails(rails, rails[:5], rails[:5])


def named(writers=None, ranks=None, devices=(), scheduled=None):
    writes = None
    if writers is not None:
        writes = Writes(
            injector="perftest", message_b=65536, devices=tuple(writers), scheduled=scheduled
        )
    return Treatment(
        name="on", start=Start(command=["x"], ranks=ranks, devices=list(devices)), writes=writes
    )


@pytest.mark.parametrize(
    ("treatment", "targets", "required", "allowed"),
    [
        # One writer uses the first of several devices, two writers use both.
        (named(RAILS), 1, ["m0"], ["m0"]),
        (named(RAILS), 2, RAILS, RAILS),
        (named(RAILS, scheduled=2), 2, ["m0"], ["m0"]),
        (named(RAILS, scheduled=0), 2, [], []),
        # On one node, MPI sends nothing over a rail. Between two nodes it may choose the rails
        # itself, unless the treatment names devices.
        (named(ranks=4, devices=["m1"]), 1, [], []),
        (named(ranks=4, devices=["m1"]), 2, ["m1"], ["m1"]),
        (named(ranks=4), 2, [], RAILS),
        (named(["m0"], 4), 2, ["m0"], RAILS),
        (named(["m0"], 4, ["m1"]), 2, RAILS, RAILS),
        (named(), 1, [], []),
    ],
)
def test_rails_that_a_treatment_names(treatment, targets, required, allowed):
    plan = replace(APART, rails=RAILS, n_origins=1)
    nodes = Allocation([f"n{number}" for number in range(targets)], ["o1"])
    assert demands(plan, nodes).rails(treatment) == Rails(RAILS, required, allowed)
    for without_rails in (APART, replace(plan, origin_policy="same_host")):
        assert demands(without_rails, nodes).rails(treatment) is None
