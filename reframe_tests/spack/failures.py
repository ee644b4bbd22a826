"""The reason of a failure in Spack's output: its first error, and the package that failed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from records.last_words import is_error
from records.programs import last_line

#: An error of Spack's.
_ERROR = re.compile(r"^==> (?:\[.*?\] )?Error: *")
#: The start of a package's installation.
_INSTALLING = re.compile(r"^==> (?:\[.*?\] )?Installing (\S+)-\w{32}\b")
#: A line that Spack quotes from a build's log.
_QUOTED = re.compile(r"^\s+>> \d+ +")
#: Largest number of lines below an error that are shown.
_MAX_LINES = 3
#: Lines of Spack 1.2's installer: a package has failed; the header of its log; a line of its log,
#: which may have a mark or a number.
_FAILED = re.compile(r"^\[x\] \w+ (?P<package>\S+) failed(?:: (?P<log>\S+))?")
_LOG_HEADER = re.compile(r"^-- lines \d+ to \d+ --$")
_LOG_LINE = re.compile(r"^(?P<mark>>|  ) *(?:\d+  )?(?P<text>.+)")


def _installer_reason(lines: Sequence[str]) -> str | None:
    """Return the first failed package and the error in its log, as Spack 1.2 prints them.

    Returns None if no package has failed in this way.
    """
    failed = next(filter(None, map(_FAILED.match, lines)), None)
    if failed is None:
        return None
    header = next(
        (index for index, line in enumerate(lines) if _LOG_HEADER.match(line)), len(lines)
    )
    log = list(filter(None, map(_LOG_LINE.match, lines[header + 1 :])))
    marked = [line["text"] for line in log if line["mark"] == ">"]
    errors = marked or [line["text"] for line in log if is_error(line["text"])]
    if errors:
        return f"{failed['package']}: {errors[0].strip()}"
    return f"{failed['package']}: failed; its log is {failed['log'] or 'not kept'}"


def reason_in(text: str) -> str:
    """Return the first error in Spack's output with the lines that continue it, and its package."""
    lines = text.splitlines()
    if reason := _installer_reason(lines):
        return reason
    error = next((index for index, line in enumerate(lines) if _ERROR.match(line)), None)
    if error is None:
        return last_line(text)
    reason = _ERROR.sub("", lines[error]).strip()
    continuation: list[str] = []
    for line in lines[error + 1 :]:
        stripped = line.strip()
        is_indented = line.startswith((" ", "\t"))
        if stripped and not is_indented:
            break
        if stripped:
            continuation.append(stripped)
        elif continuation:
            break
    quoted = next((line for line in lines[error + 1 :] if _QUOTED.match(line)), None)
    if quoted:
        continuation = [*continuation[:1], _QUOTED.sub("", quoted)]
    if continuation:
        separator = " " if reason.endswith(":") else "; "
        reason += separator + "; ".join(continuation[:_MAX_LINES])
    packages = [match[1] for line in lines[:error] if (match := _INSTALLING.match(line))]
    return f"{packages[-1]}: {reason}" if packages else reason
