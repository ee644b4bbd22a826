"""The verdict on a packed run and its repetition. Pure."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Literal, get_args

from analysis.compare.sides import ComparedSides, Comparison
from analysis.display.figures import change
from analysis.effects.result import Result
from analysis.statistics.interval import ends_text
from nimc.crate.metadata import REPORT
from nimc.crate.zipped import Files

Outcome = Literal["differs", "cannot be compared", "no difference shown", "reproduced"]


def outcome_of(compared: ComparedSides) -> tuple[Outcome, list[str]]:
    """The verdict, the first of all outcomes that any effect has; and a line for each effect.

    `compared.reference` is the packed run, `compared.this` its repetition. An effect is reproduced
    if both runs decide it alike, and their slowdowns do not differ by more than their intervals;
    where one does not decide it, no difference is shown. With one night a side, how nights differ
    is not known (`docs/method.md`).
    """
    (packed,), (new,) = compared.reference.runs, compared.this.runs
    mismatches = {(mismatch.case, mismatch.arm): mismatch.text for mismatch in compared.mismatches}
    rows = {(row.case, row.arm): row for row in compared.rows if row.metric == "slowdown"}
    results = {(row.case, row.arm): row for row in new.results}
    judged = [
        _effect(
            row,
            results.get(key),
            rows.get(key),
            mismatches.get((row.case, None)) or mismatches.get(key),
        )
        for row in packed.results
        if row.role == "effect"
        for key in [(row.case, row.arm)]
    ]
    if not judged:
        return "cannot be compared", ["the packed run has no effect"]
    first = min((outcome for outcome, _ in judged), key=get_args(Outcome).index)
    return first, [f"{text}: {outcome}" for outcome, text in judged]


def _effect(
    packed: Result, new: Result | None, row: Comparison | None, mismatch: str | None
) -> tuple[Outcome, str]:
    name = f"{packed.case} {packed.arm}"
    if new is None:
        return "cannot be compared", f"{name} was not measured here"
    if mismatch:
        return "cannot be compared", f"{name}: {mismatch}"
    verdicts = (packed.verdict, new.verdict)
    decisions = f"'{packed.verdict}' packed, '{new.verdict}' here"
    if row is None or row.ratio is None or any(verdict.is_not_compared for verdict in verdicts):
        return "cannot be compared", f"{name}: {decisions}"
    ratio = row.ratio
    text = f"{name}: slowdown here / packed {ratio.value:.3f} ({ends_text(ratio)}); {decisions}"
    if not ratio.low <= 1 <= ratio.high:
        return "differs", f"{text}; by {change(ratio.value)}"
    if any(verdict.is_open for verdict in verdicts):
        return "no difference shown", text
    return ("reproduced" if packed.verdict is new.verdict else "differs"), text


# Results and page once more from the same samples.


def compared_files(crate: Files, new: Files) -> dict[str, str]:
    """Name in the report -> `the same`, `the same to nine digits` (of JSON), or `differs`.

    The last digits of a figure may depend on the processor.
    """
    return {name: _alike(crate.get(f"{REPORT}{name}", b""), text) for name, text in new.items()}


def _alike(before: bytes, after: bytes) -> str:
    if before == after:
        return "the same"
    with suppress(ValueError, RecursionError):  # it is no JSON
        if _rounded(before) == _rounded(after):
            return "the same to nine digits"
    return "differs"


def _rounded(text: bytes) -> Any:
    return json.loads(text, parse_float=lambda figure: f"{float(figure):.9g}")
