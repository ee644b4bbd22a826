"""A core reserved only while traffic needs it, which Groves, Grant and Arnold (2016) suggest.

The speed with such a core is computed from the speeds of the runs, not measured. The computation
assumes that the core is reserved and released without delay. The core is reserved while the
writers' rate exceeds the break-even rate, above which the application is faster with the core
reserved (`throttling.THROTTLING`). The break-even rate is known only from a sweep of rates. Without
a sweep, the core is reserved during all traffic if the application is then faster with it, and
never otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from analysis.display.figures import quantity
from analysis.questions.presentation import cached_answer
from analysis.questions.question import Question, columns_of, shared
from analysis.remedies.speeds import remedy_speeds
from analysis.remedies.throttling import CORES_FACTOR, THROTTLING
from analysis.report.data import RunData
from analysis.statistics.interval import Estimate
from analysis.statistics.location import location
from records.arms import arm_and_levels
from records.groups import grouped
from records.units import percentage

#: The columns that identify a remedy of reserved cores in a run.
_CORE_COLUMNS = ["case", "remedy", "traffic", "at"]
#: When the core is reserved. With `dynamic`, this is only while writes exceed the break-even rate.
STRATEGIES = ("never", "always", "dynamic")
#: Shares of time with traffic in the picture. Four are enough, since its lines are nearly straight.
_SHARES = (0.0, 0.25, 0.5, 1.0)


def _relative_speeds(run: RunData) -> pl.DataFrame:
    """Return a row for each pair of each remedy that reserves more cores than its reference.

    The speeds `on`, `off_with` and `on_with` are divided by the speed `off`, which is that without
    writes and without the remedy. `from_b_s` is the rate above which a dynamic core is reserved,
    null if it is not known. `reserves` says whether it is reserved during the measured traffic.
    """
    rows = remedy_speeds(run)
    if rows.is_empty():
        return rows
    level, reference = (pl.col(name).cast(pl.Int64) for name in ("level", "reference"))
    core_rows = rows.filter("paired", factor=CORES_FACTOR).filter(level > reference)
    complete_rows = core_rows.drop_nulls(["off", "on", "off_with", "on_with"])
    if complete_rows.is_empty():
        return complete_rows
    rates_b_s = _break_even_rates_b_s(run)
    arms = [arm_and_levels(name).arm for name in complete_rows["traffic"]]
    keys = zip(complete_rows["case"], arms, complete_rows["level"], strict=True)
    from_b_s = pl.Series("from_b_s", [rates_b_s.get(key) for key in keys], pl.Float64)
    off = pl.col("off")
    is_faster = (pl.col("on_with") / pl.col("on")).median().over(_CORE_COLUMNS) > 1
    return complete_rows.with_columns(from_b_s).select(
        *_CORE_COLUMNS,
        "emulated",
        "rate_b_s",
        "from_b_s",
        reserves=(pl.col("rate_b_s") > pl.col("from_b_s")).fill_null(is_faster),
        on=pl.col("on") / off,
        off_with=pl.col("off_with") / off,
        on_with=pl.col("on_with") / off,
    )


def _break_even_rates_b_s(run: RunData) -> dict[tuple[str, str, str], float]:
    """Return case, arm and reserved cores -> rate above which the application is faster with them.

    If this rate lies beyond the measured rates, the known end of its interval is used. If two
    sweeps share case, arm and cores, their rates are left out.
    """
    rows_of_cores = grouped(
        ((row["case"], row["arm"], str(row["reserved"])), row)
        for row in cached_answer(THROTTLING, run).to_dicts()
        if row["reserved"] is not None and row["word"] == "yes"
    )
    rates_b_s = {}
    for key, rows in rows_of_cores.items():
        columns = ("same_rate_b_s", "same_rate_b_s_high", "same_rate_b_s_low")
        known_b_s = [rows[0][column] for column in columns if rows[0][column] is not None]
        if len(rows) == 1 and known_b_s:
            rates_b_s[key] = known_b_s[0]
    return rates_b_s


def strategy_speeds(run: RunData, shares: Sequence[float]) -> pl.DataFrame:
    """Return a row for each remedy of reserved cores, pair, share with traffic, and strategy.

    `speed` is the mean over time, relative to the speed without writes and without the remedy.
    """
    pairs = _relative_speeds(run)
    if pairs.is_empty():
        return pairs
    share = pl.col("share")
    dynamic_on = pl.when("reserves").then("on_with").otherwise("on")
    mean_speeds = {
        "never": 1 - share + share * pl.col("on"),
        "always": (1 - share) * pl.col("off_with") + share * pl.col("on_with"),
        "dynamic": 1 - share + share * dynamic_on,
    }
    rows = pairs.join(pl.DataFrame({"share": list(shares)}), how="cross")
    kept_columns = [name for name in rows.columns if name not in ("on", "off_with", "on_with")]
    return rows.with_columns(**mean_speeds).unpivot(
        on=STRATEGIES, index=kept_columns, variable_name="strategy", value_name="speed"
    )


def _typical_speed(rows: pl.DataFrame) -> Estimate | None:
    log_speed = location(rows["speed"].log().to_numpy())
    return log_speed.mapped(lambda log: float(np.exp(log))) if log_speed else None


DYNAMIC = Question(
    name="dynamic_core",
    title="A core reserved only while traffic needs it",
    text="Groves, Grant and Arnold (2016) suggest this. The figures are computed from the speeds of"
    " these runs. They show the mean speed, relative to off without the core, for several shares of"
    " time with the measured traffic. The core is never reserved, always reserved, or dynamic. A"
    " dynamic core is reserved only while writes are faster than the rate above which the"
    " application is faster with the core. It is assumed to change hands without delay. Without a"
    " sweep of rates, a dynamic core is reserved during all traffic if the application is then"
    " faster with it.",
    rows=lambda run: strategy_speeds(run, _SHARES),
    by=(*_CORE_COLUMNS, "share", "strategy"),
    estimates={"speed": _typical_speed},
    facts=shared("from_b_s"),
    headings={"speed": "speed / speed off", "share": "share of time with traffic"},
    column_key="strategy",
    plot="lines",
    plot_columns=("share", "strategy"),
    picture_keys=tuple(_CORE_COLUMNS),
)


def dynamic_rows(run: RunData, share: float) -> list[dict[str, Any]]:
    """Return a row for each remedy of reserved cores, with the speed of each strategy.

    `share` is the share of time with traffic.
    """
    rows = strategy_speeds(run, [share])
    if rows.is_empty():
        return []
    table = []
    for key, group in rows.group_by(_CORE_COLUMNS, maintain_order=True):
        row = dict(zip(_CORE_COLUMNS, key, strict=True))
        row |= group.select("rate_b_s", "from_b_s", "reserves", "emulated").row(0, named=True)
        for strategy in STRATEGIES:
            row |= columns_of(strategy, _typical_speed(group.filter(strategy=strategy)))
        table.append(row)
    return table


def strategy_sentence(row: dict[str, Any], share: float) -> str:
    """Return a row of `dynamic_rows` as one line; empty if the row has no estimate."""
    if row["dynamic"] is None:
        return ""
    speed_texts = {}
    for strategy in STRATEGIES:
        value, low, high = (100 * row[f"{strategy}{end}"] for end in ("", "_low", "_high"))
        speed_texts[strategy] = f"{value:.1f} % [{low:.1f}, {high:.1f}]"
    above = "" if row["from_b_s"] is None else f" above {quantity(row['from_b_s'], 'B/s', 3)}"
    emulated = " [emulated]" if row["emulated"] else ""
    levels = f", {row['at']}" if row["at"] else ""
    return (
        f"{row['case']}, {row['remedy']} only under traffic{above} (computed): with"
        f" {row['traffic']}{levels}{emulated} {percentage(share, '.3g')} of the time, the speed"
        f" is {speed_texts['dynamic']} of that without traffic; never reserved"
        f" {speed_texts['never']}, always {speed_texts['always']}"
    )
