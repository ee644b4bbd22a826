"""Claims and counts worked out by hand: one writer of 1000 B, or two of 1000 B and 500 B.

What proves and what refutes the writes of a writer of 100 B/s alone.

Looks worked out by hand, four a second.
"""

from dataclasses import replace

import pytest

from nimc.node.evidence.claims import (
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
from nimc.node.evidence.counters import Reading
from nimc.records.plan import Demand
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


def test_a_control_claims_nothing_is_not_counted_and_has_no_proof():
    counted = attach([record(0, message_b=0)], {"n1": Count("net:eth0", 1040, 1.0)})
    (control,) = with_proof(counted, {})
    assert (control.counted_b, control.proof, unproven([control], {})) == (None, None, None)


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
    assert (seen.counted_b, disagreement([seen], 0.2, alone=True)) == (None, None)


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


DEMAND = Demand(min_share=0.5, silent_s=0.5)


def marks(seen: int, of: int = 20, silent_s: float = 0.0) -> Looked:
    return Looked(0, "the target's memory", of, seen, silent_s, memory=True)


@pytest.mark.parametrize(("seen", "proof"), [(20, "memory"), (18, "memory"), (17, "unproven")])
def test_marks_prove_if_nearly_all_were_overwritten(seen, proof):
    (found,) = with_proof([record(1000)], {0: marks(seen)})
    assert (found.proof, found.overwritten_share) == (proof, seen / 20)


def test_a_device_that_counted_is_proof_and_its_looks_are_not_marks():
    counted = attach([record(1000)], {"n1": Count("net:eth0", 1040, 1.0)})
    (found,) = with_proof(counted, {0: Looked(0, "sent by eth0", 20, 20, 0.0, memory=False)})
    assert (found.proof, found.overwritten_share) == ("device", None)
    assert unproven([found], {}) is None


def test_what_nothing_shows_is_reported_with_the_reason():
    fault = "the target's memory: Operation not permitted"
    looked = {1: replace(marks(0, of=0), writer=1, fault=fault)}
    counted = attach([record(1000)], {"n1": Count("net:eth0", 1040, 1.0)})
    found = with_proof([*counted, record(1, "n2"), record(1, "n3")], looked)
    note = str(unproven(found, looked))
    assert note.startswith("unproven: no device counted what arrived at n2, n3, and ")
    assert f"({fault})" in note
    assert "at the targets," in str(unproven(with_proof([record(1000, MANY)], {}), {}))


def test_silence_of_a_writer_refutes_it():
    short = record(1000, message_b=4)
    assert refuted([short], {0: marks(20, silent_s=0.5)}, DEMAND, alone=True) is None
    found = refuted([short], {0: marks(18, silent_s=0.75)}, DEMAND, alone=True)
    assert found == "writer 0 wrote nothing for 0.8 s (the target's memory); allowed: 0.5 s"


@pytest.mark.parametrize("memory", [True, False])
def test_a_pause_of_three_long_messages_is_no_silence(memory):
    """A message of 20 B takes 0.2 s alone: three of them 0.6 s, whatever share is accepted."""
    for silent_s, fine in ((0.65, False), (0.55, True)):
        sent = {0: replace(marks(18, silent_s=silent_s), memory=memory)}
        assert (refuted([record(1000, message_b=20)], sent, DEMAND, alone=True) is None) == fine


def test_a_device_that_counted_less_than_claimed_refutes_too():
    counted = attach([record(1000)], {"n1": Count("net:eth0", 300, 1.0)})
    assert "n1 counted 0.0 MB" in str(refuted(counted, {}, DEMAND, alone=True))


def looks(*amounts: float, every_s: float = 0.25) -> list[Look]:
    return [Look(i * every_s, (i + 1) * every_s, amount) for i, amount in enumerate(amounts)]


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
    mean = sum(amounts) / len(amounts) if amounts else 0
    assert mean in (0, 600) or max(amounts) <= 9
    assert longest_silence_s(looks(*amounts)) == pytest.approx(silent_s)


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
    silent_s = longest_silence_s(seen)
    assert silent_s == pytest.approx(0.78)
    sent = marks(20, silent_s=silent_s)
    assert refuted([record(1000, message_b=4)], {0: sent}, DEMAND, alone=True) is not None


@pytest.mark.parametrize(("seen", "fine"), [(20, True), (3, True), (1, False), (0, False)])
def test_marks_that_nothing_overwrites_refute_the_writer(seen, fine):
    sent = marks(seen)
    assert (refuted([record(1000)], {0: sent}, DEMAND, alone=True) is None) == fine
    of_device = {0: replace(sent, memory=False)}
    assert refuted([record(1000)], of_device, DEMAND, alone=True) is None
