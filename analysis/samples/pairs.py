"""Makes pairs from samples: which runs count, why others do not, and the ratios within pairs.

A sample is one run of the application. A pair has one run of each treatment (column `arm`). These
runs are adjacent in time and on the same nodes. A block has the pairs of one allocation. A run
counts if its sample has the status `counts` (`judge_samples`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from analysis.samples.columns import MAX_FIGURE
from records.errors import InputError
from records.groups import grouped
from records.sample import Level
from records.units import plural

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from analysis.statistics.aligned_ranks import Values

_PAIR_COLUMNS = ["case", "block", "pair"]
_STATUS = pl.Enum(["counts", "warm-up", "rejected"])
_FIGURES = ["fom_better", "off", "on", "ratio", "repeated", "off_after", "repeated_after"]
_RATES = ["writer_rate_alone_b_s", "writer_rate_b_s"]
#: True if a figure of merit can be real. A report that is forced for a faulty run may have
#: impossible figures.
_IS_PLAUSIBLE = pl.col("fom").is_between(1 / MAX_FIGURE, MAX_FIGURE)


def judge_samples(samples: pl.DataFrame) -> pl.DataFrame:
    """`samples` with the column `status`: `counts`, `warm-up` or `rejected`.

    Samples that the conductor accepted are rejected in two more cases, which `reason` then names:

    - No writer wrote during a run with the role `effect`, unless its timetable has 0 writers.
    - The figure of merit is too small or too large to be real.
    """
    accepted = pl.col("outcome").cast(pl.String) == "accepted"
    requires_writes = (pl.col("role") == "effect") & (pl.col("timetable") != 0).fill_null(True)
    has_no_writes = accepted & requires_writes & ~(pl.col("writer_rate_b_s") > 0).fill_null(False)
    has_implausible_fom = accepted & ~_IS_PLAUSIBLE.fill_null(True)
    return samples.with_columns(
        reason=pl.when(has_no_writes)
        .then(pl.lit("no writer wrote during the run"))
        .when(has_implausible_fom)
        .then(pl.lit("its figure of merit is too small or too large to be real"))
        .otherwise("reason"),
        status=pl.when(~accepted | has_no_writes | has_implausible_fom)
        .then(pl.lit("rejected"))
        .when("warmup")
        .then(pl.lit("warm-up"))
        .otherwise(pl.lit("counts"))
        .cast(_STATUS),
    )


def counted_runs(judged: pl.LazyFrame, *columns: str) -> pl.DataFrame:
    """Case, block, pair, arm and `columns` of the runs that count.

    If a run was repeated, its last attempt that counts is used. `judged` is what `judge_samples`
    returns.
    """
    runs = (
        judged.filter(pl.col("status") == "counts")
        .select(*_PAIR_COLUMNS, "arm", *columns)
        .collect()
    )
    return runs.unique([*_PAIR_COLUMNS, "arm"], keep="last", maintain_order=True)


def treatment_rows(rows: pl.DataFrame, case: str, *arms: str) -> pl.DataFrame:
    """The rows of one case and of the treatments `arms`."""
    return rows.filter(
        pl.col("case").cast(pl.String) == case, pl.col("arm").cast(pl.String).is_in(arms)
    )


def extra_figure(name: str) -> pl.Expr:
    """A figure of `fom_extra`, by its name; null if the workload does not report it."""
    return pl.col("fom_extra").str.json_path_match(f"$.{name}").cast(pl.Float64, strict=False)


def factor_level(factor: str) -> pl.Expr:
    """A run's level of a factor, as text; null if the run does not have the factor."""
    return pl.col("factors").cast(pl.String).str.json_path_match(f"$.{factor}")


def parsed_levels(text: str) -> dict[str, Level]:
    """Factor -> level, from the JSON text in the column `factors`."""
    levels_of_factors: dict[str, Level] = json.loads(text)
    return levels_of_factors


def pair_table(samples: pl.DataFrame) -> pl.DataFrame:
    """One row for each pair and treatment whose run and baseline run both count.

    Columns:

    - case, block, pair, arm, baseline, start_s, fom_better
    - `off` and `on`: the figures of merit of the baseline and of the treatment
    - `ratio`: the slowdown, which is on / off for times and off / on for rates
    - `repeated`: the slowdown of the pair's repeated baseline (role `floor`). It is null if the
      repeated baseline does not count, and in the repeated baseline's own row
    - `off_after`: whether the baseline run came right after a run with writes
    - `repeated_after`: whether the repeated baseline run came right after a run with writes
    - writer_rate_alone_b_s, writer_rate_b_s

    Rows are in the order of cases. Within a case, they are in the order of `samples`, which is the
    order of time in a run's files. `samples` may also be what `judge_samples` returns. If a run was
    repeated, its last attempt that counts is used. Raises InputError if samples that share a
    baseline differ in `fom_unit` or `fom_better`.
    """
    _refuse_mixtures(samples)
    judged = samples if "status" in samples.columns else judge_samples(samples)
    cases = judged["case"].unique(maintain_order=True)
    # Cases are handled one at a time, since a report uses most of its memory here.
    case_pairs = (_pairs(judged.lazy().filter(pl.col("case") == case)) for case in cases)
    return pl.concat([_pairs(judged.head(0).lazy()), *case_pairs])


def _pairs(judged: pl.LazyFrame) -> pl.DataFrame:
    """The rows of `pair_table`, from the judged samples of one case."""
    # Rejected runs are included, since they too can affect the next run.
    previous_role = (
        pl.col("role").cast(pl.String).shift(1).over("case", "block", order_by="start_s")
    )
    ordered = judged.with_columns(after_writes=(previous_role == "effect").fill_null(False))
    counted = counted_runs(
        ordered, "role", "baseline", "start_s", "fom", "fom_better", "after_writes", *_RATES
    )
    pair_and_baseline = [*_PAIR_COLUMNS, "baseline"]
    baseline_runs = counted.select(
        *_PAIR_COLUMNS, pl.col("arm").alias("baseline"), off="fom", off_after="after_writes"
    )
    off, on = pl.col("off"), pl.col("on")
    is_repetition = pl.col("role") == "floor"
    higher_is_better = pl.col("fom_better") == "higher"
    pairs = (
        counted.filter(pl.col("baseline").is_not_null())
        .rename({"fom": "on"})
        .join(baseline_runs, on=pair_and_baseline, maintain_order="left")
        .with_columns(ratio=pl.when(higher_is_better).then(off / on).otherwise(on / off))
    )
    repetitions = (
        pairs.filter(is_repetition)
        .select(*pair_and_baseline, repeated="ratio", repeated_after="after_writes")
        .unique(pair_and_baseline, keep="first")
    )
    return (
        pairs.join(repetitions, on=pair_and_baseline, how="left", maintain_order="left")
        .with_columns(pl.when(~is_repetition).then(pl.col("repeated", "repeated_after")))
        .select(*_PAIR_COLUMNS, "arm", "baseline", "start_s", *_FIGURES, *_RATES)
    )


def first_attempts(judged: pl.DataFrame) -> pl.DataFrame:
    """For every run, the first attempt that has a figure of merit, with the status `counts`.

    This attempt may have been rejected. Warm-ups are left out. Cases in which no run with a figure
    of merit was rejected are left out too, since their first attempts are the runs that count.
    `judged` is what `judge_samples` returns.
    """
    is_candidate = _IS_PLAUSIBLE & ~pl.col("warmup")
    cases = judged.filter(is_candidate & (pl.col("status") == "rejected"))["case"].unique()
    if cases.is_empty():
        return judged.clear()
    runs = judged.filter(is_candidate & pl.col("case").is_in(cases.implode()))
    first = runs.unique([*_PAIR_COLUMNS, "arm"], keep="first", maintain_order=True)
    return first.with_columns(status=pl.lit("counts"))


def log_times(pairs: pl.DataFrame) -> Values:
    """Logarithms of the times of one treatment's pairs, a row per pair.

    `pairs`: rows of a `pair_table`. Columns: the treated run, the baseline and, if any pair has
    one, the repeated baseline (NaN if it does not count). Times are relative to the median of
    the block's baseline runs. If the figure of merit is a rate, its inverse is used as time.
    """
    sign = pl.when(pl.col("fom_better") == "higher").then(-1).otherwise(1)
    log_off = sign * pl.col("off").log()
    times = pairs.select(
        "block",
        off=log_off,
        on=log_off + pl.col("ratio").log(),
        repeated=log_off + pl.col("repeated").log(),
    )
    if times["repeated"].null_count() == times.height:
        times = times.drop("repeated")
    # All blocks are handled in one expression, since there may be tens of thousands.
    baselines = times.drop("on").unpivot(index="block").drop_nulls()
    medians = baselines.group_by("block").agg(median=pl.col("value").median())
    joined = times.join(medians, on="block", how="left", maintain_order="left")
    median = pl.col("median")
    relative = joined.select(pl.col("on") - median, pl.exclude("block", "on", "median") - median)
    return relative.fill_null(math.nan).to_numpy()


def after_writes(pairs: pl.DataFrame) -> NDArray[np.bool_]:
    """Return which baseline runs of `log_times` came right after a run with writes.

    Rows are pairs. Columns: the baseline and, if any pair has one, the repeated baseline.
    """
    columns = ["off_after", "repeated_after"]
    if pairs["repeated"].null_count() == pairs.height:
        columns.remove("repeated_after")
    return pairs.select(pl.col(columns).fill_null(False)).to_numpy()


def log_times_between(treatment: pl.DataFrame, reference: pl.DataFrame) -> Values:
    """Logarithms of the times of two treatments with the same baseline, in their common pairs.

    Times are relative to the baseline run of each pair. Columns: `treatment`, then `reference`.
    """
    references = reference.select("block", "pair", reference_ratio="ratio")
    joined = treatment.join(references, on=["block", "pair"], maintain_order="left")
    return joined.select(pl.col("ratio", "reference_ratio").log()).to_numpy()


def pair_shortfalls(
    samples: pl.DataFrame, treatments: Iterable[str], requested: int, minimum: int
) -> dict[str, str]:
    """Treatments with fewer than `minimum` pairs that count -> how many pairs are missing, and why.

    `requested` is the number of pairs that each treatment should have. `treatments` are names of
    treatments with a baseline. The commonest reason among the rejected runs of the treatment and
    its baseline is given. If the treatment was never run, a baseline failed before it, so the
    commonest reason among all baselines is given.
    """
    judged = judge_samples(samples)
    pairs_by_treatment = dict(pair_table(judged).group_by("arm").len().iter_rows())
    rejected = judged.filter(status="rejected")
    baselines = dict(judged.select("arm", "baseline").unique().iter_rows())

    def commonest_reason(name: str) -> str:
        if name in baselines:
            is_chosen = pl.col("arm").cast(pl.String).is_in([name, baselines[name]])
        else:
            is_chosen = pl.col("role") == "baseline"
        runs = rejected.filter(is_chosen)
        reasons = rejection_kinds(
            runs.select("outcome", pl.col("reason").fill_null("")).iter_rows()
        )
        return reasons[0].reason if reasons else "no run was made"

    pair_counts = {name: pairs_by_treatment.get(name, 0) for name in treatments}
    return {
        name: f"{requested - pair_count} of {plural(requested, 'pair')} missing:"
        f" {commonest_reason(name)}"
        for name, pair_count in pair_counts.items()
        if pair_count < minimum
    }


def _refuse_mixtures(samples: pl.DataFrame) -> None:
    """Raises InputError if samples that share a baseline differ in `fom_unit` or `fom_better`."""
    # Duplicate rows are dropped first, since lists of a million rows would take most of the memory.
    mixed = (
        samples.lazy()
        .select("case", "fom_unit", "fom_better", baseline=pl.coalesce("baseline", "arm"))
        .unique(maintain_order=True)
        .group_by("case", "baseline", maintain_order=True)
        .agg(pl.struct(pl.col("fom_unit", "fom_better").cast(pl.String)).unique().alias("figures"))
        .collect()
        .filter(pl.col("figures").list.len() > 1)
    )
    if mixed.height:
        case, baseline, figures = mixed.row(0)
        texts = sorted(f"{figure['fom_unit']} ({figure['fom_better']})" for figure in figures)
        raise InputError(
            f"case '{case}': samples of '{baseline}' and of the treatments paired with it must"
            f" have the same fom_unit and fom_better: {', '.join(texts)} found"
        )


_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True)
class RejectionKind:
    """Runs that were rejected for the same reason, apart from numbers in it."""

    outcome: str
    #: The reason; numbers that differ between the runs are replaced by dots.
    reason: str
    run_count: int


def rejection_kinds(rejected: Iterable[tuple[str, str]]) -> list[RejectionKind]:
    """Groups (outcome, reason) of runs whose reasons differ only in numbers; commonest first."""
    groups = grouped(((outcome, _NUMBER.sub("0", reason)), reason) for outcome, reason in rejected)
    kinds = [
        RejectionKind(outcome, _common_reason(reasons), len(reasons))
        for (outcome, _), reasons in groups.items()
    ]
    return sorted(kinds, key=lambda kind: -kind.run_count)


def _common_reason(reasons: list[str]) -> str:
    """One text for `reasons`, which differ only in numbers; numbers that differ become dots."""
    distinct_reasons = dict.fromkeys(reasons)
    numbers_by_position = zip(*map(_NUMBER.findall, distinct_reasons), strict=True)
    replacements = iter(
        [numbers[0] if len(set(numbers)) == 1 else "..." for numbers in numbers_by_position]
    )
    return _NUMBER.sub(lambda _: next(replacements), reasons[0])
