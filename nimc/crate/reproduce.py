"""The verdict on a packed run and its repetition. Pure."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Literal, get_args

from analysis.compare.sides import ComparedSides, Comparison
from analysis.display.figures import relative_change_text
from analysis.effects.result import Result
from analysis.statistics.interval import ends_text
from nimc.crate.archive import Files
from nimc.crate.metadata import REPORT_FOLDER

Outcome = Literal["differs", "cannot be compared", "no difference shown", "reproduced"]


def outcome_of(compared_sides: ComparedSides) -> tuple[Outcome, list[str]]:
    """Return the verdict on the repetition of a run, and a line for each effect.

    The reference is the packed run; the other side, `this`, is its repetition. Each effect has an
    outcome, the first of these that applies:

    - cannot be compared: it was not measured again, its writes do not match, it has no ratio, or a
      verdict allows no statement
    - differs: the interval of the ratio of both slowdowns does not contain 1
    - no difference shown: a verdict is open
    - reproduced, if both runs have the same verdict; else differs

    The spread between nights is not known, since each side has one night (`docs/method.md`). The
    verdict on the repetition is the outcome of an effect that comes first in `Outcome`.
    """
    (packed_run,), (new_run,) = compared_sides.reference.runs, compared_sides.this.runs
    mismatches = {
        (mismatch.case, mismatch.arm): mismatch.text for mismatch in compared_sides.mismatches
    }
    slowdowns = {
        (row.case, row.arm): row for row in compared_sides.rows if row.metric == "slowdown"
    }
    new_results = {(result.case, result.arm): result for result in new_run.results}
    outcomes: list[Outcome] = []
    lines = []
    for result in packed_run.results:
        if result.role != "effect":
            continue
        key = (result.case, result.arm)
        mismatch = mismatches.get((result.case, None)) or mismatches.get(key)
        outcome, text = _effect_outcome(result, new_results.get(key), slowdowns.get(key), mismatch)
        outcomes.append(outcome)
        lines.append(f"{text}: {outcome}")
    if not outcomes:
        return "cannot be compared", ["the packed run has no effect"]
    return min(outcomes, key=get_args(Outcome).index), lines


def _effect_outcome(
    packed_result: Result,
    new_result: Result | None,
    slowdown: Comparison | None,
    mismatch: str | None,
) -> tuple[Outcome, str]:
    """Return the outcome of an effect, and its line without the outcome."""
    name = f"{packed_result.case} {packed_result.arm}"
    if new_result is None:
        return "cannot be compared", f"{name} was not measured here"
    if mismatch:
        return "cannot be compared", f"{name}: {mismatch}"
    verdicts = (packed_result.verdict, new_result.verdict)
    verdicts_text = f"'{packed_result.verdict}' packed, '{new_result.verdict}' here"
    ratio = slowdown.ratio if slowdown else None
    if ratio is None or any(verdict.allows_no_statement for verdict in verdicts):
        return "cannot be compared", f"{name}: {verdicts_text}"
    text = f"{name}: slowdown here / packed {ratio.value:.3f} ({ends_text(ratio)}); {verdicts_text}"
    if not ratio.low <= 1 <= ratio.high:
        return "differs", f"{text}; by {relative_change_text(ratio.value)}"
    if any(verdict.is_undecided for verdict in verdicts):
        return "no difference shown", text
    is_reproduced = packed_result.verdict is new_result.verdict
    return ("reproduced" if is_reproduced else "differs"), text


# `--analysis-only`: the results and the page are made again from the same samples.


def compared_files(crate_files: Files, new_files: Files) -> dict[str, str]:
    """Return name in the report -> `the same`, `the same to nine digits`, or `differs`.

    In JSON, the last digits of a figure may depend on the processor.
    """
    return {
        name: _agreement(crate_files.get(f"{REPORT_FOLDER}{name}", b""), content)
        for name, content in new_files.items()
    }


def _agreement(packed_content: bytes, new_content: bytes) -> str:
    if packed_content == new_content:
        return "the same"
    with suppress(ValueError, RecursionError):  # not JSON
        if _with_rounded_figures(packed_content) == _with_rounded_figures(new_content):
            return "the same to nine digits"
    return "differs"


def _with_rounded_figures(document: bytes) -> Any:
    return json.loads(document, parse_float=lambda figure: f"{float(figure):.9g}")
