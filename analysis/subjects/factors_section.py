"""By factor: slowdowns against rates and levels, and what each level costs and gains.

Estimates are those of the results and contrasts of a run.
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
from analysis.questions.estimators import stated
from analysis.questions.question import Question, columns_of, ends_of, shared
from analysis.questions.shown import section
from analysis.report.data import RunData
from records.arms import arm_and_levels, level_text, treatment_name
from records.groups import grouped

#: The factor whose levels are requested rates.
RATE = "rate"


def _rows(run: RunData, *, rates: bool) -> pl.DataFrame:
    """A row per effect of the cases whose effects differ in a factor, in order of levels.

    Of those that differ in the rate, or of the others.

    `factor` is the rate if that varies, else the factor with most levels; `line` the arm with its
    level of the next factor that varies, `at` the levels of the others.
    """
    effects = grouped((row.case, row) for row in run.results if row.role == "effect")
    sizes = _sizes(run)
    rows = [row for case_effects in effects.values() for row in _case_figures(case_effects, sizes)]
    chosen = [row for row in rows if (row["factor"] == RATE) == rates]
    return pl.DataFrame(chosen, infer_schema_length=None)


#: Factor whose levels may be parts of the caches -> column of the bytes that it became.
_BECAME = {"footprint": "footprint_b", "working_set": "working_set_b"}
#: Case, treatment and factor -> bytes.
Sizes = Mapping[tuple[str, str, str], float]


def _sizes(run: RunData) -> Sizes:
    """Return what the levels of `_BECAME` were in each treatment."""
    samples = run.samples.lazy().select(pl.col("case", "arm").cast(pl.String), *_BECAME.values())
    most = samples.group_by("case", "arm").max().collect().to_dicts()
    return {
        (row["case"], row["arm"], factor): row[column]
        for row in most
        for factor, column in _BECAME.items()
        if row[column] is not None
    }


def _case_figures(effects: Sequence[Result], sizes: Sizes) -> list[dict[str, Any]]:
    levels = grouped((name, _level(row, name)) for row in effects for name in row.factors)
    varied = {name: len({*values}) for name, values in levels.items() if len({*values}) > 1}
    if not varied:
        return []
    factor = max(varied, key=lambda name: (name == RATE, varied[name]))
    others = [name for name in varied if name != factor]
    at_levels = [row for row in effects if factor in row.factors]
    rows = [
        {
            **{name: getattr(row, name) for name in ("case", "arm", "baseline")},
            **_figures(row, "slowdown"),
            "reached_b_s": row.writer_rate_b_s,
            "factor": factor,
            "at": ", ".join(f"{name} {_level(row, name)}" for name in others[1:]),
            "line": treatment_name(
                arm_and_levels(row.arm)[0], {name: _level(row, name) for name in others[:1]}
            ),
            "level": _level(row, factor),
            "verdict": row.verdict_text,
        }
        for row in sorted(at_levels, key=lambda row: _place(row, factor, sizes))
    ]
    return sorted(rows, key=itemgetter("at", "line"))


def _figures(record: Result | Contrast, name: str) -> dict[str, Any]:
    """Its pairs and estimate, and what repetitions of the baseline show."""
    estimate, floor = getattr(record, name), record.noise_floor
    return {"n": record.pairs, **columns_of(name, estimate), **ends_of("noise_floor", floor)}


def _level(row: Result, factor: str) -> str:
    return level_text(row.factors[factor]) if factor in row.factors else ""


def _place(row: Result, factor: str, sizes: Sizes) -> tuple[float, bool, str]:
    """Place of a row's level: by its quantity; words after the first level, which names omit."""
    level = _level(row, factor)
    position = sizes.get((row.case, row.arm, factor), level_value(level))
    return position, factor in arm_and_levels(row.arm)[1], level


_FLOOR = ("noise_floor_low", "noise_floor_high")
_HEADINGS = {
    "line": "treatment",
    "reached_b_s": "writers' rate",
    "noise_floor_low": "baseline repeated, from",
    "noise_floor_high": "to",
}
RATES = Question(
    name="by_rate",
    title="By factor: the writers' rate",
    text="Slowdown against the rate that the writers reached, not the one requested; a line for"
    " each level of another factor, a picture for each combination of the others.",
    rows=partial(_rows, rates=True),
    by=("case", "at", "line", "level"),
    estimates={"slowdown": stated("slowdown")},
    facts=shared("n", "reached_b_s", "verdict", "arm", "baseline", *_FLOOR),
    columns=("reached_b_s", *_FLOOR, "n", "verdict"),
    headings={**_HEADINGS, "level": "rate requested"},
    plot="lines",
    axes=("reached_b_s", "line"),
    apart=("case", "at"),
)
LEVELS = replace(
    RATES,
    name="by_level",
    title="By factor",
    text="Slowdown against the factor of each case that has most levels, numbers in their order,"
    " else the first level first; a line for each level of another factor, a picture for each"
    " combination of the others.",
    rows=partial(_rows, rates=False),
    by=("case", "factor", "at", "line", "level"),
    headings=_HEADINGS,
    axes=("level", "line"),
    apart=("case", "factor", "at"),
)


def _contrasts(run: RunData) -> pl.DataFrame:
    """A row per contrast of the run; levels as text."""
    names = ("case", "kind", "treatment", "against", "factor")
    rows = [
        {
            **{name: getattr(contrast, name) for name in names},
            **_figures(contrast, "ratio"),
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
    estimates={"ratio": stated("ratio")},
    facts=shared("n", "factor", "level", "reference", *_FLOOR),
    columns=(*_FLOOR, "n"),
    headings=_HEADINGS,
    plot=None,
)
SECTIONS = [section(RATES, "run", 20), section(LEVELS, "run", 21), section(PRICES, "run", 22)]
