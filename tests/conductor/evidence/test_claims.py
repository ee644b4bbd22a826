"""Claims, counts and looks worked out by hand: a writer of 100 B/s alone that claims 1000 B."""

from dataclasses import replace

import pytest

from conductor.evidence.claims import (
    Count,
    Look,
    Looked,
    attach,
    disagreement,
    longest_silence_s,
    passed,
    refuted,
    unproven,
    with_proof,
    with_total,
)
from conductor.evidence.counters import Reading
from records.plan import Demand
from records.sample import MANY, WriterRecord

DEMAND = Demand(min_share=0.5, silent_s=0.5)


def record(claim_b: float = 1000, target: str = "n1", message_b: int = 64) -> WriterRecord:
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


def counted(count_b: int, *records: WriterRecord) -> list[WriterRecord]:
    """The records, one by default, with what their target's device counted."""
    return attach(list(records) or [record()], {"n1": Count("net:eth0", count_b, 8.0)})


def marks(seen: int, of: int = 20, silent_s: float = 0.0) -> Looked:
    return Looked(0, "the target's memory", of, seen, silent_s, memory=True)


def fault(looked: Looked, **asked: int) -> str | None:
    return refuted([record(**asked)], {0: looked}, DEMAND, alone=True)


def test_what_was_received_lies_between_two_readings():
    stuck = {"n2": None, "n3": Reading("rdma:a/1", 1, True)}
    before = {"n1": Reading("net:eth0", 5000, at_s=7.0), **stuck}
    after = {"n1": Reading("net:eth0", 6040, at_s=7.5), **stuck}
    assert passed(before, after) == {"n1": ("net:eth0", 1040, 0.5)}


def test_a_control_claims_nothing_is_not_counted_and_has_no_proof():
    (control,) = with_proof(counted(1040, record(0, message_b=0)), {})
    assert (control.counted_b, control.proof, unproven([control], {})) == (None, None, None)


def test_the_rate_alone_is_what_was_counted_with_no_application():
    before = {"n1": Count("net:eth0", 300, 2.0)}
    (seen,) = attach([record()], {"n1": Count("net:eth0", 1040, 8.0)}, before)
    assert (seen.counted_b, seen.counted_s, seen.counted_alone_b_s) == (1040, 8.0, 150.0)
    for unknown in ({}, {"n1": Count("net:eth0", 300, 0.0)}):
        (seen,) = attach([record()], {"n1": Count("net:eth0", 1040, 8.0)}, unknown)
        assert (seen.counted_b, seen.counted_alone_b_s) == (1040, None)


#: Rows cover half of the window: 1000 B were written for certain, and up to 2000 B in all.
HALF = replace(record(), observed_share=0.5)


@pytest.mark.parametrize(
    ("records", "counted_b", "share", "alone", "fine"),
    [
        ([record()], 800, 0.2, True, True),
        ([record()], 799, 0.2, True, False),
        ([record()], 1200, 0.2, True, True),
        ([record()], 1201, 0.2, True, False),
        ([record(0)], 999, 0.2, True, True),
        ([record()], 9999, 0.2, False, True),  # the application's own messages
        ([record()], 799, 0.2, False, False),
        ([record()], 0, 0.99, False, False),  # claimed but never arrived
        ([record(), record(500)], 1500, 0.01, True, True),  # all writers of a target together
        ([record(), record(500)], 1000, 0.01, True, False),
        ([HALF], 799, 0.2, True, False),
        ([HALF], 801, 0.2, True, True),
        ([HALF], 2399, 0.2, True, True),
        ([HALF], 2401, 0.2, True, False),
    ],
)
def test_a_count_that_does_not_go_with_the_claim_rejects(records, counted_b, share, alone, fine):
    assert (disagreement(counted(counted_b, *records), share, alone) is None) == fine
    assert (refuted(counted(counted_b, *records), {}, DEMAND, alone) is None) == fine


def test_a_disagreement_says_what_was_claimed_at_least_and_at_most():
    assert disagreement(counted(10**7, replace(HALF, bytes_b=1e6)), 0.2, alone=True) == (
        "n1 counted 10.0 MB (net:eth0), but the writers claim 1.0 to 2.0 MB; allowed difference:"
        " 20%"
    )


@pytest.mark.parametrize(("second_b", "fine"), [(700, True), (90_000, True), (0, False)])
def test_writers_of_many_targets_are_compared_with_all_their_counts(second_b, fine):
    # Two writers claim 1000 B and 500 B; n1 counted 550 B.
    counts = {"n1": Count("rdma:a/1", 550, 2.5), "n2": Count("rdma:b/1", second_b, 2.0)}
    records = attach([record(1000, MANY), record(500, MANY)], with_total(counts, ["n1", "n2"]))
    for seen in records:
        assert (seen.counter, seen.counted_b) == ("rdma:a/1+rdma:b/1", 550 + second_b)
        assert seen.counted_s == 2.5
    found = disagreement(records, 0.2, alone=False)
    assert (found is None) == fine
    assert fine or "all targets together counted" in str(found)
    del counts["n2"]  # without a count of one, all prove nothing
    (seen,) = attach([record(1000, MANY)], with_total(counts, ["n1", "n2"]))
    assert (seen.counted_b, disagreement([seen], 0.2, alone=True)) == (None, None)


@pytest.mark.parametrize(("seen", "proof"), [(20, "memory"), (18, "memory"), (17, "unproven")])
def test_marks_prove_if_nearly_all_were_overwritten(seen, proof):
    (found,) = with_proof([record()], {0: marks(seen)})
    assert (found.proof, found.overwritten_share) == (proof, seen / 20)


def test_a_device_that_counted_is_proof_and_its_looks_are_not_marks():
    (found,) = with_proof(counted(1040), {0: Looked(0, "sent by eth0", 20, 20, 0.0, memory=False)})
    assert (found.proof, found.overwritten_share) == ("device", None)
    assert unproven([found], {}) is None


def test_what_nothing_shows_is_reported_with_the_reason():
    reason = "the target's memory: Operation not permitted"
    looked = {1: replace(marks(0, of=0), writer=1, fault=reason)}
    found = with_proof([*counted(1040), record(1, "n2"), record(1, "n3")], looked)
    note = str(unproven(found, looked))
    assert "n2, n3" in note
    assert "n1" not in note
    assert f"({reason})" in note
    assert "the targets" in str(unproven(with_proof([record(1000, MANY)], {}), {}))


def test_silence_of_a_writer_refutes_it():
    assert fault(marks(20, silent_s=0.5), message_b=4) is None
    assert fault(marks(0, silent_s=9.0), message_b=0) is None  # a control
    assert fault(marks(18, silent_s=0.75), message_b=4) == (
        "writer 0 wrote nothing for 0.8 s (the target's memory); allowed: 0.5 s"
    )


@pytest.mark.parametrize("memory", [True, False])
def test_a_pause_of_three_long_messages_is_no_silence(memory):
    """A message of 20 B takes 0.2 s alone: three of them 0.6 s, whatever share is accepted."""
    for silent_s, fine in ((0.65, False), (0.55, True)):
        sent = replace(marks(18, silent_s=silent_s), memory=memory)
        assert (fault(sent, message_b=20) is None) == fine
    # At half that rate, as asked for, it takes as long as two.
    slow = replace(record(message_b=20), asked_b_s=50.0)
    for silent_s, fine in ((1.15, True), (1.25, False)):
        seen = replace(marks(18, silent_s=silent_s), memory=memory)
        assert (refuted([slow], {0: seen}, DEMAND, alone=True) is None) == fine
    still = replace(slow, rate_alone_b_s=0.0)
    assert "allowed: 0.5 s" in str(refuted([still], {0: seen}, DEMAND, alone=True))


@pytest.mark.parametrize(
    ("amounts", "silent_s"),
    [
        ([], 0.0),
        ([7, 9, 8, 7], 0.0),
        ([0, 0, 0, 0], 1.0),
        ([9, 0, 9, 0, 0, 9], 0.5),
        ([9, 9, 0, 0, 0], 0.75),
        # Mean 600 a look: 29 is less than a twentieth of it, 31 is more.
        ([1000, 29, 29, 1000, 942], 0.5),
        ([1000, 31, 31, 1000, 938], 0.0),
    ],
)
def test_the_longest_time_without_anything(amounts, silent_s):
    looks = [Look(i / 4, (i + 1) / 4, amount) for i, amount in enumerate(amounts)]
    assert longest_silence_s(looks) == pytest.approx(silent_s)


def test_a_writer_that_soft_roce_showed_stopped_for_a_second_and_a_half():
    """MB/s at its interface every quarter of a second, as read in a virtual machine.

    What it had posted was still sent for 0.4 s after it was stopped.
    """
    rates = [15.52, 10.32, 14.06, 17.77, 3.29, 0.0, 0.0, 0.0, 14.70, 13.80]
    lengths = [0.31, 0.27, 0.32, 0.40, 0.26, 0.26, 0.26, 0.26, 0.38, 0.28]
    seen, at_s = [], 0.0
    for rate, length_s in zip(rates, lengths, strict=True):
        seen.append(Look(at_s, at_s + length_s, rate * length_s))
        at_s += length_s
    assert longest_silence_s(seen) == pytest.approx(0.78)


@pytest.mark.parametrize(
    ("seen", "of", "fine"),
    [(20, 20, True), (2, 20, True), (1, 20, False), (0, 20, False), (0, 10, True), (0, 11, False)],
)
def test_marks_that_nothing_overwrites_refute_the_writer(seen, of, fine):
    assert (fault(marks(seen, of)) is None) == fine
    assert fault(replace(marks(seen, of), memory=False)) is None
