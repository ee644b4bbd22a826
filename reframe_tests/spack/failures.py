"""Spack's words on a failure: its first error, and the package that it was about. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from records.last_words import is_error
from records.programs import last_line

#: An error of Spack's; the package that it has begun; a line of a build's log that it quotes.
_ERROR = re.compile(r"^==> (?:\[.*?\] )?Error: *")
_BEGUN = re.compile(r"^==> (?:\[.*?\] )?Installing (\S+)-\w{32}\b")
_OF_BUILD = re.compile(r"^\s+>> \d+ +")
#: So many lines below an error are shown.
_REASONS = 3
#: Lines of Spack 1.2's installer on a package that fails, and on its log: a header, and
#: lines with a number, a mark, or neither.
_FAILED = re.compile(r"^\[x\] \w+ (\S+) failed(?:: (\S+))?")
_LOG_LINES = re.compile(r"^-- lines \d+ to \d+ --$")
_LOG_LINE = re.compile(r"^(>|  ) *(?:\d+  )?(.+)")


def _new_reason_in(lines: Sequence[str]) -> str | None:
    """The first package that failed, by the installer of Spack 1.2, and the error in its log."""
    failed = next(filter(None, map(_FAILED.match, lines)), None)
    if failed is None:
        return None
    header = next((index for index, line in enumerate(lines) if _LOG_LINES.match(line)), len(lines))
    log = [*filter(None, map(_LOG_LINE.match, lines[header + 1 :]))]
    marked = [line[2] for line in log if line[1] == ">"]
    errors = marked or [line[2] for line in log if is_error(line[2])]
    why = errors[0].strip() if errors else f"failed; its log is {failed[2] or 'not kept'}"
    return f"{failed[1]}: {why}"


def reason_in(text: str) -> str:
    """The first error in what Spack printed, the lines that it goes on in, and its package."""
    lines = text.splitlines()
    if reason := _new_reason_in(lines):
        return reason
    first = next((number for number, line in enumerate(lines) if _ERROR.match(line)), None)
    if first is None:
        return last_line(text)
    reason = _ERROR.sub("", lines[first]).strip()
    below: list[str] = []
    for line in lines[first + 1 :]:
        text = line.strip()
        if (text and not line.startswith((" ", "\t"))) or (below and not text):
            break
        below += [text] if text else []
    quoted = next((line for line in lines[first + 1 :] if _OF_BUILD.match(line)), None)
    if quoted:
        below = [*below[:1], _OF_BUILD.sub("", quoted)]
    if below:
        reason += (" " if reason.endswith(":") else "; ") + "; ".join(below[:_REASONS])
    begun = [match[1] for line in lines[:first] if (match := _BEGUN.match(line))]
    return f"{begun[-1]}: {reason}" if begun else reason
