"""Compares a packed run with its repetition, and returns a verdict. Reads no files."""

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

    `compared_sides.reference` is the packed run, `compared_sides.this` its repetition. Each effect
    of the packed run has an outcome, the first of these that applies:

    - 'cannot be compared': the effect was not measured again, its writes do not match, the ratio of
      the two slowdowns is not known, or the verdict of one run allows no statement
    - 'differs': the interval of the ratio of the two slowdowns does not contain 1
    - 'no difference shown': the verdict of one run is undecided
    - 'reproduced' if both runs have the same verdict, otherwise 'differs'

    The verdict on the repetition is the outcome of one of the effects: the outcome that comes first
    in `Outcome`. The variation between nights is not known, since each side has only one night
    (`docs/method.md`).
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
    """Return the outcome of an effect, and the start of its line, to which the outcome is added."""
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


# With `--analysis-only`, nothing is measured. Results and page are made again from the packed
# samples and compared with the packed ones.


def compared_files(crate_files: Files, new_files: Files) -> dict[str, str]:
    """Return name of a file of the report -> how its packed and its new content agree.

    The value is `the same`, `the same to nine digits` or `differs`. The last digits of figures in
    JSON may depend on the processor.
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
