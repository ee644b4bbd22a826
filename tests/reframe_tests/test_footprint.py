"""Footprints as planning resolves them, for each injector; 48 MiB are the last-level caches."""

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


def end(injector, plan):
    """The words of a writer that the origin starts, after the program, and what it writes over."""
    writer = made_writers.writer(
        address="10.0.0.2", port=20001, message_b=plan.message_b, footprint_b=plan.footprint_b
    )
    return INJECTORS[injector].footprint_b(writer), writer


@pytest.mark.parametrize(
    ("injector", "footprint", "message", "message_b", "written_b"),
    [
        # What the papers did: one buffer of a message.
        ("perftest", "auto", "auto", 64 * KIB, 64 * KIB),
        # Small messages step through the 4 KiB of a buffer.
        ("perftest", "auto", "2KiB", 2 * KIB, 4 * KIB),
        ("perftest", "auto", "3KiB", 3 * KIB, 3 * KIB),
        ("perftest", "2MiB", "auto", 64 * KIB, 2 * MIB),
        ("perftest", "4*llc", "1MiB", MIB, 192 * MIB),
        # Whole messages: 100 KiB are two of 64 KiB; 8 KiB are two buffers of 4 KiB.
        ("perftest", "100KiB", "auto", 64 * KIB, 128 * KIB),
        ("perftest", "8KiB", "1KiB", KIB, 8 * KIB),
        # A smaller footprint makes the message smaller.
        ("perftest", "16KiB", "auto", 16 * KIB, 16 * KIB),
        # Its message; at most 32 of them, or 2 MiB, at a time.
        ("ucx", "auto", "auto", 64 * KIB, 64 * KIB),
        ("ucx", "llc/2", "auto", 24 * MIB, 24 * MIB),
        ("mpi_put", "auto", "auto", 64 * KIB, 2 * MIB),
        ("mpi_put", "auto", "1KiB", KIB, 32 * KIB),
        ("mpi_put", "auto", "3MiB", 3 * MIB, 3 * MIB),
        ("mpi_put", "llc", "auto", 64 * KIB, 48 * MIB),
        ("mpi_put", "64KiB", "auto", 64 * KIB, 64 * KIB),
    ],
)
def test_footprints_that_are_chosen(injector, footprint, message, message_b, written_b):
    plan = writes(injector, footprint, message)
    assert (plan.message_b, end(injector, plan)[0]) == (message_b, written_b)


def test_mpi_put_passes_through_whole_messages():
    writer = made_writers.writer(target="o", port=20001, message_b=MIB, footprint_b=5 * MIB // 2)
    assert INJECTORS["mpi_put"].footprint_b(writer) == 3 * MIB


def test_programs_are_told():
    _, perftest_writer = end("perftest", writes("perftest", "2MiB"))
    for command in (INJECTORS["perftest"].target_command, INJECTORS["perftest"].origin_command):
        words = " ".join(command(perftest_writer))
        # 32 queue pairs, and as many messages under way as one has by default: 128.
        assert " -s 65536 " in words
        assert " -q 32 -t 4 " in f"{words} "
    _, mpi_writer = end("mpi_put", writes("mpi_put", "llc/2"))
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
def test_a_footprint_that_cannot_be_is_refused_in_a_line(levels, fault):
    with pytest.raises(InputError, match=fault):
        writes(*levels)


def test_an_injector_whose_footprint_cannot_be_chosen_says_so(monkeypatch):
    monkeypatch.setattr(INJECTORS["ucx"], "footprint_by", None)
    fault = (
        "footprint: 2MiB found; the footprint of ucx cannot be chosen;"
        " allowed: auto, or injector perf"
    )
    with pytest.raises(InputError, match=fault):
        writes("ucx", "2MiB")
