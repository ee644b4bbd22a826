"""A site's own traffic, replayed: what was wanted and done, and what it costs the application."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import polars as pl

from analysis.effects.estimate import Result
from analysis.effects.verdict import Verdict
from analysis.questions.estimators import stated
from analysis.questions.question import Question, columns_of
from analysis.questions.shown import section
from analysis.report.data import RunData

#: Hours of a mean month: a twelfth of 365.25 days.
MONTH_H = 365.25 * 24 / 12
_FIGURES = [f"{name}{end}" for name in ("longer", "lost") for end in ("", "_low", "_high")]


def _rows(run: RunData) -> pl.DataFrame:
    """A row per run under a trace, with the figures of its effect.

    `lost`: share of node-hours by the mean time.
    """
    effects = pl.DataFrame(
        [_effect(row) for row in run.results if row.role == "effect"],
        schema=dict.fromkeys(("case", "treatment", "verdict"), pl.String)
        | dict.fromkeys(_FIGURES, pl.Float64),
    )
    traced = (pl.col("status") == "counts") & pl.col("traffic_trace").is_not_null()
    runs = run.samples.filter(traced).with_columns(
        pl.col("case").cast(pl.String),
        treatment=pl.col("arm").cast(pl.String),
        nodes=pl.col("traffic_nodes").cast(pl.String).str.split("+"),
    )
    return effects.join(runs, on=["case", "treatment"], maintain_order="left_right")


def _effect(row: Result) -> dict[str, Any]:
    longer = None if row.verdict.is_not_compared else row.slowdown
    lost = row.mean.mapped(lambda ratio: 1 - 1 / ratio) if row.mean else None
    return {
        **{"case": row.case, "treatment": row.arm, "verdict": str(row.verdict)},
        **columns_of("longer", longer),
        **columns_of("lost", lost if longer else None),
    }


def _node_hours(table: pl.DataFrame) -> pl.DataFrame:
    """With the node-hours lost in a mean month on the trace's nodes.

    Windows are drawn evenly from the trace, so that pauses are in it as often as there; but not at
    another speed or rate.
    """
    unscaled = (pl.col("speed") == 1) & (pl.col("share") == 1.0)
    hours = pl.when(unscaled).then(pl.col("nodes").list.len() * MONTH_H)
    ends = ("", "_low", "_high")
    return table.with_columns(
        **{f"node_hours_month{end}": hours * pl.col(f"lost{end}") for end in ends}
    )


def sentence(row: Mapping[str, Any]) -> str:
    """What the traffic costs: 'takes 3.1 % longer [2.2, 4.0]', if it is shown to cost that."""
    first, last = (
        datetime.fromtimestamp(row[f"{which}_window_s"], timezone.utc).strftime("%Y-%m-%d")
        for which in ("first", "last")
    )
    when = f"of {first}" if first == last else f"of {first} to {last}"
    scaled = ""
    if (row["speed"], row["share"]) != (1, 1.0):
        scaled = f" at {row['share']:.3g} of its rate, {row['speed']} s in one,"
    begin = f"{row['case']} ({row['treatment']}), under your traffic {when}{scaled}"
    if row["longer"] is None:
        return f"{begin}: no estimate ({row['verdict']})."
    value, low, high = (100 * (row[f"longer{end}"] - 1) for end in ("", "_low", "_high"))
    longer = f"{value:.1f} % longer [{low:.1f}, {high:.1f}]"
    if not Verdict(row["verdict"]).is_loss:
        return f"{begin}: {row['verdict']}, {longer}."
    text = f"{begin} takes {longer}"
    if row["node_hours_month"] is not None:
        value, low, high = (row[f"node_hours_month{end}"] for end in ("", "_low", "_high"))
        text += (
            f"; in the mean {value:,.1f} node-hours a month [{low:,.1f}, {high:,.1f}] on the"
            f" {len(row['nodes'])} replayed of the trace's nodes, if they run it all the time"
        )
    return f"{text}."


_WANTED, _DONE = pl.col("traffic_wanted_b_s"), pl.col("traffic_done_b_s")
_APART = (_DONE - _WANTED).abs() / pl.when(_WANTED > 0).then(_WANTED).otherwise(1.0)
REPLAYED = Question(
    name="traffic",
    title="Your traffic, replayed",
    text="The time of the typical run; node-hours by the mean time. Each pair had a window drawn at"
    " random from the trace. Node-hours are stated only at speed 1 and rate 100 %: windows then"
    " have bursts and pauses as often as the trace.",
    rows=_rows,
    by=("case", "treatment"),
    estimates={"longer": stated("longer"), "lost": stated("lost")},
    facts={
        **{name: pl.col(name).first() for name in ("workload", "nodes", "verdict")},
        "trace_sha256": pl.col("traffic_trace").first(),
        "speed": pl.col("traffic_speed").first().cast(pl.Int64),
        "share": pl.col("traffic_share").first(),
        "first_window_s": pl.col("traffic_window_s").min(),
        "last_window_s": pl.col("traffic_window_s").max(),
        "wanted_b_s": _WANTED.mean(),
        "done_b_s": _DONE.mean(),
        "furthest_share": _APART.max(),
        "agreeing_share": 1 - pl.col("missing_share").max(),
    },
    then=_node_hours,
    sentences=lambda table: [sentence(row) for row in table.to_dicts()],
    columns=("wanted_b_s", "done_b_s", "furthest_share", "agreeing_share", "n"),
    headings={
        "longer": "time / time without",
        "furthest_share": "furthest run",
        "agreeing_share": "agreeing time, least",
        "n": "runs",
    },
    plot=None,
)
SECTIONS = [section(REPLAYED, "effects", 30)]
