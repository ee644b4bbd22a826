"""A night as metrics for node_exporter's textfile collector. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

from analysis.history.tables import COUNTER, Outcome
from campaigns.nightly.summary import NightFigure, Summary

#: Unit of a figure -> its part in a metric's name, as Prometheus writes base units.
_UNITS = {"s": "seconds", "B/s": "bytes_per_second", "1": "ratio", "1/s": "per_second"}
_QUANTITIES = {
    "fom": ("figure_of_merit", "Median figure of merit of a case's treatment"),
    "slowdown": ("slowdown", "Time with writers / time without them"),
    "writer_rate": ("writer_rate", "Rate of the writers during the runs"),
}
_ENDS = (("", ""), ("_low", ", lower end of its 95 % interval"), ("_high", ", upper end"))


def text(summary: Summary) -> str:
    """The file's text: each metric with its help, type and values."""
    of = {
        "nightly": summary.nightly,
        "machine": summary.machine,
        "campaign": summary.campaign,
    }
    outcomes = [
        (of | {"outcome": name}, float(name == summary.outcome)) for name in get_args(Outcome)
    ]
    lines = [
        *_metric("nimc_night_outcome", "1 for how the last night ended", outcomes),
        *_metric(
            "nimc_night_started_timestamp_seconds",
            "When the last night began",
            [(of, summary.started_s)],
        ),
        *_metric(
            "nimc_night_used_node_hours", "Node-hours of the night", [(of, summary.used_node_h)]
        ),
        *_metric(
            "nimc_night_budget_node_hours",
            "Node-hours that a night may use",
            [(of, summary.budget_node_h)],
        ),
        *_metric("nimc_night_alarms", "What became slower", [(of, float(len(summary.alarms)))]),
        *_figures(summary.figures, of),
    ]
    if summary.finished_s is not None:
        ended = [(of, summary.finished_s)]
        lines += _metric("nimc_night_finished_timestamp_seconds", "When it ended", ended)
    return "\n".join(lines) + "\n"


def _figures(figures: Iterable[NightFigure], of: Mapping[str, str]) -> Iterable[str]:
    """A metric for each quantity and unit, and each of its bounds."""
    found: dict[tuple[str, str], list[tuple[dict[str, str], float]]] = {}
    for each in figures:
        name, about = _QUANTITIES.get(each.quantity, ("counter", "Median of a counter's role"))
        unit = _UNITS.get(each.unit)
        labels = {**of, "case": each.case, "arm": each.arm}
        if each.quantity.startswith(COUNTER):
            labels["role"] = each.quantity.removeprefix(COUNTER)
        if unit is None:  # a unit that has no usual name
            labels["unit"] = each.unit
        values = (each.value, each.low, each.high)
        for (end, which), value in zip(_ENDS, values, strict=True):
            if value is not None:
                metric = f"nimc_{name}{f'_{unit}' if unit else ''}{end}"
                found.setdefault((metric, f"{about}{which}"), []).append((labels, value))
    for (metric, about), rows in found.items():
        yield from _metric(metric, about, rows)


def _metric(
    name: str, about: str, rows: Iterable[tuple[Mapping[str, str], float]]
) -> Iterable[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} gauge"
    for labels, value in rows:
        inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{{{inner}}} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
