"""Reads the counts of tools and nodes from `RUN/counters/CASE.jsonl`; combines them by treatment.

A tool wraps the application and counts events in each rank. Agents count events of whole nodes. A
line is a JSON object: `key` (of the sample), `tool`, and the fields of `records.sample.NodesRow`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import polars as pl

from analysis.samples.columns import column_type
from analysis.samples.pairs import factor_level
from records.arms import without_factor
from records.errors import InputError
from records.json_limits import MAX_JSON_B, refuse_deep, refuse_long
from records.roles import COUNTS, ROLES, SHARE_ROLES
from records.sample import AVERAGED_UNITS, NODE_TOOL, NodesRow, State, event_parts
from records.sample_rules import refuse_broken

_HINTS: dict[str, Any] = {"key": str, "tool": str, **get_type_hints(NodesRow)}
#: Field of a line -> its column type.
FIELDS = {name: column_type(hint, pl.String(), pl.Int32()) for name, hint in _HINTS.items()}
_OPTIONAL_FIELDS = [name for name, hint in _HINTS.items() if NoneType in get_args(hint)]
#: States in which a count has a value.
_STATES_WITH_VALUE = ("counted", "multiplexed")
#: States of a count, from best to worst.
STATES = get_args(State)


def read_counts(run: Path) -> pl.DataFrame:
    """One row per line of the files of the run in folder `run`, with the columns `FIELDS`.

    A last line without a newline is ignored. Raises InputError, naming file and line, for any other
    line that is not a count.
    """
    frames = [_read_file(path) for path in sorted((run / "counters").glob("*.jsonl"))]
    return pl.concat([pl.DataFrame(schema=FIELDS), *frames])


def _read_file(path: Path) -> pl.DataFrame:
    content = path.read_bytes()
    complete_lines = content[: content.rfind(b"\n") + 1]
    if len(complete_lines) > MAX_JSON_B:
        for line_number, line in enumerate(complete_lines.split(b"\n"), 1):
            refuse_long(line, f"{path}:{line_number}")
    if not complete_lines:
        return pl.DataFrame(schema=FIELDS)
    refuse_deep(complete_lines, path, 1)
    try:
        frame = pl.read_ndjson(io.BytesIO(complete_lines), schema=FIELDS)
    except pl.exceptions.PolarsError as error:
        _raise_first_fault(path, complete_lines)
        raise InputError(f"{path}: {error}") from error
    if frame.height != complete_lines.count(b"\n"):
        _raise_first_fault(path, complete_lines)
    must_have_value = pl.col("state").is_in(_STATES_WITH_VALUE)
    rules = [
        *(
            (name, pl.col(name).is_null(), "a value")
            for name in FIELDS
            if name not in _OPTIONAL_FIELDS
        ),
        ("state", ~pl.col("state").is_in(STATES), f"one of {', '.join(STATES)}"),
        (
            "value",
            pl.col("value").is_null() == must_have_value,
            f"a number if 'state' is {' or '.join(_STATES_WITH_VALUE)}, else none",
        ),
    ]
    refuse_broken(frame, rules, path)
    return frame


def _raise_first_fault(path: Path, lines: bytes) -> None:
    """Raise InputError for the first line that is no JSON object, if there is one."""
    for line_number, line in enumerate(lines.splitlines(), 1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}:{line_number}: {error}") from error
        if not isinstance(record, dict):
            raise InputError(f"{path}:{line_number}: allowed: an object with {', '.join(FIELDS)}")


_CATEGORY = pl.Categorical()
_CATEGORIES = ("tool", "event", "unit", "state")
_COUNT_KEY = ["key", "tool", "rank", "event"]
#: Columns that come from the samples.
_SAMPLE_COLUMNS = ["key", "case", "arm", "factors", "block", "pair", "status"]


def counters_of(counts: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """One row per rank and event of each run in which a tool or the nodes' agents counted events.

    `samples` is what `pairs.judge_samples` returns. Columns: key, case, arm, factors, block, pair,
    status (of the sample), tool, rank, event, value (SI, null if nothing was counted), unit, state,
    running_share. Rows are in the order of the files. Counts without a sample are ignored. They
    occur if the conductor was killed before it wrote the sample. If a run was counted twice, its
    last counts are used.
    """
    last_counts = counts.unique(_COUNT_KEY, keep="last", maintain_order=True)
    return (
        last_counts.join(
            samples.select(_SAMPLE_COLUMNS), on="key", how="inner", maintain_order="left"
        )
        .with_columns(pl.col(*_CATEGORIES).cast(_CATEGORY))
        .select(*_SAMPLE_COLUMNS, *(name for name in FIELDS if name != "key"))
    )


def counter_medians(counters: pl.DataFrame) -> pl.DataFrame:
    """One row per case, arm, tool and event, from runs that count, in the order of `counters`.

    Columns: case, arm, factors, tool, event, unit, `value`, `runs` (number of runs with a value
    from every rank), `state` (the worst of all runs and ranks) and `running_share` (the least).

    `value` is a median over runs. The value of a run is the sum over its ranks or, for shares (unit
    `1`) and frequencies, the mean. `value` is null if no run has a value from every rank.
    """
    treatment = ["case", "arm", "tool", "event"]
    state = pl.col("state").cast(pl.Enum(STATES))
    averaged = pl.col("unit").cast(pl.String).is_in(AVERAGED_UNITS).first()
    runs = (
        counters.filter(pl.col("status") == "counts")
        .group_by(*treatment, "key", maintain_order=True)
        .agg(
            pl.col("factors", "unit").first(),
            over_ranks(averaged),
            state.max(),
            pl.col("running_share").min(),
        )
    )
    return (
        runs.group_by(treatment, maintain_order=True)
        .agg(
            pl.col("factors", "unit").first(),
            pl.col("value").median(),
            pl.col("value").count().alias("runs"),
            pl.col("state").max().cast(pl.String),
            pl.col("running_share").min(),
        )
        .select(
            "case", "arm", "factors", "tool", "event", "unit", "value", "runs", "state",
            "running_share",
        )
    )  # fmt: skip


def over_ranks(averaged: pl.Expr) -> pl.Expr:
    """Sum of `value` over the rows of a group, or their mean if `averaged` is true.

    It is null if any value is null.
    """
    value = pl.col("value")
    total = pl.when(averaged).then(value.mean()).otherwise(value.sum())
    return pl.when(~value.is_null().any()).then(total).alias("value")


#: The factor whose levels are tools.
_TOOL = "tool"
_RUN_COLUMNS = ["key", "case", "treatment", "tool", "block", "pair"]


def role_values(counters: pl.DataFrame) -> pl.DataFrame:
    """One row per run that counts, rank and role, from the rows of `counters_of`.

    A role is a quantity, such as L3 misses, that tools count by different events on different
    processors (`records.roles`). Columns: key, case, treatment (the name without the level of the
    tool), tool, block, pair, rank, role, `value` (in the role's unit) and `state`.

    The value is null unless every event of the role was counted through the whole run, so
    multiplexed counts are not used. Events are recognised by name, so that runs of any machine can
    be read. A role has no row if the tool did not count its events. Counters of nodes are used only
    from runs that no tool wrapped. If several devices of a node report a share, the highest is
    used.
    """
    events = _events()
    is_wrapped = factor_level(_TOOL).fill_null("none") != "none"
    is_of_node = pl.col("tool").cast(pl.String) == NODE_TOOL
    is_used = (pl.col("status") == "counts") & ~(is_of_node & is_wrapped)
    runs = counters.filter(is_used).with_columns(
        pl.col("tool", "event", "unit", "state", "case").cast(pl.String),
        treatment=pl.col("arm").cast(pl.String).map_elements(without_tool, return_dtype=pl.String),
    )
    # A value that has the role's unit already is not scaled, unless it is a number of events.
    has_role_unit = (pl.col("unit") == pl.col("role_unit")) & (pl.col("role_unit") != "count")
    scale = pl.when(has_role_unit).then(1.0).otherwise(pl.col("scale"))
    role_counts = (
        runs.with_columns(
            program=pl.col("tool").str.replace(":.*$", ""),
            name=pl.when(is_of_node)
            .then(pl.col("event").str.replace("^.*:", ""))
            .otherwise(pl.col("event").map_elements(_event_name, return_dtype=pl.String)),
        )
        .join(events, left_on=["program", "name"], right_on=["program", "event"], how="inner")
        .with_columns(scaled=scale * pl.col("value"), is_complete=pl.col("state") == "counted")
    )
    rows = role_counts.group_by(*_RUN_COLUMNS, "rank", "role", "row", maintain_order=True).agg(
        pl.when(pl.col("is_complete").all())
        .then(
            pl.when((pl.col("role_unit") == "1").first())
            .then(pl.col("scaled").max())
            .otherwise(pl.col("scaled").sum())
        )
        .alias("value"),
        pl.col("state").filter(~pl.col("is_complete")).first().fill_null("counted"),
        counted_event_count=pl.col("name").n_unique(),
        event_count=pl.col("event_count").first(),
    )
    # Rows of `COUNTS` for several processor families may share an event. A row is used only if all
    # its events were counted. If there are several such rows, the row with the most events is used.
    return (
        rows.filter(pl.col("counted_event_count") == pl.col("event_count"))
        .sort("event_count", descending=True, maintain_order=True)
        .unique([*_RUN_COLUMNS, "rank", "role"], keep="first", maintain_order=True)
        .select(*_RUN_COLUMNS, "rank", "role", "value", "state")
    )


def role_totals(values: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Values of roles, summed over ranks; shares are averaged instead.

    `values` is what `role_values` returns. Rows are grouped by the columns `by`, which include
    `role`. The result has these columns and `value`. A group with a null is left out.
    """
    is_share = pl.col("role").first().is_in(SHARE_ROLES)
    return values.group_by(*by, maintain_order=True).agg(over_ranks(is_share)).drop_nulls("value")


def role_pairs(counters: pl.DataFrame, samples: pl.DataFrame, *roles: str) -> pl.DataFrame:
    """Values of roles under writes and without, within pairs.

    Columns: case, treatment (the name without the level of the tool), tool, block, pair, role,
    `value`, `off` (the value of the baseline's run) and `written_b` (bytes written in the treated
    run). `value` and `off` are in the role's unit. If a run was repeated, its last attempt is used.
    """
    pair_columns = ["case", "tool", "block", "pair", "role"]
    totals = _totals_with_writes(counters, samples, roles)
    totals = totals.unique([*pair_columns, "treatment"], keep="last", maintain_order=True)
    baselines = totals.select(*pair_columns, baseline="treatment", off="value")
    pairs = totals.filter(pl.col("written_b") > 0).join(
        baselines, on=[*pair_columns, "baseline"], how="inner", maintain_order="left"
    )
    return pairs.select(*pair_columns, "treatment", "value", "off", "written_b")


#: Rise from `off` to `value` in a row of `role_pairs`, as a share of the bytes written.
RISE_SHARE = (pl.col("value") - pl.col("off")) / pl.col("written_b")


def _totals_with_writes(
    counters: pl.DataFrame, samples: pl.DataFrame, roles: Sequence[str]
) -> pl.DataFrame:
    """A row per run and role: the role's total over ranks, `written_b` and `baseline`."""
    values = role_values(counters).filter(pl.col("role").is_in(roles))
    totals = role_totals(values, *_RUN_COLUMNS, "role")
    baseline = pl.col("baseline").cast(pl.String)
    runs = samples.select(
        "key",
        written_b=pl.col("writer_rate_b_s") * pl.col("elapsed_s"),
        # The treatments' names in `totals` lack the level of the tool.
        baseline=baseline.map_elements(without_tool, return_dtype=pl.String),
    )
    return totals.join(runs, on="key", how="inner", maintain_order="left")


def without_tool(treatment: str) -> str:
    """A treatment's name without the level of its tool: `off@tool=mpip` becomes `off`."""
    return without_factor(treatment, _TOOL)


def _event_name(event: str) -> str:
    """The name of an event without its modifiers."""
    name, _ = event_parts(event)
    return name


def _events() -> pl.DataFrame:
    """One row per event of each row of `COUNTS`.

    `scale` converts a count to the role's unit. `row` is the index of the row of `COUNTS`, and
    `event_count` is the number of events of this row.
    """
    events = [
        (row.tool, event, row.role, ROLES[row.role].unit, row.factor, index, len(row.events))
        for index, row in enumerate(COUNTS)
        for event in row.events
    ]
    columns = ["program", "event", "role", "role_unit", "scale", "row", "event_count"]
    frame = pl.DataFrame(events, schema=columns, orient="row")
    # Several processor families may count a role by the same events; one of these rows is enough.
    return frame.unique(["program", "event", "role", "scale", "event_count"], maintain_order=True)
