"""The cost of each byte written, from runs under several rates of the writers.

This is the computation of figure 6b of Groves, Grant and Arnold (2016). A sweep is the runs of a
case under several rates. The rates are the rates that the writers reached, not the requested rates.
Every pair gives one slope through the origin, since there is no loss without writes. The slope of a
sweep is the centre of its pairs' slopes. The errors of different pairs are independent. The errors
of the runs in a pair are not independent, since the runs share a baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from analysis.effects.result import Result
from analysis.questions.estimators import centre, crossover
from analysis.questions.presentation import cached_answer
from analysis.questions.question import PER_RATE, Limit, Question, shared
from analysis.report.data import RunData
from analysis.samples.pairs import treatment_rows
from records.arms import arm_and_levels, arm_of
from records.groups import grouped
from records.sample import Level

RATE_FACTOR, CORES_FACTOR = "rate", "reserved_cores"
#: Columns that identify a sweep. `at` has the levels of its other factors as text.
SWEEP_COLUMNS = ["case", "arm", "at"]
#: Columns that identify a family: the sweeps that differ only in the number of reserved cores.
#: `others` is `at` without this number.
_FAMILY_COLUMNS = ["case", "arm", "others"]
#: Columns that identify a pair in a sweep.
PAIR_COLUMNS = ["block", "pair"]


def sweeps_of_factor(rows: Iterable[Result], factor: str) -> list[list[Result]]:
    """Return lists of at least two effects that differ in the level of `factor` only."""

    def sweep_key(row: Result) -> tuple[object, ...]:
        levels = sorted((name, level) for name, level in row.factors.items() if name != factor)
        return row.case, arm_and_levels(row.arm).arm, *levels

    effects = (row for row in rows if row.role == "effect" and factor in row.factors)
    sweeps = grouped((sweep_key(row), row) for row in effects)
    return [sweep for sweep in sweeps.values() if len(sweep) > 1]


def sweep_runs(run: RunData) -> pl.DataFrame:
    """Return a row for each pair and rate of the sweeps, with `reached_b_s` and the `loss`.

    The loss is in bytes per second if the figure of merit is a bandwidth. Otherwise, the loss is
    slowdown - 1. A sweep has one case, one arm and one level of every factor besides the rate. `at`
    names these levels. `others` names them without the number of reserved cores, so it is the same
    in a family. A pair with only one rate is left out.
    """
    return run.cached("runs of sweeps", lambda: _sweep_runs(run))


def _sweep_runs(run: RunData) -> pl.DataFrame:
    writing = [
        row
        for row in run.results
        if arm_of(row.arm).writing == "continuous" and row.direction in (None, "write")
    ]
    sweeps = [_sweep(rows, run.pairs) for rows in sweeps_of_factor(writing, RATE_FACTOR)]
    return pl.concat(sweeps) if sweeps else pl.DataFrame()


def _sweep(rows: Sequence[Result], pairs: pl.DataFrame) -> pl.DataFrame:
    first_row = rows[0]
    is_bandwidth = (first_row.unit, first_row.better) == ("B/s", "higher")
    loss = pl.col("off") - pl.col("on") if is_bandwidth else pl.col("ratio") - 1
    levels = {name: level for name, level in first_row.factors.items() if name != RATE_FACTOR}
    own_cores = levels.get(CORES_FACTOR)
    runs = treatment_rows(pairs, first_row.case, *(row.arm for row in rows))
    runs = runs.filter(pl.col("writer_rate_b_s") > 0).select(
        pl.lit(first_row.case).alias("case"),
        pl.lit(arm_and_levels(first_row.arm).arm).alias("arm"),
        pl.lit(_levels_text(levels)).alias("at"),
        pl.lit(_levels_text({**levels, CORES_FACTOR: ""})).alias("others"),
        pl.lit(own_cores if isinstance(own_cores, int) else None, pl.Int64).alias("cores"),
        pl.lit(is_bandwidth).alias("bandwidth"),
        pl.lit(first_row.unit).alias("unit"),
        pl.lit(first_row.better).alias("better"),
        *PAIR_COLUMNS,
        "off",
        "on",
        reached_b_s="writer_rate_b_s",
        loss=loss,
    )
    return runs.filter(pl.col("reached_b_s").n_unique().over(PAIR_COLUMNS) > 1).sort(PAIR_COLUMNS)


def _levels_text(levels: Mapping[str, Level]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {level}" for name, level in levels.items())


def fitted_slopes(runs: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each sweep and pair: the `slope` through the origin, and the `curvature`.

    The slope is the loss per byte per second. The curvature is c of loss = b x + c x^2, where x is
    the rate divided by the sweep's `highest_b_s`.
    """
    # Least squares without an intercept. For example, xxy is the sum of x * x * y.
    x, y = pl.col("reached_b_s") / pl.col("highest_b_s"), pl.col("loss")
    xx, xxx, xxxx = ((x**power).sum() for power in (2, 3, 4))
    xy, xxy = (x * y).sum(), (x * x * y).sum()
    shared_columns = ("others", "cores", "bandwidth", "unit", "better", "off", "highest_b_s")
    highest = pl.col("reached_b_s").max().over(SWEEP_COLUMNS)
    pairs = runs.with_columns(highest_b_s=highest).group_by(
        *SWEEP_COLUMNS, *PAIR_COLUMNS, maintain_order=True
    )
    return pairs.agg(
        pl.col(*shared_columns).first(),
        slope=xy / xx / pl.col("highest_b_s").first(),
        curvature=(xx * xxy - xxx * xy) / (xx * xxxx - xxx**2),
    )


def _comparisons(run: RunData) -> pl.DataFrame:
    """Return a row for each sweep, pair and comparison with a larger number of reserved cores.

    The sweep with the fewest reserved cores is compared with the sweep of each larger number, which
    is in the column `reserved`. `price` is what these cores cost without writes. `slope_saved` is
    how much of the slope these cores save. At a rate x, the time is 1 + b x without these cores.
    With them, it is (1 + price) (1 + b' x). Any other sweep has one row for each pair, in which
    `reserved`, `price` and `slope_saved` are null.
    """
    runs = sweep_runs(run)
    if runs.is_empty():
        return runs
    pairs = fitted_slopes(runs)
    fewest_cores = pl.col("cores").min().over(_FAMILY_COLUMNS)
    pairs_with_more = pairs.filter(pl.col("cores") > fewest_cores)
    reserved_numbers = pairs_with_more.select(*_FAMILY_COLUMNS, reserved="cores").unique(
        maintain_order=True
    )
    pairs_with_fewest = pairs.filter(pl.col("cores") == fewest_cores)
    all_pairs = pl.concat(
        [
            pairs_with_fewest.join(reserved_numbers, on=_FAMILY_COLUMNS, maintain_order="left"),
            pairs.join(reserved_numbers, on=_FAMILY_COLUMNS, how="anti", maintain_order="left"),
            pairs_with_more,
        ],
        how="diagonal",
    )
    partners = pairs_with_more.select(
        *_FAMILY_COLUMNS,
        *PAIR_COLUMNS,
        reserved="cores",
        off_more_cores="off",
        slope_more_cores="slope",
    )
    rows = all_pairs.join(
        partners,
        on=[*_FAMILY_COLUMNS, *PAIR_COLUMNS, "reserved"],
        how="left",
        maintain_order="left",
    )
    rows = rows.sort(*_FAMILY_COLUMNS, "cores", "reserved", maintain_order=True)
    off, off_more_cores = pl.col("off"), pl.col("off_more_cores")
    time_ratio = (
        pl.when(pl.col("better") == "lower")
        .then(off_more_cores / off)
        .otherwise(off / off_more_cores)
    )
    price_factor = pl.when("bandwidth").then(1.0).otherwise(time_ratio)
    return rows.with_columns(
        price=pl.when("bandwidth").then(off - off_more_cores).otherwise(time_ratio - 1),
        slope_saved=pl.col("slope") - price_factor * pl.col("slope_more_cores"),
        per=pl.when("bandwidth").then(pl.lit("")).otherwise(pl.lit(PER_RATE)),
    )


#: Two rates. At the first, the loss equals the price of the reserved cores. Above the second, the
#: application is faster with them.
_CROSSINGS = ("crossover_b_s", "same_rate_b_s")
#: A line fits if the interval of the curvature contains 0.
_LINE_FITS = (pl.col("curvature_low") <= 0) & (pl.col("curvature_high") >= 0)


def _crossings_where_a_line_fits(table: pl.DataFrame) -> pl.DataFrame:
    """Set the rates of `_CROSSINGS` to null unless a line fits.

    The second rate compares two sweeps, so a line must fit both.
    """
    sweeps = table.select(
        *_FAMILY_COLUMNS, reserved="cores", line_fits_more_cores=_LINE_FITS
    ).unique()
    table = table.join(sweeps, on=[*_FAMILY_COLUMNS, "reserved"], how="left", maintain_order="left")
    crossover, same_rate = (pl.col(name, f"{name}_low", f"{name}_high") for name in _CROSSINGS)
    return table.with_columns(
        pl.when(_LINE_FITS).then(crossover),
        pl.when(_LINE_FITS & pl.col("line_fits_more_cores")).then(same_rate),
    ).drop("others", "cores", "line_fits_more_cores")


THROTTLING = Question(
    name="throttling",
    title="Remedies: what a byte written costs, and reserved cores",
    text="As in figure 6b of Groves, Grant and Arnold (2016). The loss is the bandwidth lost, or"
    " slowdown - 1. In each pair, a line through the origin is fitted to the loss over the rate"
    " that the writers reached. The loss per byte written is the centre of the slopes of the pairs."
    " If a line fits, the table has the rate at which the loss equals the price of the reserved"
    " cores. If a line fits with these cores, too, the table has the rate above which the"
    " application is faster with them.",
    rows=_comparisons,
    by=("case", "arm", "at", "reserved"),
    estimates={
        "slope": centre("slope"),
        "curvature": centre("curvature"),
        "crossover_b_s": crossover("slope", "price", "highest_b_s"),
        "same_rate_b_s": crossover("slope_saved", "price", "highest_b_s"),
    },
    facts=shared("highest_b_s", "unit", "bandwidth", "per", "others", "cores"),
    postprocess=_crossings_where_a_line_fits,
    limits=(
        Limit(word="yes", condition=_LINE_FITS),
        Limit(word="no", condition=pl.col("curvature_low").is_not_null(), why="the loss is curved"),
    ),
    columns=("word", *_CROSSINGS, "n"),
    headings={
        "slope": "lost per byte written",
        "reserved": "compared with reserved cores",
        "word": "a line fits",
        "crossover_b_s": "loss equals the price of the cores at",
        "same_rate_b_s": "faster with them from",
    },
    units={"slope": "per"},
    plot=None,
)


def _runs_and_lines(run: RunData) -> pl.DataFrame:
    """Return a row for each run of the sweeps and for each baseline.

    `line` is the figure of merit that the fitted line predicts; null if no line fits.
    """
    runs = sweep_runs(run)
    if runs.is_empty():
        return runs
    baselines = runs.unique([*SWEEP_COLUMNS, *PAIR_COLUMNS], maintain_order=True)
    baselines = baselines.with_columns(reached_b_s=pl.lit(0.0), on="off")
    lines = (
        cached_answer(THROTTLING, run).filter(word="yes").select(*SWEEP_COLUMNS, "slope").unique()
    )
    typical_off = pl.col("off").median().over(SWEEP_COLUMNS)
    loss = pl.col("slope") * pl.col("reached_b_s")
    if_lower_is_better, if_higher_is_better = typical_off * (1 + loss), typical_off / (1 + loss)
    line = (
        pl.when("bandwidth")
        .then(typical_off - loss)
        .when(pl.col("better") == "lower")
        .then(if_lower_is_better)
        .otherwise(if_higher_is_better)
    )
    rows = pl.concat([baselines, runs]).join(
        lines, on=SWEEP_COLUMNS, how="left", maintain_order="left"
    )
    return rows.with_columns(line=line)


THROTTLED_RUNS = Question(
    name="throttled_runs",
    title="Remedies: every run against the rate of its writers",
    text="As in figure 6b: the figure of merit of each run over the rate that its writers reached."
    " Baselines are at 0. A line is drawn if a line through the baseline fits.",
    rows=_runs_and_lines,
    by=("case", "arm", "others", "at", *PAIR_COLUMNS, "reached_b_s"),
    facts={"fom": pl.col("on").first(), **shared("unit", "line")},
    headings={"fom": "figure of merit", "reached_b_s": "writers' rate, as measured"},
    units={"fom": "unit"},
    plot="points",
    plot_columns=("reached_b_s", "at"),
    picture_keys=("case", "arm"),
    background="line",
)
