"""Finds the cause of a program's failure in its output.

When a program fails, its MPI, its launcher and Slurm print messages too, and the last message
rarely states the cause. So the first line that states a cause is taken. This module uses only the
standard library, since compute nodes use it too.
"""

from __future__ import annotations

import re

from records.slurm import parse
from records.text import one_line

# Labels that launchers put before the lines that a program prints.


#: Label of Open MPI's `--tag-output`. A time may precede it. Version 5 adds the launcher's name.
_TAG = re.compile(
    r"^(?:\w{3} \w{3} +\d+ [\d:]+ \d{4})?"
    r"\[(?:prte(?:run)?-[^\]\s]+@)?\d+,\d+\]<std(?:out|err|diag)>: ?",
    re.MULTILINE,
)
#: Label with the rank, by Slurm, and by `-prepend-rank` of MPICH and Intel MPI.
_RANK = re.compile(rf"^(?: *(?:{parse.LABEL}|\[\d+\] ))+", re.MULTILINE)
#: Only so many characters of a line and so many last lines of a text are searched, to save time.
_MAX_LINE_LENGTH, _MAX_LINES = 4096, 10_000
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def unlabelled(text: str) -> str:
    """The output of an application without its launcher's labels.

    A number before a line is a label only if most lines have one.
    """
    text = _TAG.sub("", text)
    lines = [line for line in text.split("\n") if line.strip()]
    labelled_count = sum(_RANK.match(line) is not None for line in lines)
    return _RANK.sub("", text) if 2 * labelled_count > len(lines) else text


def without_marks(line: str) -> str:
    """A line without labels and colours."""
    return _RANK.sub("", _TAG.sub("", _COLOUR.sub("", line[:_MAX_LINE_LENGTH].rstrip())))


# Three kinds of lines: warnings, consequences of a failure, and causes.


#: Words of a warning. The program continues after it, so it states no cause.
_WARNING = re.compile(
    # Of the loader, if nodes lack a library that the login node's LD_PRELOAD names.
    r"\bwarn(ing)?s?\b|falling back to|, changing to |cannot be preloaded \(.*\): ignored"
    rf"|{parse.HARMLESS_ERRORS}",
    re.IGNORECASE,
)
#: Words of an error. Lines before the first error are ignored: they may be usual output.
_ERROR = re.compile(r"\b(error|fatal|abort(ed|ing)?)\b", re.IGNORECASE)

#: Lines that say that something failed, or where, but not why.
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
            # Frames of a stack, and separators.
            r"^ *\d+ +\S*\(\S*\+0x[0-9a-f]+\)|^=+ ?backtrace",
        ]
    )
)

#: A frame of MPICH's error stack; its group is the message. The frames above the cause have no
#: message, or only the failed call with its arguments.
_FRAME = re.compile(r"^(?:MPICH ERROR \[.*?\] - )?\(?\w+\)?\(\d*\)\.*: *(.*)")
_CALL = re.compile(r"\w+\(.*\) failed|")

#: Program that states a cause -> pattern of its line. The first group that matches is shown.
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
#: Beginnings of sentences in Open MPI's boxes, which may continue in the next line.
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
    """Return whether a line of a program is an error, and not a warning."""
    return bool(_ERROR.search(line)) and not is_warning(line)


def is_consequence(line: str) -> bool:
    """Return whether a line, without labels, only says that something failed."""
    frame = _FRAME.match(line)
    return bool(_CALL.fullmatch(frame[1]) if frame else _CONSEQUENCE.search(line))


def cause_in(line: str) -> str | None:
    """The cause that a line, without labels, states; None if it states no cause."""
    if is_warning(line) or is_consequence(line):
        return None
    if frame := _FRAME.match(line):
        return frame[1]
    if _SENTENCE.match(line):
        return line
    match = _CAUSE.search(line)
    if match is None:
        return None
    cause: str = next(filter(None, match.groups()))
    return cause.strip()


#: Maximum number of characters of a fault that are shown.
_FAULT_WIDTH = 300


class Gist:
    """The gist of a failing program's output: its faults, or the first cause that a line states.

    A *fault* is a line that the caller has recognised as an error of the program. A line is
    *telling* if it is a fault, or if it has words and is not a mere consequence of the failure.
    Without a fault and a cause, the gist is the first and the last telling line.
    """

    def __init__(self) -> None:
        #: The first and the last telling line, and the number of telling lines.
        self._first_telling = self._last_telling = ""
        self._telling_count = 0
        #: The first line that has words and is a mere consequence.
        self._consequence = ""
        #: The faults.
        self._faults: list[str] = []
        #: The first cause in lines that are not faults, and the number of faults before it.
        self._cause: str | None = None
        self._faults_before_cause = 0
        #: True if the cause is in MPICH's error stack. The next frame of the stack may state the
        #: cause more precisely.
        self._in_stack = False
        #: True if the cause is a sentence that continues in the next line.
        self._is_unfinished = False

    def add(self, line: str) -> None:
        """Add the next line."""
        line = without_marks(line)
        self._find_cause(line)
        self._note_line(line)

    def _note_line(self, line: str) -> None:
        if not any(map(str.isalnum, line)):
            return
        words = one_line(" ".join(line.split()))
        if is_consequence(line):
            self._consequence = self._consequence or words
        else:
            self._note_telling(words)

    def _note_telling(self, words: str) -> None:
        self._last_telling = words
        self._first_telling = self._first_telling or words
        self._telling_count += 1

    def _find_cause(self, line: str) -> None:
        """Note the cause that a line states, if it is the first cause or continues it."""
        if self._is_unfinished and self._cause:
            sentence, end, _ = " ".join(line.split()).partition(". ")
            self._cause = f"{self._cause} {sentence}{end}".rstrip()
            self._is_unfinished = False
            return
        cause = cause_in(line)
        is_frame = _FRAME.match(line) is not None
        if cause and (self._cause is None or (is_frame and self._in_stack)):
            if self._cause is None:
                self._faults_before_cause = len(self._faults)
            self._cause = one_line(" ".join(cause.split()))
            self._in_stack = is_frame
            is_sentence = _SENTENCE.match(line) is not None
            self._is_unfinished = is_sentence and not cause.endswith(_SENTENCE_ENDS)
        elif not is_frame:
            self._in_stack = False

    def add_fault(self, text: str) -> None:
        """Add the next line, which the caller has recognised as a fault."""
        words = one_line(" ".join(text.split()))
        self._note_telling(words)
        self._faults.append(words)

    def reason(self) -> str:
        """Return the cause if it precedes all faults; otherwise the first fault with its detail.

        Empty if there is neither. If the fault ends with a colon, its detail is the last telling
        line after it. If not, its detail is the next fault. Later faults are consequences.
        """
        if self._cause and not self._faults_before_cause:
            return _cut(self._cause, _FAULT_WIDTH)
        if not self._faults:
            return ""
        first, *later = self._faults
        details = [self._last_telling] if first.endswith(":") else later[:1]
        return "; ".join(_cut(line, _FAULT_WIDTH) for line in dict.fromkeys([first, *details]))

    def quoted(self, first_width: int = 120, last_width: int = 200) -> str:
        """Return the first and the last telling line, each cut to its width in characters.

        Without a telling line, the first consequence is returned. Empty if no line has words.
        """
        if self._telling_count < 2:
            return _cut(self._last_telling or self._consequence, first_width + last_width)
        first_line = _cut(self._first_telling, first_width)
        separator = " ... " if self._telling_count > 2 else " / "
        return first_line + separator + _cut(self._last_telling, last_width)


def cause_or_gist(*texts: str) -> str:
    """Return the cause or the gist of the first text that has telling lines.

    If no text has telling lines, the first text with words is used. Empty if no text has words.
    Lines before the first error are ignored.
    """
    lines_by_text = [
        [without_marks(line) for line in text.split("\n")[-_MAX_LINES:]] for text in texts
    ]
    telling_lines_by_text = [
        [line for line in lines if not (is_warning(line) or is_consequence(line))]
        for lines in lines_by_text
    ]
    for lines in [*telling_lines_by_text, *lines_by_text]:
        errors = (index for index, line in enumerate(lines) if cause_in(line) or is_error(line))
        start = next(errors, 0)
        gist = Gist()
        for line in lines[start:]:
            gist.add(line)
        cause = gist.reason() if lines and cause_in(lines[start]) else ""
        if words := cause or gist.quoted():
            return words
    return ""


def failure_reason(exit_status: int, gist: Gist) -> str:
    """The reason that a program's output states; without a reason, exit status and gist."""
    if reason := gist.reason():
        return reason
    words = gist.quoted(first_width=80, last_width=100)
    return f"exit status {exit_status}: {words}" if words else f"exit status {exit_status}"


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 3]}..."
