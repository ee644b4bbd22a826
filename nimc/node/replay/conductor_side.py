"""The conductor's side of replayed traffic: what writers follow, and whether they did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nimc.base import clock
from nimc.node.hub import Hub, WriterState
from nimc.node.replay.evidence import compare
from nimc.records.plan import Window
from nimc.records.sample import ReplayRecord
from nimc.records.treatment import Replay


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
        self._from_s = self._until_s = self._follow([self._rates_b_s(state) for state in states])

    def end(self) -> None:
        """Let them write at full rate again."""
        self._until_s = self._follow([[] for _ in self._states])

    def _follow(self, rates_b_s: Sequence[list[float]]) -> float:
        for state, rates, full_b_s in zip(self._states, rates_b_s, self._alone_b_s, strict=True):
            self._hub.follow(state, rates, full_b_s)
        return clock.now_s()

    def of(
        self, state: WriterState, alone_b_s: float, run_s: tuple[float, float]
    ) -> tuple[ReplayRecord, str | None]:
        """What a writer did, and why the run is rejected; None if it is not."""
        replay, window = self._replay, self._window
        followed_s = self._from_s, self._until_s
        rates_b_s = self._rates_b_s(state)
        bins, agreeing, fault = compare(state.rows, rates_b_s, followed_s, run_s, alone_b_s)
        record = ReplayRecord(
            trace_sha256=replay.trace_sha256,
            node=window.nodes[self._index(state)],
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

    def _rates_b_s(self, state: WriterState) -> list[float]:
        target = self._window.rates_b_s[self._index(state)]
        return [rate / self._sharing[state.writer.target] for rate in target]

    def _index(self, state: WriterState) -> int:
        return self._targets.index(state.writer.target)
