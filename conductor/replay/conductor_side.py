"""The conductor's side of replayed traffic: what writers follow, and whether they did.

Their rows are compared with what the rates ask for in the same time. They last about a second of
writing; one within which the writer was suspended lasts longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from conductor.hub import Hub, WriterState
from conductor.messages import FollowRates
from conductor.replay.pacing import due_b
from conductor.series import RateRow
from records import clock
from records.plan import Window
from records.sample import ReplayBin, ReplayRecord
from records.treatment import Replay

#: Largest difference of the bytes of all rows, and of one, as shares of the wanted bytes; or, if
#: that is more, as shares of what the writer writes alone in that time.
TOTAL_SHARE, TOTAL_ALONE_SHARE = 0.1, 0.01
BIN_SHARE, BIN_ALONE_SHARE = 0.3, 0.1
#: Least share of the rows' time in which they agree, and of the run that rows cover.
AGREEING_SHARE = 0.8
COVERED_SHARE = 0.5


def compare(
    rows: Sequence[RateRow],
    rates_b_s: Sequence[float],
    followed_s: tuple[float, float],
    run_s: tuple[float, float],
    alone_b_s: float,
) -> tuple[list[ReplayBin], float, str | None]:
    """Rows next to what was wanted, the share of time that agrees, and why that is too little.

    `followed_s` and `run_s`: from when until when rates were followed, and the application ran.
    """
    from_s, until_s = followed_s
    bins = [
        ReplayBin(
            start_s=row.start_s - run_s[0],
            length_s=row.end_s - row.start_s,
            wanted_b=due_b(rates_b_s, row.end_s - from_s) - due_b(rates_b_s, row.start_s - from_s),
            done_b=row.bytes_b,
        )
        for row in rows
        if row.start_s >= from_s and row.end_s <= until_s
    ]

    def agrees(each: ReplayBin) -> bool:
        most_b = max(BIN_SHARE * each.wanted_b, BIN_ALONE_SHARE * alone_b_s * each.length_s)
        return abs(each.done_b - each.wanted_b) <= most_b

    covered_s = sum(each.length_s for each in bins)
    if covered_s < COVERED_SHARE * (run_s[1] - run_s[0]) or not covered_s:
        return bins, 0.0, f"its rows cover {covered_s:.1f} s of the run; allowed: half of it"
    agreeing = sum(each.length_s for each in bins if agrees(each)) / covered_s
    wanted_b, done_b = sum(each.wanted_b for each in bins), sum(each.done_b for each in bins)
    most_b, reason = max(TOTAL_SHARE * wanted_b, TOTAL_ALONE_SHARE * alone_b_s * covered_s), None
    if abs(done_b - wanted_b) > most_b:
        reason = (
            f"wrote {done_b / 1e6:.1f} MB of {wanted_b / 1e6:.1f} MB of the traffic; allowed"
            f" difference: {TOTAL_SHARE:.0%}"
        )
    elif agreeing < AGREEING_SHARE:
        reason = (
            f"followed the traffic in {agreeing:.0%} of the time, within {BIN_SHARE:.0%}; at least"
            f" {AGREEING_SHARE:.0%} is required"
        )
    return bins, agreeing, reason


class Follows:
    """Writers that follow a window, from its making until `end`."""

    def __init__(
        self,
        replay: Replay,
        window: Window,
        targets: Sequence[str],
        hub: Hub,
        states: Sequence[WriterState],
        alone_b_s: Sequence[float],
    ) -> None:
        """`alone_b_s`: the rate of each writer without an application."""
        self._replay = replay
        self._window = window
        self._targets = targets
        self._hub = hub
        self._states = states
        self._alone_b_s = alone_b_s
        #: Writers of each target, which share its rates.
        self._sharing = Counter(state.writer.target for state in states)
        self._from_s = self._until_s = self._follow([self._wanted(state)[1] for state in states])

    def end(self) -> None:
        """Let them write at full rate again."""
        self._until_s = self._follow([[] for _ in self._states])

    def _follow(self, rates_b_s: Sequence[list[float]]) -> float:
        for state, rates, full_b_s in zip(self._states, rates_b_s, self._alone_b_s, strict=True):
            order = FollowRates(state.writer.index, rates, full_b_s)
            self._hub.send(state.writer.origin, order)
        return clock.now_s()

    def compared(self, run_s: tuple[float, float]) -> tuple[list[ReplayRecord], list[str]]:
        """What each writer did, and why the run is rejected."""
        records, reasons = [], []
        for state, alone_b_s in zip(self._states, self._alone_b_s, strict=True):
            record, fault = self.of(state, alone_b_s, run_s)
            records.append(record)
            reasons += [f"writer {state.number} {fault}"] if fault else []
        return records, reasons

    def of(
        self, state: WriterState, alone_b_s: float, run_s: tuple[float, float]
    ) -> tuple[ReplayRecord, str | None]:
        """What a writer did, and why the run is rejected; None if it is not."""
        replay, window, followed_s = self._replay, self._window, (self._from_s, self._until_s)
        node, rates_b_s = self._wanted(state)
        bins, agreeing, fault = compare(state.rows, rates_b_s, followed_s, run_s, alone_b_s)
        record = ReplayRecord(
            trace_sha256=replay.trace_sha256,
            node=node,
            window_s=window.start_s,
            speed=replay.speed,
            share=replay.share,
            wanted_b=sum(each.wanted_b for each in bins),
            done_b=sum(each.done_b for each in bins),
            agreeing_share=agreeing,
            bins=bins,
        )
        if fault and max(rates_b_s) > alone_b_s:
            fault += "; its rates exceed the writer's rate alone: lower traffic.rate"
        return record, fault

    def _wanted(self, state: WriterState) -> tuple[str, list[float]]:
        """The trace's node that a writer follows, and its share of that node's rates."""
        window, target = self._window, state.writer.target
        at = self._targets.index(target)
        return window.nodes[at], [rate / self._sharing[target] for rate in window.rates_b_s[at]]
