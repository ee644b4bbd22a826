"""Says of a run whether it counts, and if not, why: one pure function of its series.

The conductor asks it after each run, and `nimc verify` again of a stored one. What cannot be read
on a machine rejects nothing; a limit of None is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator

from conductor.injectors import INJECTORS
from conductor.judge.disturbance import disturbed, foreign_bytes, misrouted
from conductor.judge.refutation import disagreements, misplaced, silences
from conductor.judge.series import Series, Window
from conductor.judge.series_figures import conditions, writer_records
from conductor.judge.writing import not_writing
from records.acceptance import AcceptanceLimits
from records.units import plural


def faults(
    series: Series, window_s: Window, limits: AcceptanceLimits, *, others: bool = False
) -> Iterator[str]:
    """Yield why a run does not count, one line each, the first cause first; nothing if it counts.

    `window_s`: when its application started and ended, by the conductor's clock (Unix time).
    `others`: whether something else may send to a single target, too.
    """
    if series.stood_still_s > limits.pause_s:
        yield f"the conductor did not run for {series.stood_still_s:.1f} s"
    if abs(series.clock_moved_s) > limits.pause_s:
        moved = f"{series.clock_moved_s:+.1f} s"
        yield f"the wall clock moved by {moved} against the monotonic clock"
    targets = [conditions(node) for node in series.nodes]
    for target, node in zip(targets, series.nodes, strict=True):
        yield from disturbed(target, node, limits)
    if series.ran:
        yield f"{plural(len(series.ran), 'held writer')} ran within the run"
    for direction in series.silent:
        yield from foreign_bytes(targets, direction, series.alone_b_s, limits)
    yield from misrouted(targets, series.rails, limits)
    for writer in series.writers:
        kind = "writer" if INJECTORS[writer.injector].writes else "control"
        for why in not_writing(writer, window_s, limits):
            yield f"{kind} {writer.number} {why}"
    yield from series.off_plan
    for writer in series.writers:
        if INJECTORS[writer.injector].writes:
            yield from silences(writer, window_s, limits)
    records = writer_records(series, window_s)
    yield from disagreements(records, limits, alone=len(series.nodes) == 1 and not others)
    yield from misplaced(records)
