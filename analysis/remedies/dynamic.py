"""A core reserved only while traffic needs it, which Groves, Grant and Arnold (2016) suggest.

Computed, not measured: from the speeds of the runs, as if the core changed hands without delay. It
is reserved while the writers' rate exceeds the one from which on the application is faster with it
(`throttling.THROTTLING`). Without a sweep of rates, that is not known: then while there is traffic
as measured, if the application is faster with the core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from analysis.questions.question import Question, columns_of, shared
from analysis.questions.shown import answered
from analysis.remedies.throttling import RESERVED, THROTTLING
from analysis.remedies.tried import speeds
from analysis.report.data import RunData
from analysis.statistics.interval import Estimate
from analysis.statistics.location import location
from records.arms import parts_of
from records.groups import grouped
from records.units import quantity

#: What names such a remedy, and the strategies that are compared.
_KEYS = ["case", "remedy", "traffic", "at"]
STRATEGIES = ("never", "always", "dynamic")
#: Shares of time with traffic that the picture has: its lines are as good as straight.
_SHARES = (0.0, 0.25, 0.5, 1.0)


def _pairs(run: RunData) -> pl.DataFrame:
    """A row per reserved core and pair, with speeds relative to off without it.

    `from_b_s`: the rate above which it is reserved, null if that is not known; `reserves`: whether
    the measured traffic is.
    """
    rows = speeds(run)
    if rows.is_empty():
        return rows
    whole = rows.filter("paired", factor=RESERVED).drop_nulls(["off", "on", "off_with", "on_with"])
    if whole.is_empty():
        return whole
    rates = _rates(run)
    arms = [parts_of(name)[0] for name in whole["traffic"]]
    named = zip(whole["case"], arms, whole["level"], strict=True)
    start_b_s = pl.Series("from_b_s", [rates.get(name) for name in named], pl.Float64)
    off = pl.col("off")
    faster = (pl.col("on_with") / pl.col("on")).median().over(_KEYS) > 1
    return whole.with_columns(start_b_s).select(
        *_KEYS,
        "emulated",
        "rate_b_s",
        "from_b_s",
        reserves=(pl.col("rate_b_s") > pl.col("from_b_s")).fill_null(faster),
        on=pl.col("on") / off,
        off_with=pl.col("off_with") / off,
        on_with=pl.col("on_with") / off,
    )


def _rates(run: RunData) -> dict[tuple[str, str, str], float]:
    """Case, arm and cores -> the rate from which on the application is faster with them.

    If that lies beyond what was measured, its one end. None of two sweeps that differ in more.
    """
    answers = grouped(
        ((row["case"], row["arm"], str(row["reserved"])), row)
        for row in answered(THROTTLING, run).to_dicts()
        if row["reserved"] is not None and row["word"] == "yes"
    )
    ends = ("same_rate_b_s", "same_rate_b_s_high", "same_rate_b_s_low")
    rates = {
        name: next((row[end] for end in ends if row[end] is not None), None)
        for name, (row, *others) in answers.items()
        if not others
    }
    return {name: rate for name, rate in rates.items() if rate is not None}


def strategies(run: RunData, shares: Sequence[float]) -> pl.DataFrame:
    """A row per reserved core, pair, share of time with traffic and strategy, with its `speed`.

    That is the mean over time, relative to off without the core.
    """
    pairs = _pairs(run)
    if pairs.is_empty():
        return pairs
    share = pl.col("share")
    on = pl.when("reserves").then("on_with").otherwise("on")
    of_strategies = {
        "never": 1 - share + share * pl.col("on"),
        "always": (1 - share) * pl.col("off_with") + share * pl.col("on_with"),
        "dynamic": 1 - share + share * on,
    }
    rows = pairs.join(pl.DataFrame({"share": list(shares)}), how="cross")
    rows = rows.with_columns(**of_strategies).drop("on", "off_with", "on_with")
    return rows.unpivot(
        on=STRATEGIES,
        index=[name for name in rows.columns if name not in STRATEGIES],
        variable_name="strategy",
        value_name="speed",
    )


def _speed(rows: pl.DataFrame) -> Estimate | None:
    logs = location(rows["speed"].log().to_numpy())
    return logs.mapped(lambda value: float(np.exp(value))) if logs else None


DYNAMIC = Question(
    name="dynamic_core",
    title="A core reserved only while traffic needs it",
    text="As Groves, Grant and Arnold (2016) suggest. Computed from the speeds of these runs: mean"
    " speed, relative to off without the core, over the share of time with traffic as measured; if"
    " the core is never reserved, always, or only while writes are faster than the rate from which"
    " on the application is faster with it, and changes hands without delay. Without a sweep of"
    " rates: while there is traffic, if the application is faster with the core then.",
    rows=lambda run: strategies(run, _SHARES),
    by=(*_KEYS, "share", "strategy"),
    estimates={"speed": _speed},
    facts=shared("from_b_s"),
    headings={"speed": "speed / speed off", "share": "share of time with traffic"},
    spread="strategy",
    plot="lines",
    axes=("share", "strategy"),
    apart=("case", "remedy", "traffic", "at"),
)


def dynamic(run: RunData, share: float) -> list[dict[str, Any]]:
    """A row per reserved core: the speed by each strategy, with traffic during `share`."""
    rows = strategies(run, [share])
    if rows.is_empty():
        return []
    table = []
    for names, group in rows.group_by(_KEYS, maintain_order=True):
        row = dict(zip(_KEYS, names, strict=True))
        row |= group.select("rate_b_s", "from_b_s", "reserves", "emulated").row(0, named=True)
        for strategy in STRATEGIES:
            row |= columns_of(strategy, _speed(group.filter(strategy=strategy)))
        table.append(row)
    return table


def sentence(row: dict[str, Any], share: float) -> str:
    """A row of `dynamic` in a line; empty without an estimate."""
    if row["dynamic"] is None:
        return ""
    speed = {
        name: f"{row[name] * 100:.1f} % [{row[f'{name}_low'] * 100:.1f},"
        f" {row[f'{name}_high'] * 100:.1f}]"
        for name in STRATEGIES
    }
    above = "" if row["from_b_s"] is None else f" above {quantity(row['from_b_s'], 'B/s', 3)}"
    emulated = " [emulated]" if row["emulated"] else ""
    levels = f", {row['at']}" if row["at"] else ""
    return (
        f"{row['case']}, {row['remedy']} only under traffic{above} (computed): with"
        f" {row['traffic']}{levels}{emulated} {share * 100:.3g} % of the time the speed is"
        f" {speed['dynamic']} of that without traffic; never reserved {speed['never']}, always"
        f" {speed['always']}"
    )
