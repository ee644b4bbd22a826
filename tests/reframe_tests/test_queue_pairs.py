"""Tests of the number of queue pairs that planning chooses for a writer.

A queue pair is a connection between a writer and a target. The number None means that the conductor
chooses the number during the block.
"""

import pytest

from records.errors import InputError
from reframe_tests import planning
from reframe_tests.scaling import FIELDS, ScaleRequest
from tests.records.machine import made

FACTS = {"cores": 64, "sockets": 2, "numa_nodes": 2, "nic_node": 0, "llc": "48MiB"}
CLUSTER = made.machine("same_job", device="mlx5_0", facts={**FACTS, "memory": "64GiB"})
SHARED = made.machine("same_host", facts={**FACTS, "memory": "64GiB"})


def writes(machine=CLUSTER, arm="on", **levels):
    request = planning.CaseRequest(arms=["off", arm], levels={"injector": "perftest", **levels})
    scale = planning.resolved_scale(request, machine)
    return planning.treatments(request, machine, scale)[-1].writes


@pytest.mark.parametrize(
    ("machine", "levels", "queue_pairs"),
    [
        (CLUSTER, {}, None),
        (CLUSTER, {"queue_pairs": "auto", "rate": "25%"}, None),
        (CLUSTER, {"queue_pairs": 1}, 1),
        (CLUSTER, {"queue_pairs": "8", "injector": "mpi_put"}, 8),
        # Writers on one host share its memory, and need no further queue pairs. With a footprint,
        # the writer has a queue pair for each message anyway.
        (SHARED, {"injector": "mpi_put"}, 1),
        (CLUSTER, {"footprint": "1MiB"}, 1),
    ],
)
def test_planning_chooses_the_number_of_queue_pairs(machine, levels, queue_pairs):
    assert writes(machine, **levels).queue_pairs == queue_pairs


@pytest.mark.parametrize(
    ("machine", "levels", "fault"),
    [
        (
            SHARED,
            {"injector": "ucx", "queue_pairs": 2},
            "queue_pairs: 2 found; .* allowed: auto, 1",
        ),
        (
            CLUSTER,
            {"queue_pairs": 2, "footprint": "1MiB"},
            "queue_pairs: 2 found; footprint 1MiB .*; allowed: auto",
        ),
    ],
)
def test_an_impossible_number_of_queue_pairs_is_refused(machine, levels, fault):
    with pytest.raises(InputError, match=fault):
        writes(machine, **levels)


@pytest.mark.parametrize("level", [0, 33, "two", "1.5", -1])
def test_an_invalid_level_of_queue_pairs_is_refused(level):
    level_faults = planning.level_faults({"queue_pairs": level}, {}, comparable_across_cores=True)
    ((name, _, text),) = level_faults
    assert name == "queue_pairs"
    assert text == f"{level} found; allowed: auto, or a number from 1 to 32"


def test_short_writes_have_one_queue_pair():
    short = {name: getattr(ScaleRequest(nodes=64, counted_per_node=1), name) for name in FIELDS}
    assert writes(arm="daly", **short).queue_pairs == 1
    with pytest.raises(InputError, match=r"queue_pairs: 4 found; arm daly .* allowed: auto, 1"):
        writes(arm="daly", queue_pairs=4, **short)
