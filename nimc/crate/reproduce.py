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


def outcome_of(compared: ComparedSides) -> tuple[Outcome, list[str]]:
    """Return the verdict on the repetition of a run, and a line for each effect.

    `compared.reference` is the packed run, `compared.this` its repetition. An effect is reproduced
    if the interval of the ratio of both slowdowns contains 1, and both runs have the same verdict.
    If one of the verdicts is open, no difference is shown. The spread between nights is not known,
    since each side has one night (`docs/method.md`). The verdict on the repetition is, of the
    outcomes of all effects, the one that comes first in `Outcome`.
    """
    (packed,), (new,) = compared.reference.runs, compared.this.runs
    mismatches = {(mismatch.case, mismatch.arm): mismatch.text for mismatch in compared.mismatches}
    slowdowns = {(row.case, row.arm): row for row in compared.rows if row.metric == "slowdown"}
    new_results = {(result.case, result.arm): result for result in new.results}
    outcomes: list[Outcome] = []
    lines = []
    for result in packed.results:
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
    packed: Result, new: Result | None, slowdown: Comparison | None, mismatch: str | None
) -> tuple[Outcome, str]:
    name = f"{packed.case} {packed.arm}"
    if new is None:
        return "cannot be compared", f"{name} was not measured here"
    if mismatch:
        return "cannot be compared", f"{name}: {mismatch}"
    verdicts = (packed.verdict, new.verdict)
    decisions = f"'{packed.verdict}' packed, '{new.verdict}' here"
    ratio = slowdown.ratio if slowdown else None
    if ratio is None or any(verdict.allows_no_statement for verdict in verdicts):
        return "cannot be compared", f"{name}: {decisions}"
    text = f"{name}: slowdown here / packed {ratio.value:.3f} ({ends_text(ratio)}); {decisions}"
    if not ratio.low <= 1 <= ratio.high:
        return "differs", f"{text}; by {relative_change_text(ratio.value)}"
    if any(verdict.is_open for verdict in verdicts):
        return "no difference shown", text
    return ("reproduced" if packed.verdict is new.verdict else "differs"), text


# `--analysis-only`: the results and the page are made again from the same samples.


def compared_files(crate_files: Files, new_files: Files) -> dict[str, str]:
    """Return name in the report -> `the same`, `the same to nine digits`, or `differs`.

    In JSON, the last digits of a figure may depend on the processor.
    """
    return {
        name: _agreement(crate_files.get(f"{REPORT_FOLDER}{name}", b""), content)
        for name, content in new_files.items()
    }


def _agreement(packed: bytes, new: bytes) -> str:
    if packed == new:
        return "the same"
    with suppress(ValueError, RecursionError):  # not JSON
        if _with_rounded_figures(packed) == _with_rounded_figures(new):
            return "the same to nine digits"
    return "differs"


def _with_rounded_figures(document: bytes) -> Any:
    return json.loads(document, parse_float=lambda figure: f"{float(figure):.9g}")
