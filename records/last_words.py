"""The last words of a program that fails: the first line that states a cause.

As one fails, its MPI, its launcher and Slurm print as well, and whoever prints last rarely knows
why. Standard library only: nodes use it too.
"""

from __future__ import annotations

import re

from records.slurm import parse
from records.text import one_line

# Marks before a line of a program.


#: Open MPI's `--tag-output`, of version 5 with the name of the launcher, perhaps with a time.
_TAG = re.compile(
    r"^(?:\w{3} \w{3} +\d+ [\d:]+ \d{4})?"
    r"\[(?:prte(?:run)?-[^\]\s]+@)?\d+,\d+\]<std(?:out|err|diag)>: ?",
    re.MULTILINE,
)
#: Slurm's, and `-prepend-rank` of MPICH, which Intel MPI adds to its own.
_RANK = re.compile(rf"^(?: *(?:{parse.LABEL}|\[\d+\] ))+", re.MULTILINE)
#: More of a line, or more lines before its end, say no more of a cause, and take long to search.
_MAX_LINE, _MAX_LINES = 4096, 10_000
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def unlabelled(text: str) -> str:
    """The output of an application without what its launcher put before each line.

    A number before a line is a label only if most lines have one.
    """
    text = _TAG.sub("", text)
    lines = [line for line in text.split("\n") if line.strip()]
    labelled = sum(_RANK.match(line) is not None for line in lines)
    return _RANK.sub("", text) if 2 * labelled > len(lines) else text


def without_marks(line: str) -> str:
    """A line without labels and colours."""
    return _RANK.sub("", _TAG.sub("", _COLOUR.sub("", line[:_MAX_LINE].rstrip())))


# Lines that only warn, that follow from a failure, and that state a cause.


#: Words of a line that only warns. A program goes on after it, so it is no fault by itself.
_WARNING = re.compile(r"\bwarn(ing)?s?\b|falling back to|, changing to ", re.IGNORECASE)
#: Words of a line with an error, before which a program may have printed what it always prints.
_ERROR = re.compile(r"\b(error|fatal|abort(ed|ing)?)\b", re.IGNORECASE)

#: Lines that say that something failed, or where, and not why.
_CONSEQUENCE = re.compile(
    "|".join(
        [
            *parse.CONSEQUENCES,
            # Open MPI.
            r"^\[[^\]]+\] +\*\*\* (?!MPI_ERR_)|^\[[^\]]+\] +\[ *\d+\] |Process received signal",
            r"more process(?:es)? (?:has|have) sent help message|MCA parameter",
            r"^It looks like \w+ failed for some reason|^likely to abort|--> Returned",
            r"MPI_ABORT was invoked on rank|^with errorcode|^NOTE: invoking MPI_ABORT",
            r"^Primary job +terminated|processes exited with non-zero status",
            # MPICH and Cray MPICH.
            r"error stack:|^aborting job:|^=   (?:BAD TERMINATION|EXIT CODE|CLEANING UP|PID \d)",
            r"^YOUR APPLICATION TERMINATED",
            # Frames, and what only separates.
            r"^ *\d+ +\S*\(\S*\+0x[0-9a-f]+\)|^=+ ?backtrace",
        ]
    )
)

#: One frame of MPICH's error stack, and its words; the calls above the cause have none, or what
#: they were called with.
_FRAME = re.compile(r"^(?:MPICH ERROR \[.*?\] - )?\(?\w+\)?\(\d*\)\.*: *(.*)")
_CALL = re.compile(r"\w+\(.*\) failed|")

#: By whom a cause is stated -> the line; its first group, if it has one, is what is shown.
_CAUSES = {
    "Slurm": parse.CAUSE,
    "the loader": r"(error while loading shared libraries: .+|symbol lookup error: .+"
    r"|version `\S+' not found.*)",
    "UCX": r"\bUCX +(?:ERROR|FATAL|Fatal:?) +(.+)",
    "UCX, as it aborts": r"^\[[\w.-]+:\d+ *:\d+:\d+\] +\w+\.[ch]:\d+ +(?:UCX +)?(?:Fatal: +)?(.+)",
    "PSM": r"(PSM\d? (?:can't open|was unable to) .+|mmap of \w+ .*failed: .+)",
    "Open MPI": r"(PML \w+ cannot be selected)|^\[[^\]]+\] +\w+\.c:\d+ +Error: (.+)"
    r"|\*\*\* (MPI_ERR_\w+: .+)|^  (\S.* failed)$",
    "MPICH's launcher": r"^\[(?:proxy|mpiexec)\S*\] .*?: (execvp error .+|[Uu]nable to .+)",
    "Cray MPICH": r"Abort\(-?\d+\)[^:]*: (?!Fatal error in)(.+)",
    "MPICH": r"(Fatal error in \w+: (?!.*error stack:).+)",
    "Intel MPI": r"^MPI startup\(\): (.* is not available .*|.*not supported.*)",
    "the shell": r"^(\S+: (?:line \d+: )?.+: (?:command not found|No such file or directory))$",
    "signals": r"(Caught signal \d+ .+)",
}
#: Sentences of Open MPI's boxes, which may go on in the next line.
_SENTENCES = (
    r"No components were able to be opened",
    r"There are not enough slots available",
    r"All nodes which are allocated for this job are already filled",
    r"A requested component was not found",
    r"\S+ was unable to (?:find|launch|start|open)",
    r"\S+ has detected an attempt to run as root",
    r"The application appears to have been direct launched",
    r"At least one pair of MPI processes are unable to reach",
    r"An? \w+ daemon has unexpectedly failed",
    r"\S+ has lost communication with a remote daemon",
    r"The OpenFabrics \(openib\) BTL failed to initialize",
)
_CAUSE = re.compile("|".join(f"(?:{pattern})" for pattern in _CAUSES.values()))
_SENTENCE = re.compile(f"^(?:{'|'.join(_SENTENCES)})")
_SENTENCE_ENDS = (".", ":", "!")


def is_warning(line: str) -> bool:
    """Return whether a line of a program is a warning."""
    return bool(_WARNING.search(line))


def is_error(line: str) -> bool:
    """Return whether a line of a program is of an error, and no warning."""
    return bool(_ERROR.search(line)) and not is_warning(line)


def is_consequence(line: str) -> bool:
    """Return whether a line, without labels, only says that something failed."""
    frame = _FRAME.match(line)
    return bool(_CALL.fullmatch(frame[1]) if frame else _CONSEQUENCE.search(line))


def cause_in(line: str) -> str | None:
    """The cause that a line, without labels, states."""
    if is_warning(line) or is_consequence(line):
        return None
    if frame := _FRAME.match(line):
        return frame[1]
    if _SENTENCE.match(line):
        return line
    match = _CAUSE.search(line)
    return next(filter(None, match.groups())).strip() if match else None


#: Most characters of a fault that are shown.
_FAULT_WIDTH = 300


class Gist:
    """The gist of what a failing program says: its faults, or the first cause that a line states.

    Else its first and last line with words, of those that do not only follow from a failure.
    """

    def __init__(self) -> None:
        self._first = self._last = self._other = ""
        self._number = 0
        self._faults: list[str] = []
        #: The first cause that is no fault, and how many faults were before it.
        self._cause: str | None = None
        self._before_cause = 0
        #: True if the next line continues it, as in MPICH's stack or a sentence over two lines.
        self._deeper = self._open = False

    def add(self, line: str) -> None:
        """The next line."""
        line = without_marks(line)
        self._find(line)
        self._note(line)

    def _note(self, line: str) -> None:
        if not any(map(str.isalnum, line)):
            return
        words = one_line(" ".join(line.split()))
        if is_consequence(line):
            self._other = self._other or words
            return
        self._last = words
        self._first = self._first or words
        self._number += 1

    def _find(self, line: str) -> None:
        """Note the cause that a line states, if it is the first, or goes on with it."""
        if self._open and self._cause:
            sentence, end, _ = " ".join(line.split()).partition(". ")
            self._cause, self._open = f"{self._cause} {sentence}{end}".rstrip(), False
            return
        cause, frame = cause_in(line), _FRAME.match(line) is not None
        if cause and (self._cause is None or (frame and self._deeper)):
            if self._cause is None:
                self._before_cause = len(self._faults)
            self._cause = one_line(" ".join(cause.split()))
            self._deeper = frame
            self._open = bool(_SENTENCE.match(line)) and not cause.endswith(_SENTENCE_ENDS)
        elif not frame:
            self._deeper = False

    def add_fault(self, text: str) -> None:
        """The next line, which says why the program fails."""
        self._note(text)
        self._faults.append(one_line(" ".join(text.split())))

    def reason(self) -> str:
        """The first fault with the line that says more of it, or the cause before it; or empty.

        More is said by the next fault, or by the last line if the first fault ends with a colon.
        Later ones are consequences.
        """
        if self._cause and not self._before_cause:
            return _cut(self._cause, _FAULT_WIDTH)
        if not self._faults:
            return ""
        first, *later = self._faults
        more = [self._last] if first.endswith(":") else later[:1]
        return "; ".join(_cut(line, _FAULT_WIDTH) for line in dict.fromkeys([first, *more]))

    def quoted(self, first: int = 120, last: int = 200) -> str:
        """First and last line, escaped and cut to so many characters; empty without words."""
        if self._number < 2:
            return _cut(self._last or self._other, first + last)
        between = " ... " if self._number > 2 else " / "
        return _cut(self._first, first) + between + _cut(self._last, last)


def cause_or_gist(*texts: str) -> str:
    """The cause, or the gist from the first error on, of the first text that has one.

    Else of the first text with more than warnings and what follows from a failure, or at all.
    """
    every = [[without_marks(line) for line in text.split("\n")[-_MAX_LINES:]] for text in texts]
    telling = [
        [line for line in lines if not (is_warning(line) or is_consequence(line))]
        for lines in every
    ]
    for listed in [*telling, *every]:
        first = next(
            (index for index, line in enumerate(listed) if cause_in(line) or is_error(line)), 0
        )
        gist = Gist()
        for line in listed[first:]:
            gist.add(line)
        stated = gist.reason() if listed and cause_in(listed[first]) else ""
        if words := stated or gist.quoted():
            return words
    return ""


def failure_reason(code: int, gist: Gist) -> str:
    """Return why a program failed by its own words; how it ended if it says no fault."""
    words = gist.quoted(80, 100)
    return gist.reason() or f"exit status {code}{words and ': '}{words}"


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[: most - 3]}..."
