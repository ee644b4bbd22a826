"""Sections by factor: slowdowns against rates and levels; the price and gain of each level.

The estimates are taken from a run's results and contrasts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import polars as pl

from analysis.effects.contrasts import Contrast
from analysis.effects.result import Result
from analysis.effects.statements import level_value
from analysis.questions.estimators import stored_estimate
from analysis.questions.presentation import section
from analysis.questions.question import Question, columns_of, ends_of, shared
from analysis.report.data import RunData
from records.arms import arm_and_levels, level_text, treatment_name
from records.groups import grouped

#: The factor whose levels are requested rates.
_RATE_FACTOR = "rate"


def _level_rows(run: RunData, *, rates: bool) -> pl.DataFrame:
    """A row per effect of the cases in which a factor varies, in order of that factor's levels.

    If `rates` is true, only cases whose effects differ in the rate are included. If it is false,
    only the other cases are included. In a row, `factor` is the rate if the rate varies in the
    case, and otherwise the factor with the most levels. `line` names the row's line in the picture:
    the arm with its level of the next factor that varies. `at` has the levels of the remaining
    factors.
    """
    effects_by_case = grouped((row.case, row) for row in run.results if row.role == "effect")
    sizes_b = _level_sizes(run)
    rows = []
    for effects in effects_by_case.values():
        rows += [
            row for row in _case_rows(effects, sizes_b) if (row["factor"] == _RATE_FACTOR) == rates
        ]
    return pl.DataFrame(rows, infer_schema_length=None)


#: Factor whose levels may be shares of the caches -> column with their bytes.
_SIZE_COLUMNS = {"footprint": "footprint_b", "working_set": "working_set_b"}
#: Case, treatment and factor -> bytes.
LevelSizes = Mapping[tuple[str, str, str], float]


def _level_sizes(run: RunData) -> LevelSizes:
    """The bytes of the levels of the factors in `_SIZE_COLUMNS`, in each treatment."""
    treatment = pl.col("case", "arm").cast(pl.String)
    samples = run.samples.lazy().select(treatment, *_SIZE_COLUMNS.values())
    return {
        (row["case"], row["arm"], factor): row[column]
        for row in samples.group_by("case", "arm").max().collect().to_dicts()
        for factor, column in _SIZE_COLUMNS.items()
        if row[column] is not None
    }


def _case_rows(effects: Sequence[Result], sizes_b: LevelSizes) -> list[dict[str, Any]]:
    """The rows of the effects of one case. There are no rows if no factor varies."""
    levels_by_factor = grouped((name, _level(row, name)) for row in effects for name in row.factors)
    level_counts = {name: len(set(levels)) for name, levels in levels_by_factor.items()}
    varied_factors = [name for name, count in level_counts.items() if count > 1]
    if not varied_factors:
        return []
    factor = max(varied_factors, key=lambda name: (name == _RATE_FACTOR, level_counts[name]))
    other_factors = [name for name in varied_factors if name != factor]
    line_factors, picture_factors = other_factors[:1], other_factors[1:]
    rows = []
    for row in sorted(effects, key=lambda row: _sort_key(row, factor, sizes_b)):
        if factor not in row.factors:
            continue
        rows.append(
            {
                "case": row.case,
                "arm": row.arm,
                "baseline": row.baseline,
                **_estimate_columns(row, "slowdown"),
                "reached_b_s": row.writer_rate_b_s,
                "factor": factor,
                "at": ", ".join(f"{name} {_level(row, name)}" for name in picture_factors),
                "line": treatment_name(
                    arm_and_levels(row.arm).arm, {name: _level(row, name) for name in line_factors}
                ),
                "level": _level(row, factor),
                "verdict": row.verdict_text,
            }
        )
    return sorted(rows, key=itemgetter("at", "line"))


def _estimate_columns(record: Result | Contrast, name: str) -> dict[str, Any]:
    """Columns of a row: number of pairs, the estimate in the field `name`, and repeatability."""
    return {
        "n": record.pairs,
        **columns_of(name, getattr(record, name)),
        **ends_of("noise_floor", record.noise_floor),
    }


def _level(row: Result, factor: str) -> str:
    """The level of a factor as text; empty if the effect does not have the factor."""
    return level_text(row.factors[factor]) if factor in row.factors else ""


def _sort_key(row: Result, factor: str, sizes_b: LevelSizes) -> tuple[float, bool, str]:
    """The key that sorts levels by their quantities: bytes, rates, shares or numbers.

    Levels that are words come last: the factor's first level, then the others by alphabet.
    """
    level = _level(row, factor)
    quantity = sizes_b.get((row.case, row.arm, factor), level_value(level))
    # A treatment's name has the factor unless the level is the first one, so the first level is
    # sorted before the others.
    return quantity, factor in arm_and_levels(row.arm).levels, level


_FLOOR_COLUMNS = ("noise_floor_low", "noise_floor_high")
_HEADINGS = {
    "line": "treatment",
    "reached_b_s": "writers' rate",
    "noise_floor_low": "baseline repeated, from",
    "noise_floor_high": "to",
}
RATES = Question(
    name="by_rate",
    title="By factor: the writers' rate",
    text="Slowdown against the rate that the writers reached, not the one requested. There is a"
    " line for each level of another factor, and a picture for each combination of the remaining"
    " ones.",
    rows=partial(_level_rows, rates=True),
    by=("case", "at", "line", "level"),
    estimates={"slowdown": stored_estimate("slowdown")},
    facts=shared("n", "reached_b_s", "verdict", "arm", "baseline", *_FLOOR_COLUMNS),
    columns=("reached_b_s", *_FLOOR_COLUMNS, "n", "verdict"),
    headings={**_HEADINGS, "level": "rate requested"},
    plot="lines",
    plot_columns=("reached_b_s", "line"),
    picture_keys=("case", "at"),
)
LEVELS = replace(
    RATES,
    name="by_level",
    title="By factor",
    text="Slowdown against the levels of the factor that has the most levels in the case. Numbers"
    " are in ascending order. Words follow, the first level before the others. There is a"
    " line for each level of another factor, and a picture for each combination of the remaining"
    " ones.",
    rows=partial(_level_rows, rates=False),
    by=("case", "factor", "at", "line", "level"),
    headings=_HEADINGS,
    plot_columns=("level", "line"),
    picture_keys=("case", "factor", "at"),
)


def _contrasts(run: RunData) -> pl.DataFrame:
    """A row per contrast of the run, with levels as text."""
    rows = [
        {
            "case": contrast.case,
            "kind": contrast.kind,
            "treatment": contrast.treatment,
            "against": contrast.against,
            "factor": contrast.factor,
            **_estimate_columns(contrast, "ratio"),
            "level": level_text(contrast.level),
            "reference": level_text(contrast.reference),
        }
        for contrast in run.contrasts
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


PRICES = Question(
    name="prices",
    title="Price and gain of each level",
    text="Compared with the first level of the factor, within pairs. Price: time at this level /"
    " time at the first level, both without writes; above 1 it costs. Gain: time at the first level"
    " / time at this level, both under the same writes; above 1 it helps.",
    rows=_contrasts,
    by=("case", "kind", "treatment", "against"),
    estimates={"ratio": stored_estimate("ratio")},
    facts=shared("n", "factor", "level", "reference", *_FLOOR_COLUMNS),
    columns=(*_FLOOR_COLUMNS, "n"),
    headings=_HEADINGS,
    plot=None,
)
SECTIONS = [
    section(RATES, "before_cases", 20),
    section(LEVELS, "before_cases", 21),
    section(PRICES, "before_cases", 22),
]
