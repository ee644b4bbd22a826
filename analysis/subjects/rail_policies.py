"""Figure 2 of the multirail study, for this machine: speed under each rail policy."""

from __future__ import annotations

from typing import Any

import polars as pl

from analysis.questions.estimators import stated
from analysis.questions.question import Question, columns_of, ends_of, shared
from analysis.questions.shown import section
from analysis.report.data import RunData
from analysis.statistics.interval import Interval
from analysis.subjects.multirail import MPI, RULE, TOOL, beside_published, limits_of
from records.arms import arm_and_levels, level_text

WRITERS = "writer_rail"


def _policies(run: RunData) -> pl.DataFrame:
    """A row per policy: MPI's without writers, then under them, then the writers' policies.

    A price is a ratio of times, so that its inverse is one of speeds; a gain is one already.
    """
    medians = {(row.case, row.arm): row.on_median for row in run.results}
    medians |= {(row.case, row.baseline): row.off_median for row in run.results}
    chosen = [
        contrast
        for contrast in run.contrasts
        if contrast.factor in (MPI, WRITERS) and TOOL not in contrast.at
    ]
    chosen.sort(key=lambda contrast: (contrast.factor != MPI, contrast.kind == "gain"))
    rows = []
    for contrast in chosen:
        speed = (
            contrast.ratio.inverse
            if contrast.ratio and contrast.kind == "price"
            else contrast.ratio
        )
        row: dict[str, Any] = {name: getattr(contrast, name) for name in ("case", "factor", "unit")}
        row |= {
            "n": contrast.pairs,
            "policy": level_text(contrast.level),
            "reference": level_text(contrast.reference),
            "arm": arm_and_levels(contrast.treatment)[0],
            "fom": medians.get((contrast.case, contrast.treatment)),
            "fom_reference": medians.get((contrast.case, contrast.against)),
            "margin": run.header.margin,
        }
        floor = contrast.noise_floor and Interval(
            1 / contrast.noise_floor.high, 1 / contrast.noise_floor.low
        )
        rows.append(row | columns_of("speed", speed) | ends_of("floor", floor))
    return pl.DataFrame(rows, infer_schema_length=None)


POLICIES = Question(
    name="rails",
    title="Figure 2 of the multirail study: speed under each rail policy",
    text="Speed of the application divided by that at the first policy, within pairs; above 1 the"
    f" policy is faster. Band: repeatability of the baselines of both.{RULE}",
    rows=_policies,
    by=("factor", "arm", "case", "policy"),
    estimates={"speed": stated("speed")},
    facts=shared(
        "n", "reference", "fom", "fom_reference", "unit", "floor_low", "floor_high", "margin"
    ),
    limits=limits_of("speed", "faster", "slower"),
    sentences=beside_published("figure_2"),
    columns=("fom", "fom_reference", "reference", "floor_low", "floor_high", "n", "word"),
    headings={
        "arm": "under",
        "speed": "speed / speed at the first policy",
        "fom": "figure of merit",
        "fom_reference": "at the first policy",
        "reference": "first policy",
        "floor_low": "baseline repeated, from",
        "floor_high": "to",
    },
    units={"fom": "unit", "fom_reference": "unit"},
    axes=("policy",),
    apart=("factor", "arm"),
    behind="floor",
)
SECTIONS = [section(POLICIES, "run", 24)]
