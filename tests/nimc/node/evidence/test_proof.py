"""What proves and what refutes the writes of a writer of 100 B/s alone."""

from dataclasses import replace

import pytest

from nimc.node.evidence.claims import Count, attach, refuted, unproven, with_proof
from nimc.node.evidence.silence import Looked
from nimc.records.plan import Demand
from nimc.records.sample import MANY
from tests.nimc.node.evidence.test_claims import record

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


def test_a_control_has_no_proof():
    (found,) = with_proof([record(0, message_b=0)], {})
    assert found.proof is None
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
    sent = replace(marks(18, silent_s=0.65), memory=memory)
    assert refuted([record(1000, message_b=20)], {0: sent}, DEMAND, alone=True) is not None
    sent = replace(sent, silent_s=0.55)
    assert refuted([record(1000, message_b=20)], {0: sent}, DEMAND, alone=True) is None


def test_a_device_that_counted_less_than_claimed_refutes_too():
    counted = attach([record(1000)], {"n1": Count("net:eth0", 300, 1.0)})
    assert "n1 counted 0.0 MB" in str(refuted(counted, {}, DEMAND, alone=True))
