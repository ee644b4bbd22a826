"""From samples to pairs: which runs count, why others do not, and the ratios within pairs."""

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

_PAIR = ["case", "block", "pair"]
_STATUS = pl.Enum(["counts", "warm-up", "rejected"])
_FIGURES = ["fom_better", "off", "on", "ratio", "repeated", "off_after", "repeated_after"]
_RATES = ["writer_rate_alone_b_s", "writer_rate_b_s"]
#: True if a figure of merit can be real; a forced report of a faulty run has others.
_POSSIBLE = pl.col("fom").is_between(1 / MAX_FIGURE, MAX_FIGURE)


def judge_samples(samples: pl.DataFrame) -> pl.DataFrame:
    """`samples` with the column `status`: `counts`, `warm-up` or `rejected`.

    A sample of an effect is rejected if no writer wrote, whatever its record says; its `reason`
    then says so. A timetable of 0 writers needs none. A sample is rejected, too, if its figure of
    merit is too small or too large to be real.
    """
    accepted = pl.col("outcome").cast(pl.String) == "accepted"
    requested = (pl.col("role") == "effect") & (pl.col("timetable") != 0).fill_null(True)
    idle = accepted & requested & ~(pl.col("writer_rate_b_s") > 0).fill_null(False)
    absurd = accepted & ~_POSSIBLE.fill_null(True)
    return samples.with_columns(
        reason=pl.when(idle)
        .then(pl.lit("no writer wrote during the run"))
        .when(absurd)
        .then(pl.lit("its figure of merit is too small or too large to be real"))
        .otherwise("reason"),
        status=pl.when(~accepted | idle | absurd)
        .then(pl.lit("rejected"))
        .when("warmup")
        .then(pl.lit("warm-up"))
        .otherwise(pl.lit("counts"))
        .cast(_STATUS),
    )


def counted_runs(marked: pl.LazyFrame, *columns: str) -> pl.DataFrame:
    """Case, block, pair, arm and `columns` of the runs that count.

    If a run was repeated, its last attempt that counts is used. `marked` is what `judge_samples`
    returns.
    """
    runs = marked.filter(pl.col("status") == "counts").select(*_PAIR, "arm", *columns).collect()
    return runs.unique([*_PAIR, "arm"], keep="last", maintain_order=True)


def treatment_rows(rows: pl.DataFrame, case: str, *arms: str) -> pl.DataFrame:
    """The rows of one case under `arms`."""
    return rows.filter(
        pl.col("case").cast(pl.String) == case, pl.col("arm").cast(pl.String).is_in(arms)
    )


def extra_figure(name: str) -> pl.Expr:
    """Another figure that the workload reports (`fom_extra`); null without it."""
    return pl.col("fom_extra").str.json_path_match(f"$.{name}").cast(pl.Float64, strict=False)


def factor_level(factor: str) -> pl.Expr:
    """A run's level of a factor, as text; null without it."""
    return pl.col("factors").cast(pl.String).str.json_path_match(f"$.{factor}")


def parsed_levels(text: str) -> dict[str, Level]:
    """Factor -> level, from text of the column `factors`."""
    levels_of_factors: dict[str, Level] = json.loads(text)
    return levels_of_factors


def pair_table(samples: pl.DataFrame) -> pl.DataFrame:
    """One row for each pair and treatment whose run and baseline run both count.

    Columns:

    - case, block, pair, arm, baseline, start_s, fom_better
    - `off` and `on`: the figures of merit of the baseline and of the treatment
    - `ratio`: the slowdown; on / off for times, off / on for rates
    - `repeated`: this ratio of the baseline that is repeated in the pair (role `floor`). It is null
      in the row of that role, and if the repeated baseline does not count
    - `off_after`, `repeated_after`: whether the baseline, or its repetition, came right after a
      run with writes
    - writer_rate_alone_b_s, writer_rate_b_s

    Rows are in the order of `samples`, which files hold in order of time. `samples` may be what
    `judge_samples` returns. If a run was repeated, its last attempt that counts is used. Raises
    InputError if samples that share a baseline differ in unit or direction.
    """
    _refuse_mixtures(samples)
    marked = samples if "status" in samples.columns else judge_samples(samples)
    cases = marked["case"].unique(maintain_order=True)
    # One case at a time: most of a report's memory is used here.
    case_pairs = (_pairs(marked.lazy().filter(pl.col("case") == case)) for case in cases)
    return pl.concat([_pairs(marked.head(0).lazy()), *case_pairs])


def _pairs(marked: pl.LazyFrame) -> pl.DataFrame:
    # Of all runs, accepted or not: each may leave something to the next one.
    before = pl.col("role").cast(pl.String).shift(1).over("case", "block", order_by="start_s")
    ordered = marked.with_columns(after=(before == "effect").fill_null(False))
    last = counted_runs(
        ordered, "role", "baseline", "start_s", "fom", "fom_better", "after", *_RATES
    )
    group = [*_PAIR, "baseline"]
    off = last.select(*_PAIR, pl.col("arm").alias("baseline"), off="fom", off_after="after")
    on, floor = pl.col("on"), pl.col("role") == "floor"
    higher = pl.col("fom_better") == "higher"
    pairs = (
        last.filter(pl.col("baseline").is_not_null())
        .rename({"fom": "on"})
        .join(off, on=group, maintain_order="left")
        .with_columns(ratio=pl.when(higher).then(pl.col("off") / on).otherwise(on / pl.col("off")))
    )
    repeated = pairs.filter(floor).select(*group, repeated="ratio", repeated_after="after")
    floors = repeated.unique(group, keep="first")
    return (
        pairs.join(floors, on=group, how="left", maintain_order="left")
        .with_columns(pl.when(~floor).then(pl.col("repeated", "repeated_after")))
        .select(*_PAIR, "arm", "baseline", "start_s", *_FIGURES, *_RATES)
    )


def first_attempts(marked: pl.DataFrame) -> pl.DataFrame:
    """The first attempt with a figure of merit of every run, accepted or not, as if it counted.

    Cases in which no run with a figure of merit was rejected are left out. `marked` is what
    `judge_samples` returns.
    """
    ended = _POSSIBLE & ~pl.col("warmup")
    cases = marked.filter(ended & (pl.col("status") == "rejected"))["case"].unique()
    if cases.is_empty():
        return marked.clear()
    runs = marked.filter(ended & pl.col("case").is_in(cases.implode()))
    first = runs.unique([*_PAIR, "arm"], keep="first", maintain_order=True)
    return first.with_columns(status=pl.lit("counts"))


def log_times(chosen: pl.DataFrame) -> Values:
    """Log times of one treatment's pairs, a row per pair.

    `chosen`: rows of a `pair_table`. A row has the treated run, the baseline and, if any pair has
    one, its repetition (NaN where it does not count); relative to the median of the block's
    baseline runs. The time of a rate is its inverse.
    """
    off = pl.col("off").log() * pl.when(pl.col("fom_better") == "higher").then(-1).otherwise(1)
    times = chosen.select(
        "block", off=off, on=off + pl.col("ratio").log(), again=off + pl.col("repeated").log()
    )
    if times["again"].null_count() == times.height:
        times = times.drop("again")
    # Of all blocks at once: there may be ten thousands.
    baselines = times.drop("on").unpivot(index="block").drop_nulls()
    middles = baselines.group_by("block").agg(middle=pl.col("value").median())
    beside = times.join(middles, on="block", how="left", maintain_order="left")
    middle = pl.col("middle")
    relative = beside.select(pl.col("on") - middle, pl.exclude("block", "on", "middle") - middle)
    return relative.fill_null(math.nan).to_numpy()


def after_writes(chosen: pl.DataFrame) -> NDArray[np.bool_]:
    """Return which baseline runs of `log_times` came right after a run with writes."""
    names = ["off_after", "repeated_after"]
    if chosen["repeated"].null_count() == chosen.height:
        names.pop()
    return chosen.select(pl.col(names).fill_null(False)).to_numpy()


def log_times_between(treatment: pl.DataFrame, reference: pl.DataFrame) -> Values:
    """Log times of a treatment and of another with the same baseline, in common pairs.

    As `log_times`, but relative to the baseline run of each pair.
    """
    right = reference.select("block", "pair", against="ratio")
    joined = treatment.join(right, on=["block", "pair"], maintain_order="left")
    return joined.select(pl.col("ratio", "against").log()).to_numpy()


def pair_shortfalls(
    samples: pl.DataFrame, treatments: Iterable[str], requested: int, least: int
) -> dict[str, str]:
    """Treatments with fewer than `least` pairs that count -> how many are missing, and why.

    `treatments` are names of treatments with a baseline. The reason is the commonest of their
    runs and their baseline's; if one was never run, of a baseline that failed before it.
    """
    marked = judge_samples(samples)
    pairs = dict(pair_table(marked).group_by("arm").len().iter_rows())
    rejected = marked.filter(status="rejected")
    baselines = dict(marked.select("arm", "baseline").unique().iter_rows())

    def why(name: str) -> str:
        either = pl.col("arm").cast(pl.String).is_in([name, baselines.get(name)])
        runs = rejected.filter(either if name in baselines else pl.col("role") == "baseline")
        reasons = rejection_kinds(
            runs.select("outcome", pl.col("reason").fill_null("")).iter_rows()
        )
        return reasons[0].reason if reasons else "no run was made"

    counts = {name: pairs.get(name, 0) for name in treatments}
    return {
        name: f"{requested - number} of {plural(requested, 'pair')} lack: {why(name)}"
        for name, number in counts.items()
        if number < least
    }


def _refuse_mixtures(samples: pl.DataFrame) -> None:
    # Distinct rows first: lists of a million rows' numbers would be most of a report's memory.
    mixed = (
        samples.lazy()
        .select("case", "fom_unit", "fom_better", baseline=pl.coalesce("baseline", "arm"))
        .unique(maintain_order=True)
        .group_by("case", "baseline", maintain_order=True)
        .agg(pl.col("fom_unit", "fom_better").unique())
        .collect()
        .filter((pl.col("fom_unit").list.len() > 1) | (pl.col("fom_better").list.len() > 1))
    )
    if mixed.height:
        case, baseline, units, _ = mixed.row(0)
        raise InputError(
            f"case '{case}': samples of '{baseline}' and of the treatments paired with it must"
            f" have the same fom_unit and fom_better: {', '.join(sorted(units))}"
        )


_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True)
class RejectionKind:
    """Runs rejected for the same reason."""

    outcome: str
    #: The reason; numbers that differ between the runs are replaced by dots.
    reason: str
    times: int


def rejection_kinds(rejected: Iterable[tuple[str, str]]) -> list[RejectionKind]:
    """Groups (outcome, reason) of runs whose reasons differ only in numbers; commonest first."""
    groups = grouped(((outcome, _NUMBER.sub("0", reason)), reason) for outcome, reason in rejected)
    alike = [
        RejectionKind(outcome, _common(reasons), len(reasons))
        for (outcome, _), reasons in groups.items()
    ]
    return sorted(alike, key=lambda kind: -kind.times)


def _common(reasons: list[str]) -> str:
    """One text for reasons that differ only in numbers."""
    numbers = zip(*(_NUMBER.findall(reason) for reason in dict.fromkeys(reasons)), strict=True)
    shared = iter([same[0] if len(set(same)) == 1 else "..." for same in numbers])
    return _NUMBER.sub(lambda _: next(shared), reasons[0])
