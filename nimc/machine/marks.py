"""An independent look at the target's buffer: marks are written into it, and found overwritten.

Only over shared memory, where both ends map the buffer. The agent writes 8 random bytes at the end
of each part of it through /proc/PID/mem of the target's process, which it started. A mark that is
gone at the next look proves that its part has arrived since. The programs do not check the data.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_MARK_B = 8
#: Parts of a buffer, each with a mark.
_PARTS = 32
#: Smaller messages are not looked for: UCX shares control memory of up to some 40 KiB, in which a
#: mark would do harm.
_LEAST_B = 65536
#: The two ends share two buffers of that size: each end's own for what it receives.
_SHARED = 2
#: Address range, flags (`s`: shared), device and inode of a line in /proc/PID/maps.
_LINE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-s [0-9a-f]+ (\S+) ([1-9]\d*) ")


class LookError(Exception):
    """The buffer cannot be looked at. The message is one line."""


def shared_buffers(target: str, origin: str, message_b: int, page_b: int) -> list[int]:
    """Addresses in the target's process of the buffers that it shares with the origin's.

    Both texts are of /proc/PID/maps. A buffer has a message, rounded up to pages, and at most one
    page more. Raises LookError if it is not clear which mappings they are.
    """
    if message_b < _LEAST_B:
        raise LookError(f"messages of {message_b} B are too small to look for")
    there = {inode for inode, _, _ in _mappings(origin)}
    most_b = -(-message_b // page_b) * page_b + page_b
    found = [
        start
        for inode, start, size_b in _mappings(target)
        if inode in there and message_b <= size_b <= most_b
    ]
    if len(found) != _SHARED:
        raise LookError(f"{len(found)} shared buffers of {message_b} B found, {_SHARED} expected")
    return found


def _mappings(text: str) -> Iterable[tuple[tuple[str, str], int, int]]:
    """Device and inode, address, and size of the shared mappings."""
    for line in text.splitlines():
        if found := _LINE.match(line):
            start, end = int(found[1], 16), int(found[2], 16)
            yield (found[3], found[4]), start, end - start


class Marks:
    """Marks in the buffers of one running writer."""

    def __init__(self, target: int, origin: int, message_b: int) -> None:
        """`target` and `origin` are the PIDs of the two ends. Raises LookError."""
        self._memory = -1
        try:
            there, here = (Path(f"/proc/{pid}/maps").read_text() for pid in (target, origin))
            starts = shared_buffers(there, here, message_b, os.sysconf("SC_PAGESIZE"))
            self._memory = os.open(f"/proc/{target}/mem", os.O_RDWR | os.O_CLOEXEC)
            ends = [message_b * part // _PARTS for part in range(1, _PARTS + 1)]
            places = [[start + end - _MARK_B for end in ends] for start in starts]
            self._buffers = [{place: self._renew(place) for place in of} for of in places]
        except OSError as error:
            self.close()
            raise LookError(f"the target's memory: {error.strerror or error}") from None

    def look(self) -> float:
        """Share of the message that was written since the last look; renews its marks.

        More than a whole message counts as one. Raises LookError.
        """
        try:
            gone = [self._renew_gone(buffer) for buffer in self._buffers]
        except OSError as error:
            raise LookError(f"the target's memory: {error.strerror or error}") from None
        if max(gone):  # the other one is never written
            self._buffers = [self._buffers[gone.index(max(gone))]]
        return max(gone) / _PARTS

    def _renew_gone(self, buffer: dict[int, bytes]) -> int:
        """Renew the marks of a buffer that are gone; returns their number."""
        gone = [at for at, mark in buffer.items() if os.pread(self._memory, _MARK_B, at) != mark]
        for at in gone:
            buffer[at] = self._renew(at)
        return len(gone)

    def close(self) -> None:
        """Look no more."""
        if self._memory >= 0:
            with suppress(OSError):
                os.close(self._memory)
            self._memory = -1

    def _renew(self, place: int) -> bytes:
        mark = secrets.token_bytes(_MARK_B)
        os.pwrite(self._memory, mark, place)
        return mark
