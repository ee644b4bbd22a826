"""Faults planted in series, and the line that names each. Figures are worked out by hand."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from conductor.judge.figures import Look, looks
from conductor.judge.judge import faults, longest_silence_s, shows_disturbed_alone
from conductor.judge.rates import all_rows
from conductor.judge.series import CounterSample, Metered, Placed, Rails, RateRow, Series
from records.acceptance import AcceptanceLimits
from records.sample import MANY
from tests.conductor.planted import (
    MEMORY,
    PERFTEST,
    SHORT,
    claim,
    counted,
    device,
    node,
    rows,
    writer,
)

LIMITS = AcceptanceLimits(late_rows=3.0)
#: Ten seconds in which nothing need be written.
WINDOW = (0.0, 10.0)
MB = 1_000_000


def reasons(series: Series, window_s: tuple[float, float] = WINDOW, **limits: Any) -> list[str]:
    return list(faults(series, window_s, replace(LIMITS, **limits)))


def assert_named(found: list[str], reason: str | None) -> None:
    """The first line contains the reason, or there is none."""
    assert found == [] if reason is None else found and reason in found[0], found


# Conditions: one criterion for all arms.


@pytest.mark.parametrize(
    ("series", "limits", "reason"),
    [
        (Series([node()]), {}, None),
        (Series(stood_still_s=1.0, clock_moved_s=-1.0), {}, None),
        (Series(stood_still_s=9.96), {}, "the conductor did not run for 10.0 s"),
        (Series(clock_moved_s=10.0), {}, "the wall clock moved by +10.0 s against the monotonic"),
        (Series(clock_moved_s=-3600.0), {}, "the wall clock moved by -3600.0 s"),
        (Series(ran=[3]), {}, "1 held writer ran within the run"),
        (Series(ran=[3, 5]), {}, "2 held writers ran within the run"),
        (Series(ran=[3], stood_still_s=2.0), {}, "the conductor did not run for 2.0 s"),
        (Series(off_plan=["10.0% is missing"]), {}, "10.0% is missing"),
        # 2.5 s of foreign processes in 10 s; 20 of 1000 ticks.
        (Series([node(foreign_s=2.5, stolen=20)]), {}, None),
        (
            Series([node(foreign_s=10.34)]), {},
            "n1: foreign processes used 1.03 hardware threads (most: stress); allowed: 0.25",
        ),
        (Series([node(foreign_s=10.34)]), {"foreign_cpus": None}, None),
        (Series([node(foreign_s=None)]), {}, None),  # they are hidden
        (
            Series([node(), node(name="n2", foreign_s=9.0, busiest="")]), {},
            "n2: foreign processes used 0.90 hardware threads (most: unknown)",
        ),
        (
            Series([node(stolen=31)]), {},
            "n1: the hypervisor took 3.1% of the processor time; allowed: 2.0%",
        ),
        (Series([node(stolen=31)]), {"steal_share": None}, None),
        (Series([node(frequencies_hz=[2.6e9, 2.8e9], usual_hz=3e9)]), {}, None),
        (
            Series([node(frequencies_hz=[2.58e9, 2.8e9], usual_hz=3e9)]), {},
            "n1: its cores ran at 2.69 GHz, in the accepted runs of this block at 3.00 GHz;"
            " allowed: 10% less",
        ),
        (Series([node(frequencies_hz=[1e9], usual_hz=3e9)]), {"frequency_drop": None}, None),
        (Series([node(frequencies_hz=[1e9])]), {}, None),  # too few accepted runs
        (Series([node(usual_hz=3e9)]), {}, None),  # not read
    ],
)  # fmt: skip
def test_conditions_of_a_run(series: Series, limits: dict[str, Any], reason: str | None) -> None:
    assert_named(reasons(series, **limits), reason)


def silent(*nodes: Any, direction: Any = "received", alone_b_s: float = 1e9) -> Series:
    """Writers reach 1 GB/s alone, so that 2 % of 10 s are 200 MB."""
    return Series(list(nodes), silent=[direction], alone_b_s=alone_b_s)


@pytest.mark.parametrize(
    ("series", "reason"),
    [
        (silent(node(device(200 * MB))), None),
        (
            silent(node(device(201 * MB))),
            "n1 received 201.0 MB (rdma:m0/1) although nothing wrote; allowed: 200.0 MB",
        ),
        (replace(silent(node(device(201 * MB))), silent=[]), None),  # the arm writes
        (silent(node(device(201 * MB)), alone_b_s=0.0), None),  # nothing was measured alone
        # What the application sends out is no foreign write, and does not hide one.
        (silent(node(device(0, 90_000 * MB))), None),
        (silent(node(device(812 * MB, 90_000 * MB))), "n1 received 812.0 MB"),
        (silent(node(device(0, 812 * MB)), direction="sent"), "n1 sent 812.0 MB"),
        (silent(node(device(None, 812 * MB)), direction="sent"), None),
        (silent(node(device(812 * MB, None))), None),
        (silent(node()), None),  # no device
        # Targets receive each other's messages; then 30 MB/s come from elsewhere.
        (silent(node(device(5e9, 5e9)), node(device(5e9, 5e9), name="n2")), None),
        (
            silent(node(device(5e9, 5e9)), node(device(5.3e9, 5e9), name="n2")),
            "n1, n2 received 300.0 MB more (rdma:m0/1) although nothing wrote; allowed: 200.0 MB",
        ),
        (silent(node(device(5e9, 5e9)), node(device(5e9, 5.3e9), name="n2")), None),
    ],
)  # fmt: skip
def test_bytes_that_pass_although_nothing_writes(series: Series, reason: str | None) -> None:
    assert_named(reasons(series), reason)
    assert reasons(series, foreign_share=None) == []


def railed(second: tuple[float, float], required: list[str], allowed: list[str]) -> Series:
    """The first rail passes 97 and 1 MB, the second these."""
    both = [device(97 * MB, MB, "m0"), device(int(second[0] * MB), int(second[1] * MB), "m1")]
    return Series([node(*both)], rails=Rails(["m0", "m1"], required, allowed))


@pytest.mark.parametrize(
    ("second", "required", "allowed", "reason"),
    [
        ((2, 0), ["m0"], ["m0"], None),  # 2 of 100 MB
        ((1.5, 1), ["m0"], ["m0"], "m1 passed 2.50 of 100.50 MB of all rails; the policy names m0"),
        ((50, 0), ["m0"], ["m0"], "allowed elsewhere: 2%"),
        ((50, 0), ["m0", "m1"], ["m0", "m1"], None),
        ((2, 0), ["m0", "m1"], ["m0", "m1"], "m1 passed 2.00 of 100.00 MB of all rails"),
        ((1, 0), ["m1"], ["m1"], "m0 passed 98.00 of 99.00 MB of all rails; the policy names m1"),
        ((50, 0), ["m0"], ["m0", "m1"], None),
        ((50, 0), [], [], None),
    ],
)
def test_bytes_pass_the_rails_that_the_policy_names_and_no_other(
    second: tuple[float, float], required: list[str], allowed: list[str], reason: str | None
) -> None:
    assert_named(reasons(railed(second, required, allowed)), reason)


def test_rails_of_all_targets_count_and_each_must_have_a_counter() -> None:
    there = [device(10 * MB, 0, "m0"), device(3 * MB, 0, "m1")]
    back = [device(0, 190 * MB, "m0"), device(0, 0, "m1")]
    series = Series(
        [node(*there), node(*back, name="n2")], rails=Rails(["m0", "m1"], ["m0"], ["m0"])
    )
    assert reasons(series) == []
    nothing = replace(railed((0, 0), ["m0"], ["m0"]), nodes=[node(device(), device(name="m1"))])
    assert_named(reasons(nothing), "m0 passed 0.00 of 0.00 MB")
    missing = "n2: a rail's byte counter is missing or was set back (m0, m1)"
    for lost in ([], [device(-1, 0, "m0"), back[1]], [device(None, 0, "m0"), back[1]]):
        two = [series.nodes[0], node(*lost, name="n2")]
        assert reasons(replace(series, nodes=two)) == [missing]


# Writers: at their share of the rate alone, through the whole window.

#: What was counted of a writer that goes on after its last row, and of one that stops.
_GOES_ON, _STOPS = counted(*[100] * 11), counted(*[100] * 9, 0, 0)
_TWO = rows(100, 100)
#: Half of 100 requested is enough, although it wrote 130 alone.
_THROTTLED = {"alone_b_s": 130.0, "of": {"rate_b_s": 100.0}}
_CONTROL = {"injector": "spin", "alone_b_s": 0.0}


@pytest.mark.parametrize(
    ("reported", "window", "changes", "reason"),
    [
        (rows(1, 90, 90, 1), (1.0, 3.0), {}, None),  # rows outside the window
        ([], (10.0, 13.0), {}, "writer 0 wrote nothing within the window"),
        (rows(90, 90), (10.0, 13.0), {}, "wrote nothing within the window"),
        # An application that could not be started, under a writer that goes on.
        (rows(90, 90, 90), (1.5, 1.5), {}, "wrote nothing within the window"),
        ([RateRow(0, 1, 100), RateRow(1.9, 2.9, 100)], (1.1, 1.8), {}, "reported no row within"),
        (rows(90, 90, 90, start_s=10.5), (10.0, 13.0), {}, "started 0.50 s late"),
        (rows(90, 90, start_s=10.0), (10.0, 13.0), {}, "stopped 1.00 s before the application"),
        ([RateRow(9, 10, 90), RateRow(10, 13.5, 90)], (10.0, 13.0), {}, "nothing for 3.5 s"),
        ([*rows(90, 90), RateRow(2, 6, 90)], (0.0, 2.0), {}, None),  # late after the window
        (PERFTEST, (0.5, 5.9), {"row_s": 2 / 3}, None),  # 1.4 s are late after 2 s
        (PERFTEST, (0.5, 5.9), {"row_s": 0.45}, "reported nothing for 1.4 s"),
        (rows(90, 49, 90), (0.0, 3.0), {}, "wrote at 49% of its rate alone from second 1.0 of the"
         " window; at least 50% is required"),
        (rows(90, 0, 90), (0.0, 3.0), {}, "wrote at 0% of its rate alone from second 1.0"),
        (_TWO, (0.5, 2.7), {"samples": _GOES_ON, "counted_s": 0.25}, None),
        (_TWO, (0.5, 2.7), {"samples": _STOPS, "counted_s": 0.25}, "at 0% of its rate alone from"
         " second 1.8"),
        # 1000 of 3000, though its rows have 2000 and 1400.
        (SHORT, (10.5, 11.8), {"alone_b_s": 3000.0}, "wrote at 33% of its rate alone"),
        (rows(90, 55, 90), (0.0, 3.0), _THROTTLED, None),
        (rows(90, 45, 90), (0.0, 3.0), _THROTTLED, "wrote at 45% of the requested rate from"),
        # A limited writer: in 3 s at most 1.5 times 100 B/s, and two messages of 1 B.
        (rows(150, 150, 150), (0.0, 3.0), {**_THROTTLED, "alone_b_s": 500.0}, None),
        (rows(151, 151, 151), (0.0, 3.0), {**_THROTTLED, "alone_b_s": 500.0},
         "wrote at 151.0% of the requested rate; at most 150.7% is allowed"),
        # A control must run all the time, however little. A report that the busy host delays is of
        # all the time since the one before.
        ([RateRow(9, 10, 1.0), RateRow(10, 13.5, 0.2)], (10.0, 13.0), _CONTROL, None),
        (rows(1.0, 1.0), (0.0, 3.0), _CONTROL, "control 0 stopped 1.00 s before"),
        (rows(1.0, 1.0, 1.0, start_s=0.5), (0.0, 3.0), _CONTROL, "control 0 started 0.50 s late"),
        (rows(0.5, 0.5, 0.0), (0.0, 3.0), _CONTROL, "control 0 computed nothing from second 2.0"),
        # It had all of its core until the application started, half a second into a row of half.
        ([*rows(1, 1, start_s=8.5), RateRow(10.5, 11.5, 0.5)], (11.0, 11.4), _CONTROL, None),
    ],
)  # fmt: skip
def test_what_is_not_writing_all_the_time_is_refused(
    reported: list[RateRow],
    window: tuple[float, float],
    changes: dict[str, Any],
    reason: str | None,
) -> None:
    assert_named(reasons(Series(writers=[writer(reported, **changes)]), window), reason)


def test_a_writer_that_stands_still_is_refused_whatever_share_is_accepted() -> None:
    series = Series(writers=[writer(rows(90, 0, 90))])
    assert_named(reasons(series, (0.0, 3.0), min_share=1e-9), "wrote at 0% of its rate alone")


#: A fifth of a row of 114, less 0.8 s at the 90 of the rows before: 210 is mostly the scatter of
#: both, but the row has 114.
_FIFTH = [*rows(5, 90, start_s=8.5), RateRow(10.5, 11.5, 114), RateRow(11.5, 12.5, 90)]


@pytest.mark.parametrize(
    ("reported", "window", "alone_b_s", "asked_b_s", "beyond"),
    [
        (rows(155, 155, 155), (0.0, 3.0), 100.0, None, True),
        ([RateRow(0, 2, 125), RateRow(2, 4, 125)], (0.0, 4.0), 100.0, None, False),
        (rows(60, 190, 80), (0.0, 3.0), 100.0, None, False),  # one row above it is scatter
        (_FIFTH, (10.9, 11.1), 100.0, None, False),
        # A limiter overshoots the request of 100, but not what it reached alone.
        (rows(140, 140, 140), (0.0, 3.0), 130.0, 100.0, False),
        (rows(200, 200, 200), (0.0, 3.0), 100.0, 400.0, True),  # more than it seemed to reach
    ],
)
def test_a_writer_far_above_its_rate_alone_shows_that_this_was_disturbed(
    reported: list[RateRow],
    window: tuple[float, float],
    alone_b_s: float,
    asked_b_s: float | None,
    beyond: bool,
) -> None:
    series = Series(writers=[writer(reported, alone_b_s=alone_b_s, of={"rate_b_s": asked_b_s})])
    assert shows_disturbed_alone(series, window, LIMITS) == beyond
    assert_named(reasons(series, window), "the rate alone was disturbed" if beyond else None)


# What refutes a writer's report: silence, its target's memory, devices, placement.


def looked(
    amounts: list[float], over_s: float = 0.25, of: Mapping[str, Any] = {}, **changes: Any
) -> Series:
    """A writer of 100 B/s, or what is asked, for three seconds, and what each look counted."""
    samples = counted(*(amount / over_s for amount in amounts), every_s=over_s)
    reported = rows(*[of.get("rate_b_s", 100.0)] * 3)
    return Series(
        writers=[writer(reported, samples=samples, of=of, **{"meter": MEMORY, **changes})]
    )


_SENT = Metered(0, "sent by m0")


@pytest.mark.parametrize(
    ("series", "reason"),
    [
        (looked([9, 9, 0, 0, 9, 9]), None),
        (looked([9, 9, 0, 0, 0, 9]), "writer 0 wrote nothing for 0.8 s (the target's memory);"
                                     " allowed: 0.5 s"),
        (looked([9, 9, 0, 0, 0, 9], meter=_SENT), "wrote nothing for 0.8 s (sent by m0)"),
        (looked([9, 9, 0, 0, 0, 9], injector="spin"), None),  # a control
        # A message of 20 B takes 0.2 s alone: three of them 0.6 s; at half that rate, as asked
        # for, it takes as long as two.
        (looked([9, 0, 0, 9], 0.29, {"message_b": 20}), None),
        (looked([9, 0, 0, 9], 0.31, {"message_b": 20}), "nothing for 0.6 s"),
        (looked([9, 0, 0, 9], 0.59, {"message_b": 20, "rate_b_s": 50.0}), None),
        (looked([9, 0, 0, 9], 0.61, {"message_b": 20, "rate_b_s": 50.0}), "allowed: 1.2 s"),
    ],
)  # fmt: skip
def test_silence_of_a_writer_refutes_it(series: Series, reason: str | None) -> None:
    assert_named(reasons(series, (0.0, 3.0)), reason)


@pytest.mark.parametrize(
    ("shown", "of", "fine"),
    [(20, 20, True), (2, 20, True), (1, 20, False), (0, 20, False), (0, 10, True), (0, 11, False)],
)
def test_memory_that_nothing_overwrites_refutes_the_writer(shown: int, of: int, fine: bool) -> None:
    samples = counted(*[4] * shown, *[0] * (of - shown))
    seen = writer(rows(*[100] * 9), samples=samples, meter=MEMORY)
    series, window = Series(writers=[seen]), (0.0, of / 4)
    found = reasons(series, window, silent_s=60.0)
    assert_named(found, None if fine else f"writer 0 {shown} of {of} looks at the target's memory")
    by_device = Series(writers=[replace(seen, meter=_SENT)])
    assert reasons(by_device, window, silent_s=60.0) == []


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
def test_the_longest_time_without_anything(amounts: list[float], silent_s: float) -> None:
    assert longest_silence_s([Look(0.25, amount) for amount in amounts]) == silent_s


def test_a_writer_that_soft_roce_showed_stopped_for_a_second_and_a_half() -> None:
    """MB/s at its interface every quarter of a second, as read in a virtual machine.

    What it had posted was still sent for 0.4 s after it was stopped.
    """
    rates = [15.52, 10.32, 14.06, 17.77, 3.29, 0.0, 0.0, 0.0, 14.70, 13.80]
    lengths_s = [0.31, 0.27, 0.32, 0.40, 0.26, 0.26, 0.26, 0.26, 0.38, 0.28]
    seen = [
        Look(length_s, rate * length_s) for rate, length_s in zip(rates, lengths_s, strict=True)
    ]
    assert longest_silence_s(seen) == pytest.approx(0.78)


def test_looks_enclose_the_window_and_are_apart() -> None:
    at_s = [0.0, 0.25, 0.5, 0.52, 0.75, 1.0, 1.25, 1.5]
    samples = [CounterSample(time_s, 8 * time_s) for time_s in at_s]
    seen = looks(writer([], samples=samples), (0.3, 1.1))
    # 0.25, 0.5, 0.75, 1.0 and 1.25.
    assert [(look.length_s, look.amount) for look in seen] == [(0.25, 2)] * 4
    assert looks(writer([]), (0.3, 1.1)) == []


def test_a_count_that_stopped_tells_no_silence() -> None:
    samples = counted(100, 100)
    stopped = Metered(0, "sent by m0", fault="device m0: its counter stopped or was set back")
    seen = writer(rows(100, 100, 100), samples=samples, meter=stopped)
    assert reasons(Series(writers=[seen]), (0.0, 3.0)) == []
    assert all_rows(seen) == seen.rows


#: Rows cover half of the window: 1000 B were written for certain, and up to 2000 B in all.
HALF = claim(observed_share=0.5)


@pytest.mark.parametrize(
    ("claims", "counted_b", "share", "alone", "fine"),
    [
        ([claim()], 800, 0.2, True, True),
        ([claim()], 799, 0.2, True, False),
        ([claim()], 1200, 0.2, True, True),
        ([claim()], 1201, 0.2, True, False),
        ([claim(0)], 999, 0.2, True, True),
        ([claim()], 9999, 0.2, False, True),  # the application's own messages
        ([claim()], 799, 0.2, False, False),
        ([claim()], 0, 0.99, False, False),  # claimed but never arrived
        ([claim(), claim(500)], 1500, 0.01, True, True),  # all writers of a target together
        ([claim(), claim(500)], 1000, 0.01, True, False),
        ([HALF], 799, 0.2, True, False),
        ([HALF], 801, 0.2, True, True),
        ([HALF], 2399, 0.2, True, True),
        ([HALF], 2401, 0.2, True, False),
        ([claim(direction="read")], 0, 0.2, True, True),  # a reader's bytes are sent there: 1000
    ],
)  # fmt: skip
def test_a_count_that_does_not_go_with_the_claim_rejects(
    claims: list[Any], counted_b: int, share: float, alone: bool, fine: bool
) -> None:
    there = [node(device(counted_b, 1000)), *([] if alone else [node(device(), name="n2")])]
    found = reasons(Series(there, claims=claims), counter_share=share)
    assert (found == []) == fine


@pytest.mark.parametrize(("counted_b", "others", "fine"), [
    (9999, True, True), (9999, False, False), (799, True, False),
])  # fmt: skip
def test_others_may_send_to_a_single_target_too(counted_b: int, others: bool, fine: bool) -> None:
    series = Series([node(device(counted_b))], claims=[claim()])
    found = list(faults(series, WINDOW, AcceptanceLimits(counter_share=0.2), others=others))
    assert (found == []) == fine


def test_a_disagreement_says_what_was_claimed_at_least_and_at_most() -> None:
    series = Series([node(device(10 * MB))], claims=[replace(HALF, bytes_b=1e6)])
    assert reasons(series) == [
        "n1 counted 10.0 MB (rdma:m0/1), but the writers claim 1.0 to 2.0 MB; allowed difference:"
        " 20%"
    ]


@pytest.mark.parametrize(("second_b", "fine"), [(700, True), (90_000, True), (0, False)])
def test_writers_of_many_targets_are_compared_with_all_their_counts(
    second_b: int, fine: bool
) -> None:
    """Two writers claim 1000 B and 500 B; n1 counted 550 B."""
    there = [node(device(550)), node(device(second_b), name="n2")]
    series = Series(there, claims=[claim(1000, MANY), claim(500, MANY)])
    assert_named(reasons(series), None if fine else "all targets together counted 0.0 MB")


@pytest.mark.parametrize(
    ("target_b", "origin_b", "bound", "reason"),
    [
        ({"1": 4 << 20}, {}, 1, None),
        ({"0": 1 << 20}, {}, None, None),
        ({}, {}, 1, None),  # unverified
        ({}, {"0": 3 << 20, "1": 1 << 20}, 1, "writer 0: 3.0 MiB of the origin's buffers lay"
                                              " outside NUMA node 1"),
        ({"0": 1 << 20}, {"1": 1 << 20}, 1, "writer 0: 1.0 MiB of the target's buffers"),
    ],
)  # fmt: skip
def test_buffers_elsewhere_reject_the_run_and_unseen_ones_do_not(
    target_b: dict[str, int], origin_b: dict[str, int], bound: int | None, reason: str | None
) -> None:
    ends = [Placed(0, "target", "none", target_b), Placed(0, "origin", "none", origin_b)]
    seen = writer(rows(100, 100, 100), placed=ends, of={"buffer_node": bound})
    assert_named(reasons(Series(writers=[seen]), (0.0, 3.0)), reason)
