"""Tests of the footprint that planning chooses for each injector.

The footprint is the memory over which a writer writes. The last-level caches have 48 MiB in all.
"""

import pytest

from conductor.injectors import INJECTORS
from records.errors import InputError
from reframe_tests import planning
from tests import made_writers
from tests.records.machine import made

KIB, MIB = 1 << 10, 1 << 20
FACTS = {"cores": 64, "sockets": 2, "numa_nodes": 2, "nic_node": 0, "llc": "48MiB"}
MACHINE = made.machine("same_job", device="mlx5_0", facts={**FACTS, "memory": "64GiB"})


def writes(injector, footprint, message="auto", arm="on"):
    levels = {"injector": injector, "message": message, "footprint": footprint}
    request = planning.CaseRequest(arms=["off", arm], levels=levels)
    return planning.treatments(request, MACHINE)[-1].writes


def footprint_and_writer(injector, plan):
    """Return the bytes of the footprint of a planned writer, and the writer itself."""
    writer = made_writers.writer(
        address="10.0.0.2", port=20001, message_b=plan.message_b, footprint_b=plan.footprint_b
    )
    return INJECTORS[injector].footprint_b(writer), writer


@pytest.mark.parametrize(
    ("injector", "footprint", "message", "message_b", "written_b"),
    [
        # The papers used one buffer of the size of a message.
        ("perftest", "auto", "auto", 64 * KIB, 64 * KIB),
        # Successive small messages fill a buffer of 4 KiB.
        ("perftest", "auto", "2KiB", 2 * KIB, 4 * KIB),
        ("perftest", "auto", "3KiB", 3 * KIB, 3 * KIB),
        ("perftest", "2MiB", "auto", 64 * KIB, 2 * MIB),
        ("perftest", "4*llc", "1MiB", MIB, 192 * MIB),
        # A footprint is a number of whole messages: 100 KiB need two messages of 64 KiB, and 8 KiB
        # are two buffers of 4 KiB.
        ("perftest", "100KiB", "auto", 64 * KIB, 128 * KIB),
        ("perftest", "8KiB", "1KiB", KIB, 8 * KIB),
        # If the footprint is smaller than the default message, the message gets the footprint's
        # size.
        ("perftest", "16KiB", "auto", 16 * KIB, 16 * KIB),
        # The footprint of ucx is its message. The default footprint of mpi_put is 32 messages, but
        # at most 2 MiB or one message.
        ("ucx", "auto", "auto", 64 * KIB, 64 * KIB),
        ("ucx", "llc/2", "auto", 24 * MIB, 24 * MIB),
        ("mpi_put", "auto", "auto", 64 * KIB, 2 * MIB),
        ("mpi_put", "auto", "1KiB", KIB, 32 * KIB),
        ("mpi_put", "auto", "3MiB", 3 * MIB, 3 * MIB),
        ("mpi_put", "llc", "auto", 64 * KIB, 48 * MIB),
        ("mpi_put", "64KiB", "auto", 64 * KIB, 64 * KIB),
    ],
)
def test_planning_chooses_message_and_footprint(injector, footprint, message, message_b, written_b):
    plan = writes(injector, footprint, message)
    assert (plan.message_b, footprint_and_writer(injector, plan)[0]) == (message_b, written_b)


def test_the_footprint_of_mpi_put_is_a_number_of_whole_messages():
    writer = made_writers.writer(target="o", port=20001, message_b=MIB, footprint_b=5 * MIB // 2)
    assert INJECTORS["mpi_put"].footprint_b(writer) == 3 * MIB


def test_the_commands_of_injectors_name_message_and_footprint():
    _, perftest_writer = footprint_and_writer("perftest", writes("perftest", "2MiB"))
    for command in (INJECTORS["perftest"].target_command, INJECTORS["perftest"].origin_command):
        words = " ".join(command(perftest_writer))
        # 32 queue pairs with 4 messages under way each have 128 messages under way together, as
        # many as one queue pair has by default.
        assert " -s 65536 " in words
        assert " -q 32 -t 4 " in f"{words} "
    _, mpi_writer = footprint_and_writer("mpi_put", writes("mpi_put", "llc/2"))
    words = " ".join(INJECTORS["mpi_put"].rank_command(mpi_writer))
    assert f" --size 65536 --footprint {24 * MIB} " in words


@pytest.mark.parametrize(
    ("levels", "fault"),
    [
        (
            ("ucx", "2MiB", "64KiB"),
            "message: 64KiB found; the message of ucx is its footprint, 2MiB; allowed: auto",
        ),
        (("mpi_put", "32KiB", "64KiB"), "footprint: 32KiB found; .* from 65536 B "),
        (
            ("perftest", "2GiB", "64KiB"),
            r"footprint: 2GiB found; .* to 1073741824 B \(16384 messages\)",
        ),
    ],
)
def test_an_impossible_footprint_is_refused(levels, fault):
    with pytest.raises(InputError, match=fault):
        writes(*levels)


def test_a_message_beyond_the_caches_may_be_more_than_perftest_allows():
    """Two processors with 3D V-Cache have more than 1 GiB of it."""
    large = made.machine(
        "same_job", device="mlx5_0", facts={**FACTS, "llc": "1152MiB", "memory": "512GiB"}
    )

    def message_b(message: str, footprint: str) -> int:
        levels = {"injector": "perftest", "message": message, "footprint": footprint}
        request = planning.CaseRequest(arms=["off", "on"], levels=levels)
        return planning.treatments(request, large)[-1].writes.message_b

    fault = "message: dram found; it is 2415919104 B, with perftest; allowed: at most 2147483647 B"
    for footprint in ("auto", "4*llc"):
        with pytest.raises(InputError, match=fault):
            message_b("dram", footprint)
    assert message_b("256KiB", "2*llc") == 256 * KIB  # as the message advises


@pytest.mark.parametrize(
    ("injector", "footprint", "message", "fault"),
    [
        ("mpi_put", "auto", "65GiB", "message: 65GiB found; it is 69793218560 B; allowed: at most"),
        (
            "perftest",
            "65GiB",
            "1GiB",
            "footprint: 65GiB found; .* memory of a node .*, 68719476736",
        ),
    ],
)
def test_writes_do_not_exceed_the_memory_of_a_node(injector, footprint, message, fault):
    """A node has 64 GiB."""
    with pytest.raises(InputError, match=fault):
        writes(injector, footprint, message)


def test_a_footprint_is_refused_for_an_injector_that_cannot_take_one(monkeypatch):
    monkeypatch.setattr(INJECTORS["ucx"], "footprint_by", None)
    fault = (
        "footprint: 2MiB found; the footprint of ucx cannot be chosen;"
        " allowed: auto, or injector perf"
    )
    with pytest.raises(InputError, match=fault):
        writes("ucx", "2MiB")
