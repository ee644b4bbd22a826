"""References of a machine's file, proposed from its nights: a patch, which nobody applies here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

import yaml

from analysis.history.alarms import SeriesWatch
from nimc.base.groups import grouped
from nimc.records.arms import BASELINE

_KEY = "references"
#: Significant digits of a proposed reference.
_DIGITS = 4
#: What follows the last line of a file that ends without a line break.
_NO_END = "\n\\ No newline at end of file\n"


def proposed(watches: Iterable[SeriesWatch]) -> dict[str, float]:
    """Case -> level of its baseline's figure of merit, as far as its nights give one.

    A case that several campaigns measure is left out: a reference holds for all of them.
    """
    baselines = (each for each in watches if (each.arm, each.quantity) == (BASELINE, "fom"))
    levels = grouped((each.case, each.level) for each in baselines)
    return {
        case: float(f"{found[0]:.{_DIGITS}g}")
        for case, found in sorted(levels.items())
        if len(found) == 1 and found[0] is not None
    }


def patch(text: str, path: str, references: Mapping[str, float]) -> str:
    """A unified diff that puts `references` into a machine's file; empty if nothing changes.

    References of other cases stay.
    """
    lines = text.splitlines(keepends=True)
    begin, end = _block(lines)
    old = (yaml.safe_load("".join(lines[begin:end])) or {}).get(_KEY) or {}
    merged = {**old, **references}
    if merged == old:
        return ""
    block = yaml.safe_dump({_KEY: merged}, sort_keys=False, allow_unicode=True)
    kept = [line.removesuffix("\n") + "\n" for line in lines]
    new = [*kept[:begin], *block.splitlines(keepends=True), *kept[end:]]
    made = difflib.unified_diff(lines, new, f"a/{path}", f"b/{path}")
    return "".join(line if line.endswith("\n") else line + _NO_END for line in made)


def _block(lines: list[str]) -> tuple[int, int]:
    """The lines of the key `references` at the top level; none at the end if there is no such."""
    for begin, line in enumerate(lines):
        if re.match(rf"{_KEY}\s*:", line):
            end = begin + 1
            for at, inner in enumerate(lines[begin + 1 :], begin + 1):
                if re.match(r"\s+[^\s#]", inner):
                    end = at + 1
                elif re.match(r"[^\s#]", inner):
                    break
            return begin, end
    return len(lines), len(lines)
