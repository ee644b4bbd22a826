"""What refutes the report of a writer: silence, its target's memory, devices, or its placement."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from conductor.judge.judge import judge
from conductor.judge.rates import all_rows
from conductor.judge.refutation import longest_silence_s
from conductor.judge.series import Series
from conductor.judge.series_figures import Span, spans_in_window
from conductor.readings import CounterSample, MeterRecord, Placement
from records.acceptance import AcceptanceLimits
from records.sample import MANY_TARGETS
from tests.conductor.made_series import (
    MEMORY,
    WINDOW,
    assert_named,
    claim,
    counted,
    device,
    node,
    reasons,
    rows,
    writer,
)

MB = 1_000_000


def meter_series(
    amounts: list[float], over_s: float = 0.25, fields: Mapping[str, Any] = {}, **changes: Any
) -> Series:
    """Return the series of a writer that reports 100 B/s, or the requested rate, for three seconds.

    `amounts`: the bytes that each reading of its meter added.
    """
    samples = counted(*(amount / over_s for amount in amounts), every_s=over_s)
    reported = rows(*[fields.get("rate_b_s", 100.0)] * 3)
    return Series(
        writers=[writer(reported, samples=samples, fields=fields, **{"meter": MEMORY, **changes})]
    )


_SENT = MeterRecord(0, "sent by m0")


@pytest.mark.parametrize(
    ("series", "reason"),
    [
        (meter_series([9, 9, 0, 0, 9, 9]), None),
        (meter_series([9, 9, 0, 0, 0, 9]), "writer 0 wrote nothing for 0.8 s (the target's memory);"
                                           " allowed: 0.5 s"),
        (meter_series([9, 9, 0, 0, 0, 9], meter=_SENT), "wrote nothing for 0.8 s (sent by m0)"),
        (meter_series([9, 9, 0, 0, 0, 9], injector="spin"), None),  # a control
        # Three messages may take their time without a count. A message of 20 B takes 0.2 s at
        # 100 B/s, so three take 0.6 s. At a requested rate of half as much, they take 1.2 s.
        (meter_series([9, 0, 0, 9], 0.29, {"message_b": 20}), None),
        (meter_series([9, 0, 0, 9], 0.31, {"message_b": 20}), "nothing for 0.6 s"),
        (meter_series([9, 0, 0, 9], 0.59, {"message_b": 20, "rate_b_s": 50.0}), None),
        (meter_series([9, 0, 0, 9], 0.61, {"message_b": 20, "rate_b_s": 50.0}), "allowed: 1.2 s"),
    ],
)  # fmt: skip
def test_silence_of_a_writer_refutes_its_report(series: Series, reason: str | None) -> None:
    assert_named(reasons(series, (0.0, 3.0)), reason)


@pytest.mark.parametrize(
    ("shown", "quarters", "is_accepted"),
    [
        (20, 20, True),
        (2, 20, True),
        (1, 20, False),
        (0, 20, False),
        (1, 10, True),
        (1, 11, False),
        (0, 3, False),
        (1, 3, True),
        (0, 1, True),  # a single reading may fall between two messages
    ],
)
def test_memory_that_nothing_overwrites_refutes_the_writer(
    shown: int, quarters: int, is_accepted: bool
) -> None:
    """The target's memory is read in `quarters` of a second; `shown` readings show new bytes."""
    samples = counted(*[4] * shown, *[0] * (quarters - shown))
    writer_series = writer(rows(*[100] * 9), samples=samples, meter=MEMORY)
    series, window = Series(writers=[writer_series]), (0.0, quarters / 4)
    lines = reasons(series, window, silent_s=60.0)
    assert_named(
        lines,
        None if is_accepted else f"writer 0 was seen to write in {shown} of {quarters} readings",
    )
    by_device = Series(writers=[replace(writer_series, meter=_SENT)])
    assert reasons(by_device, window, silent_s=60.0) == []


@pytest.mark.parametrize(
    ("amounts", "silent_s"),
    [
        ([], 0.0),
        ([7, 9, 8, 7], 0.0),
        ([0, 0, 0, 0], 1.0),
        ([9, 0, 9, 0, 0, 9], 0.5),
        ([9, 9, 0, 0, 0], 0.75),
        # The mean is 600 B a reading. 29 is less than a twentieth of it, 31 is more.
        ([1000, 29, 29, 1000, 942], 0.5),
        ([1000, 31, 31, 1000, 938], 0.0),
    ],
)
def test_the_longest_silence(amounts: list[float], silent_s: float) -> None:
    assert longest_silence_s([Span(0.25, amount) for amount in amounts]) == silent_s


def test_the_silence_of_a_real_writer_that_was_stopped_for_a_second_and_a_half() -> None:
    """The rates, in MB/s, were read about every quarter of a second in a virtual machine.

    They are those of the interface below a soft-RoCE device. Messages that the writer had posted
    were still sent for 0.4 s after it was stopped.
    """
    rates = [15.52, 10.32, 14.06, 17.77, 3.29, 0.0, 0.0, 0.0, 14.70, 13.80]
    lengths_s = [0.31, 0.27, 0.32, 0.40, 0.26, 0.26, 0.26, 0.26, 0.38, 0.28]
    spans = [
        Span(length_s, rate * length_s) for rate, length_s in zip(rates, lengths_s, strict=True)
    ]
    assert longest_silence_s(spans) == pytest.approx(0.78)


def test_spans_enclose_the_window_and_skip_readings_that_follow_too_closely() -> None:
    at_s = [0.0, 0.25, 0.5, 0.52, 0.75, 1.0, 1.25, 1.5]
    samples = [CounterSample(time_s, 8 * time_s) for time_s in at_s]
    spans = spans_in_window(writer([], samples=samples), (0.3, 1.1))
    # The readings at 0.25, 0.5, 0.75, 1.0 and 1.25 s are used, but not the one at 0.52 s.
    assert [(span.length_s, span.amount) for span in spans] == [(0.25, 2)] * 4
    assert spans_in_window(writer([]), (0.3, 1.1)) == []


def test_a_counter_that_failed_does_not_show_silence() -> None:
    samples = counted(100, 100)
    stopped = MeterRecord(0, "sent by m0", fault="device m0: its counter stopped or was set back")
    writer_series = writer(rows(100, 100, 100), samples=samples, meter=stopped)
    assert reasons(Series(writers=[writer_series]), (0.0, 3.0)) == []
    assert all_rows(writer_series) == writer_series.rows


#: Rows cover half of the window: 1000 B were written for certain, and up to 2000 B in all.
HALF = claim(observed_share=0.5)


@pytest.mark.parametrize(
    ("claims", "counted_b", "share", "alone", "is_accepted"),
    [
        ([claim()], 800, 0.2, True, True),
        ([claim()], 799, 0.2, True, False),
        ([claim()], 1200, 0.2, True, True),
        ([claim()], 1201, 0.2, True, False),
        ([claim(0)], 999, 0.2, True, True),
        # With several targets, messages of the application may be counted as well.
        ([claim()], 9999, 0.2, False, True),
        ([claim()], 799, 0.2, False, False),
        ([claim()], 0, 0.99, False, False),  # the claimed bytes never arrived
        ([claim(), claim(500)], 1500, 0.01, True, True),  # claims of one target are added
        ([claim(), claim(500)], 1000, 0.01, True, False),
        ([HALF], 799, 0.2, True, False),
        ([HALF], 801, 0.2, True, True),
        ([HALF], 2399, 0.2, True, True),
        ([HALF], 2401, 0.2, True, False),
        # A target sends the bytes that are read from it: here 1000 B, as claimed.
        ([claim(direction="read")], 0, 0.2, True, True),
    ],
)  # fmt: skip
def test_a_count_that_contradicts_the_claim_rejects_the_run(
    claims: list[Any], counted_b: int, share: float, alone: bool, is_accepted: bool
) -> None:
    nodes = [node(device(counted_b, 1000)), *([] if alone else [node(device(), name="n2")])]
    lines = reasons(Series(nodes=nodes, claims=claims), counter_share=share)
    assert (lines == []) == is_accepted


@pytest.mark.parametrize(("counted_b", "others", "is_accepted"), [
    (9999, True, True), (9999, False, False), (799, True, False),
])  # fmt: skip
def test_a_single_target_may_count_more_if_others_may_send_to_it(
    counted_b: int, others: bool, is_accepted: bool
) -> None:
    series = Series(nodes=[node(device(counted_b))], claims=[claim()])
    lines = judge(
        series, WINDOW, AcceptanceLimits(counter_share=0.2), others_may_send=others
    ).reasons
    assert (lines == []) == is_accepted


def test_the_reason_names_the_least_and_the_most_bytes_that_were_claimed() -> None:
    series = Series(nodes=[node(device(10 * MB))], claims=[replace(HALF, bytes_b=1e6)])
    assert reasons(series) == [
        "n1 counted 10.0 MB (rdma:m0/1), but the writers claim 1.0 to 2.0 MB; allowed difference:"
        " 20 %"
    ]


def test_the_claims_of_each_target_are_compared_with_its_own_count() -> None:
    """The writers of n1 claim 1000 B, those of n2 5000 B."""
    claims = [claim(1000), claim(5000, "n2")]
    nodes = [node(device(1000)), node(device(5000), name="n2")]
    assert reasons(Series(nodes=nodes, claims=claims)) == []
    swapped = [node(device(1000), name="n2"), node(device(5000))]
    assert_named(reasons(Series(nodes=swapped, claims=claims)), "n2 counted 0.0 MB")


@pytest.mark.parametrize(("second_b", "is_accepted"), [(700, True), (90_000, True), (0, False)])
def test_claims_of_writers_with_many_targets_are_compared_with_the_counts_of_all_targets(
    second_b: int, is_accepted: bool
) -> None:
    """Two writers claim 1000 B and 500 B; n1 counted 550 B."""
    nodes = [node(device(550)), node(device(second_b), name="n2")]
    series = Series(nodes=nodes, claims=[claim(1000, MANY_TARGETS), claim(500, MANY_TARGETS)])
    assert_named(reasons(series), None if is_accepted else "all targets together counted 0.0 MB")


@pytest.mark.parametrize(
    ("target_b", "origin_b", "bound", "reason"),
    [
        ({"1": 4 << 20}, {}, 1, None),
        ({"0": 1 << 20}, {}, None, None),
        ({}, {}, 1, None),  # the placement of buffers is unknown
        ({}, {"0": 3 << 20, "1": 1 << 20}, 1, "writer 0: 3.0 MiB of the origin's buffers lay"
                                              " outside NUMA node 1"),
        ({"0": 1 << 20}, {"1": 1 << 20}, 1, "writer 0: 1.0 MiB of the target's buffers"),
    ],
)  # fmt: skip
def test_buffers_on_another_numa_node_reject_the_run_and_unknown_placement_does_not(
    target_b: dict[str, int], origin_b: dict[str, int], bound: int | None, reason: str | None
) -> None:
    ends = [
        Placement(writer=0, role="target", own_binding="none", buffers_b=target_b),
        Placement(writer=0, role="origin", own_binding="none", buffers_b=origin_b),
    ]
    writer_series = writer(rows(100, 100, 100), placed=ends, fields={"buffer_node": bound})
    assert_named(reasons(Series(writers=[writer_series]), (0.0, 3.0)), reason)
