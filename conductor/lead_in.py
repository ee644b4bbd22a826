"""The time from the end of one application to the start of the next, the same before every run."""

from __future__ import annotations

from collections.abc import Iterable

from records.treatment import Writes

#: The lead-in as a multiple of the longest time needed, so that a slightly slower start-up fits.
_LEAD_IN_MARGIN = 1.05
#: A start that takes this many times as long as the next slowest of the same writes was delayed. It
#: counts if there is another: one delay must not lengthen all later runs of the block.
_DELAYED = 2.0


class LeadIn:
    """The time from the end of one application to the start of the next, the same before every run.

    It is the longest that any kind of writes needs: without waiting, the processor would rest
    longer before runs with writers, which start and stop, than before others. Times are those of
    `clock.now_s`.
    """

    def __init__(self) -> None:
        self._needed_s: dict[Writes, list[float]] = {}
        self._ended_s: float | None = None

    @property
    def longest_s(self) -> float:
        """The lead-in of the next run, at least."""
        return _LEAD_IN_MARGIN * max(map(_usual, self._needed_s.values()), default=0.0)

    def expect(self, writes: Writes, needed_s: float) -> None:
        """Note what writers needed, or will need."""
        self._needed_s.setdefault(writes, []).append(needed_s)

    def left_s(self, now_s: float, writes: Writes | None = None) -> float:
        """How long a run that is ready at `now_s` must wait; 0 for the first of the block."""
        if self._ended_s is None:
            return 0.0
        needed_s = now_s - self._ended_s
        if writes is not None:
            self.expect(writes, needed_s)
        return max(self.longest_s - needed_s, 0.0)

    def of(self, start_s: float) -> float | None:
        """The lead-in of an application that started at `start_s`; None for the block's first."""
        return None if self._ended_s is None else start_s - self._ended_s

    def ended(self, at_s: float) -> None:
        """The application has ended, or the run has, if its application never started."""
        self._ended_s = at_s


def _usual(needed_s: Iterable[float]) -> float:
    """The longest, or the second longest if the longest was delayed."""
    *_, second_s, longest_s = (0.0, *sorted(needed_s))
    return second_s if 0.0 < _DELAYED * second_s <= longest_s else longest_s
