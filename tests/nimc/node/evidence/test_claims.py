"""Claims and counts worked out by hand: one writer of 1000 B, or two of 1000 B and 500 B."""

from dataclasses import replace

import pytest

from nimc.node.evidence.claims import Count, attach, disagreement, passed, with_total
from nimc.node.evidence.counters import Reading
from nimc.records.sample import MANY, WriterRecord


def record(claim_b: float, target: str = "n1", message_b: int = 64) -> WriterRecord:
    return WriterRecord(
        injector="perftest",
        origin="n9",
        target=target,
        transport="soft-RoCE",
        message_b=message_b,
        asked_b_s=None,
        rate_alone_b_s=100.0,
        rate_b_s=100.0,
        rate_min_b_s=100.0,
        bytes_b=claim_b,
    )


def test_what_was_received_lies_between_two_readings():
    before = {
        "n1": Reading("net:eth0", 5000, at_s=7.0),
        "n2": None,
        "n3": Reading("rdma:a/1", 1, True),
    }
    after = {
        "n1": Reading("net:eth0", 6040, at_s=7.5),
        "n2": None,
        "n3": Reading("rdma:a/1", 1, True),
    }
    assert passed(before, after) == {"n1": ("net:eth0", 1040, 0.5)}


def test_a_control_claims_nothing_and_is_not_counted():
    (control,) = attach([record(0, message_b=0)], {"n1": Count("net:eth0", 1040, 1.0)})
    assert control.counted_b is None


def test_the_rate_alone_is_what_was_counted_with_no_application():
    before = {"n1": Count("net:eth0", 300, 2.0)}
    (seen,) = attach([record(1000)], {"n1": Count("net:eth0", 1040, 8.0)}, before)
    assert (seen.counted_b, seen.counted_s, seen.counted_alone_b_s) == (1040, 8.0, 150.0)


@pytest.mark.parametrize(
    ("counted_b", "share", "alone", "fine"),
    [
        (1040, 0.2, True, True),
        (801, 0.2, True, True),
        (799, 0.2, True, False),
        (1201, 0.2, True, False),
        (9999, 0.2, False, True),  # the application's own messages
        (799, 0.2, False, False),
        (0, 0.99, False, False),  # claimed but never arrived
    ],
)
def test_a_count_that_does_not_go_with_the_claim_rejects(counted_b, share, alone, fine):
    records = attach([record(1000)], {"n1": Count("net:eth0", counted_b, 1.0)})
    assert (disagreement(records, share, alone) is None) == fine


def test_all_writers_to_a_target_are_compared_with_its_count_together():
    records = attach([record(1000), record(500)], {"n1": Count("net:eth0", 1500, 1.0)})
    assert disagreement(records, 0.01, alone=True) is None
    assert "claim 0.0 MB" in str(disagreement(records[:1], 0.01, alone=True))


def test_without_a_counter_there_is_nothing_to_disagree():
    assert disagreement([record(1000)], 0.2, alone=True) is None


@pytest.mark.parametrize(("second_b", "fine"), [(700, True), (90_000, True), (0, False)])
def test_writers_of_many_targets_are_held_against_all_their_counts(second_b, fine):
    # Two writers claim 1000 B and 500 B; n1 counted 550 B.
    counts = {"n1": Count("rdma:a/1", 550, 2.0), "n2": Count("rdma:a/1", second_b, 2.5)}
    records = attach([record(1000, MANY), record(500, MANY)], with_total(counts, ["n1", "n2"]))
    for seen in records:
        assert (seen.counter, seen.counted_b) == ("rdma:a/1", 550 + second_b)
        assert seen.counted_s == 2.5
    fault = disagreement(records, 0.2, alone=False)
    assert (fault is None) == fine
    assert fine or "all targets together counted" in str(fault)


def test_many_targets_of_which_one_does_not_count_prove_nothing():
    counts = {"n1": Count("rdma:a/1", 1, 2.0)}
    (seen,) = attach([record(1000, MANY)], with_total(counts, ["n1", "n2"]))
    assert seen.counted_b is None


def test_what_no_row_covers_may_have_been_written_or_not():
    """Rows cover half of the window: 1000 B were written for certain, and up to 2000 B in all."""
    half = replace(record(1000), observed_share=0.5)

    def fault(counted_b: int) -> str | None:
        counts = {"n1": Count("rdma:a/1", counted_b, 2.0)}
        return disagreement(attach([half], counts), 0.2, alone=True)

    assert [fault(b) is None for b in (799, 801, 2000, 2399, 2401)] == [
        False, True, True, True, False,
    ]  # fmt: skip
    assert "the writers claim 0.0 to 0.0 MB" in str(fault(2401))
