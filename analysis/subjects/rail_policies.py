"""Figure 2 of the multirail study, for this machine: speed under each rail policy.

A rail policy says which of a node's network interfaces (rails) are used.
"""

from __future__ import annotations

import polars as pl

from analysis.questions.estimators import stored_estimate
from analysis.questions.presentation import section
from analysis.questions.question import Question, columns_of, ends_of, shared
from analysis.report.data import RunData
from analysis.subjects.multirail import (
    DIFFERENCE_RULE,
    MPI_FACTOR,
    TOOL_FACTOR,
    published_sentences,
    ratio_limits,
)
from records.arms import level_text

WRITERS_FACTOR = "writer_rail"


def _policy_speeds(run: RunData) -> pl.DataFrame:
    """A row per contrast: a policy against the first policy.

    MPI's policies without writers come first, then MPI's policies under writers, then the writers'
    policies. `arm` is the treatment at the first policy. Its name has the levels of other factors.
    `speed` is the speed at the policy / the speed at the first policy. A gain is already this
    ratio. A price and the repeatability are ratios of times, so their inverses are used.
    """
    medians = {(row.case, row.arm): row.on_median for row in run.results}
    medians |= {(row.case, row.baseline): row.off_median for row in run.results}
    contrasts = [
        contrast
        for contrast in run.contrasts
        if contrast.factor in (MPI_FACTOR, WRITERS_FACTOR) and TOOL_FACTOR not in contrast.at
    ]
    contrasts.sort(key=lambda contrast: (contrast.factor != MPI_FACTOR, contrast.kind == "gain"))
    rows = []
    for contrast in contrasts:
        speed = contrast.ratio
        if speed and contrast.kind == "price":
            speed = speed.inverse
        repeatability = contrast.noise_floor
        if repeatability:
            repeatability = repeatability.inverse
        row = {
            "case": contrast.case,
            "factor": contrast.factor,
            "unit": contrast.unit,
            "n": contrast.pairs,
            "policy": level_text(contrast.level),
            "reference": level_text(contrast.reference),
            "arm": contrast.against,
            "fom": medians.get((contrast.case, contrast.treatment)),
            "fom_reference": medians.get((contrast.case, contrast.against)),
            "margin": run.header.margin,
        }
        rows.append(row | columns_of("speed", speed) | ends_of("floor", repeatability))
    return pl.DataFrame(rows, infer_schema_length=None)


POLICIES = Question(
    name="rails",
    title="Figure 2 of the multirail study: speed under each rail policy",
    text="Speed of the application divided by that at the first policy, within pairs; above 1 the"
    f" policy is faster. Band: repeatability of both baselines.{DIFFERENCE_RULE}",
    rows=_policy_speeds,
    by=("factor", "arm", "case", "policy"),
    estimates={"speed": stored_estimate("speed")},
    facts=shared(
        "n", "reference", "fom", "fom_reference", "unit", "floor_low", "floor_high", "margin"
    ),
    limits=ratio_limits("speed", "faster", "slower"),
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
    plot_columns=("policy",),
    picture_keys=("factor", "arm"),
    background="floor",
)
SECTIONS = [
    section(POLICIES, "before_cases", 24, make_more_sentences=published_sentences("figure_2"))
]
