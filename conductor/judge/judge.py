"""Judges from a run's series whether the run counts, and if it does not, why.

The conductor judges each run, and `nimc verify` judges stored runs again. A limit that is None
rejects no run. A value that a machine cannot read rejects no run either, with two exceptions: the
byte counter of any rail, if the run requires rails; and a byte counter that was set back, if it
shows whether writes are one-sided. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from conductor.injectors import INJECTORS
from conductor.judge.disturbance import exceeded_limits, foreign_traffic, misrouted_traffic
from conductor.judge.rates import window_figures
from conductor.judge.refutation import disagreements, misplaced_buffers, silences
from conductor.judge.series import Series, Window
from conductor.judge.series_figures import node_conditions, resets, unproven_note, writer_records
from conductor.judge.writing import share_of_rate_alone, writing_faults
from records.acceptance import AcceptanceLimits
from records.sample import NodeConditions, WriterRecord
from records.units import plural


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The judgement of a run."""

    #: Conditions at each target.
    conditions: list[NodeConditions]
    #: The record of each writer.
    writers: list[WriterRecord]
    #: Why the run does not count, one line for each reason; empty if it counts. A reason that
    #: may have caused other reasons comes before them.
    reasons: list[str]
    #: The largest share of its uncontended rate ('rate alone') that a writer had on average; 0 if
    #: unknown. If it is far above 1, the measurement of the uncontended rate was disturbed.
    share_of_rate_alone: float
    #: A note on the targets whose writes are unproven; None if there are no such targets.
    unproven_note: str | None


def judge(
    series: Series, window_s: Window, limits: AcceptanceLimits, *, others_may_send: bool = False
) -> Judgement:
    """Judge a run.

    `window_s` is when its application started and ended, by the conductor's clock (Unix time).
    If there is one target, `others_may_send` says whether programs other than the writers may send
    to its devices. If there are several targets, ranks send to their devices in any case.
    """
    conditions = [node_conditions(node) for node in series.nodes]
    records = writer_records(series, window_s)
    reasons = list(_disturbances(series, conditions, limits))
    shares = [0.0]
    for writer in series.writers:
        figures = window_figures(writer, window_s)
        shares.append(share_of_rate_alone(writer, figures))
        noun = "writer" if INJECTORS[writer.injector].writes else "control"
        faults = writing_faults(writer, figures, window_s, limits)
        reasons += [f"{noun} {writer.number} {fault}" for fault in faults]
    reasons += series.off_plan
    reasons += resets(series)
    for writer in series.writers:
        if INJECTORS[writer.injector].writes:
            reasons += silences(writer, window_s, limits)
    only_writers_send = len(series.nodes) == 1 and not others_may_send
    reasons += disagreements(records, limits, only_writers_send=only_writers_send)
    reasons += misplaced_buffers(records)
    return Judgement(
        conditions=conditions,
        writers=records,
        reasons=reasons,
        share_of_rate_alone=max(shares),
        unproven_note=unproven_note(series, records),
    )


def _disturbances(
    series: Series, conditions: Sequence[NodeConditions], limits: AcceptanceLimits
) -> Iterator[str]:
    """Yield a line for each disturbance of the conductor and the targets, and for held writers."""
    if series.stood_still_s > limits.pause_s:
        yield f"the conductor did not run for {series.stood_still_s:.1f} s"
    if abs(series.clock_moved_s) > limits.pause_s:
        yield (f"the wall clock moved by {series.clock_moved_s:+.1f} s against the monotonic clock")
    for condition, node in zip(conditions, series.nodes, strict=True):
        yield from exceeded_limits(condition, node, limits)
    if series.ran:
        yield f"{plural(len(series.ran), 'held writer')} ran during the run"
    for direction in series.silent:
        yield from foreign_traffic(conditions, direction, series.alone_b_s, limits)
    yield from misrouted_traffic(conditions, series.rails, limits)
