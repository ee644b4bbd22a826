"""A night in Bencher Metric Format: value with lower and upper bound. Pure."""

from __future__ import annotations

from campaigns.nightly.summary import Summary

#: Longest name of a benchmark and of a measure that Bencher takes, characters.
_BENCHMARK, _MEASURE = 1024, 64


def metrics(summary: Summary) -> dict[str, dict[str, dict[str, float]]]:
    """Benchmark (machine, case and arm) -> measure (quantity and unit) -> value and bounds."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for each in summary.figures:
        benchmark = f"{summary.machine}/{each.case}/{each.arm}"[:_BENCHMARK]
        unit = "" if each.unit == "1" else f" ({each.unit})"
        values = {"value": each.value, "lower_value": each.low, "upper_value": each.high}
        known = {name: value for name, value in values.items() if value is not None}
        found.setdefault(benchmark, {})[f"{each.quantity}{unit}"[:_MEASURE]] = known
    return found
