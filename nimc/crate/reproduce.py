"""The verdict on a packed run and its repetition. Pure."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Literal, get_args

from analysis.compare.sides import ComparedSides, Comparison
from analysis.display.figures import change
from analysis.effects.result import Result
from analysis.statistics.interval import ends_text
from nimc.crate.archive import Files
from nimc.crate.metadata import REPORT

Outcome = Literal["differs", "cannot be compared", "no difference shown", "reproduced"]


def outcome_of(compared: ComparedSides) -> tuple[Outcome, list[str]]:
    """Return the verdict on the repetition of a run, and a line for each effect.

    `compared.reference` is the packed run, `compared.this` its repetition. An effect is reproduced
    if both runs have the same verdict and their slowdowns differ by no more than the interval of
    their ratio. If one of them is inconclusive, no difference is shown. The spread between nights
    is not known, since each side has one night (`docs/method.md`). The verdict is the outcome of an
    effect that comes first in `Outcome`.
    """
    (packed,), (new,) = compared.reference.runs, compared.this.runs
    mismatches = {(mismatch.case, mismatch.arm): mismatch.text for mismatch in compared.mismatches}
    rows = {(row.case, row.arm): row for row in compared.rows if row.metric == "slowdown"}
    results = {(row.case, row.arm): row for row in new.results}
    outcomes: list[Outcome] = []
    lines = []
    for result in packed.results:
        if result.role != "effect":
            continue
        key = (result.case, result.arm)
        mismatch = mismatches.get((result.case, None)) or mismatches.get(key)
        outcome, text = _effect_outcome(result, results.get(key), rows.get(key), mismatch)
        outcomes.append(outcome)
        lines.append(f"{text}: {outcome}")
    if not outcomes:
        return "cannot be compared", ["the packed run has no effect"]
    return min(outcomes, key=get_args(Outcome).index), lines


def _effect_outcome(
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


# `--analysis-only`: results and page are made again from the same samples.


def compared_files(crate: Files, new: Files) -> dict[str, str]:
    """Return name in the report -> `the same`, `the same to nine digits`, or `differs`.

    In JSON, the last digits of a figure may depend on the processor.
    """
    return {name: _agreement(crate.get(f"{REPORT}{name}", b""), text) for name, text in new.items()}


def _agreement(packed: bytes, new: bytes) -> str:
    if packed == new:
        return "the same"
    with suppress(ValueError, RecursionError):  # not JSON
        if _with_rounded_figures(packed) == _with_rounded_figures(new):
            return "the same to nine digits"
    return "differs"


def _with_rounded_figures(text: bytes) -> Any:
    return json.loads(text, parse_float=lambda figure: f"{float(figure):.9g}")
