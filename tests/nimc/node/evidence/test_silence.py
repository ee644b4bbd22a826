"""Looks worked out by hand, four a second."""

import pytest

from nimc.node.evidence.silence import Look, Looked, fault, longest_silence_s


def looks(*amounts: float, every_s: float = 0.25) -> list[Look]:
    return [Look(i * every_s, (i + 1) * every_s, amount) for i, amount in enumerate(amounts)]


def looked(silent_s: float = 0.0, *, seen: int = 20, memory: bool = True) -> Looked:
    return Looked(0, "the target's memory", 20, seen, silent_s, memory)


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
    assert fault(looked(silent_s), 0.5) is not None


def test_silence_beyond_what_is_allowed_is_told():
    assert fault(looked(0.5), 0.5) is None
    assert fault(looked(0.8), 0.5) == (
        "wrote nothing for 0.8 s (the target's memory); allowed: 0.5 s"
    )


@pytest.mark.parametrize(("seen", "fine"), [(20, True), (3, True), (1, False), (0, False)])
def test_marks_that_nothing_overwrites_refute_the_writer(seen, fine):
    assert (fault(looked(seen=seen), 9.0) is None) == fine
    assert fault(looked(seen=seen, memory=False), 9.0) is None
