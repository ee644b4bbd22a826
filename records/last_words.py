"""What a program says that fails. Standard library only: nodes use it too."""

from __future__ import annotations

import re

from records.text import one_line

#: Most characters of a fault that are shown.
_FAULT_WIDTH = 300
#: Words of a line that only warns. A program goes on after it, so it is no fault by itself.
_WARNING = re.compile(r"\bwarn(ing)?s?\b|falling back to|, changing to ", re.IGNORECASE)


#: Words of a line with an error, before which a program may have printed what it always prints.
_ERROR = re.compile(r"\b(error|fatal|abort(ed|ing)?)\b", re.IGNORECASE)


def warns(line: str) -> bool:
    """Whether a line of a program is a warning."""
    return bool(_WARNING.search(line))


def errs(line: str) -> bool:
    """Whether a line of a program is of an error, and no warning."""
    return bool(_ERROR.search(line)) and not warns(line)


class Gist:
    """What a program says that fails: its faults, else its first and last line with words."""

    def __init__(self) -> None:
        self._first = self._last = ""
        self._number = 0
        self._faults: list[str] = []

    def add(self, line: str) -> None:
        """The next line."""
        if any(map(str.isalnum, line)):
            self._last = one_line(" ".join(line.split()))
            self._first = self._first or self._last
            self._number += 1

    def fault(self, text: str) -> None:
        """The next line, which says why the program fails."""
        self.add(text)
        self._faults.append(self._last)

    def reason(self) -> str:
        """The first fault with the line that says more of it; empty without a fault.

        That is the next fault, or the last line if the first fault ends with a colon. Later ones
        are consequences.
        """
        if not self._faults:
            return ""
        first, *later = self._faults
        more = [self._last] if first.endswith(":") else later[:1]
        return "; ".join(_cut(line, _FAULT_WIDTH) for line in dict.fromkeys([first, *more]))

    def quoted(self, first: int = 120, last: int = 200) -> str:
        """First and last line, escaped and cut to so many characters; empty without words."""
        if self._number < 2:
            return _cut(self._last, first + last)
        between = " ... " if self._number > 2 else " / "
        return _cut(self._first, first) + between + _cut(self._last, last)


def quoted(*texts: str) -> str:
    """The gist, from the first error on, of the first text that has more than warnings.

    Of the first at all if none has.
    """
    lines = [text.split("\n") for text in texts]
    for of_text in [[line for line in part if not warns(line)] for part in lines] + lines:
        gist = Gist()
        first = next((at for at, line in enumerate(of_text) if _ERROR.search(line)), 0)
        for line in of_text[first:]:
            gist.add(line)
        if said := gist.quoted():
            return said
    return ""


def failure(code: int, gist: Gist) -> str:
    """Why a program failed by its own words; how it ended if it says no fault."""
    said = gist.quoted(80, 100)
    return gist.reason() or f"exit status {code}{said and ': '}{said}"


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[: most - 3]}..."
