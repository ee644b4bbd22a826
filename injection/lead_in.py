"""The time from the end of one application to the start of the next, the same before every run.

Writers take seconds to start and to stop, and a silent run has neither. Without waiting, the
processor would rest longer before some arms than before others.
"""

from __future__ import annotations

#: The lead-in as a multiple of the longest time needed, so that a slightly slower start-up fits.
_ROOM = 1.05


class LeadIn:
    """The lead-in of a block's runs: the longest that any of them needed.

    Times are those of `clock.now_s`.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._ended_s: float | None = None

    def expect(self, needed_s: float) -> None:
        """Give every run from now on at least as long as a run that needs `needed_s`."""
        self.longest_s = max(self.longest_s, _ROOM * needed_s)

    def left_s(self, now_s: float) -> float:
        """How long a run that is ready at `now_s` must wait; 0 for the first of the block."""
        if self._ended_s is None:
            return 0.0
        needed_s = now_s - self._ended_s
        if needed_s > self.longest_s:
            self.expect(needed_s)
        return self.longest_s - needed_s

    def of(self, start_s: float) -> float | None:
        """The lead-in of an application that started at `start_s`; None for the block's first."""
        return None if self._ended_s is None else start_s - self._ended_s

    def ended(self, at_s: float) -> None:
        """The application has ended, or the run has, if its application never started."""
        self._ended_s = at_s
