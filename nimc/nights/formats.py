"""A night in formats of other programs: metrics for node_exporter, and JUnit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import get_args
from xml.etree import ElementTree

from analysis.history.tables import COUNTER, Outcome
from nimc.base.text import one_line
from nimc.nights.summary import NightFigure, Summary

#: Unit of a figure -> its part in a metric's name, as Prometheus writes base units.
_UNITS = {"s": "seconds", "B/s": "bytes_per_second", "1": "ratio", "1/s": "per_second"}
_QUANTITIES = {
    "fom": ("figure_of_merit", "Median figure of merit of a case's treatment"),
    "slowdown": ("slowdown", "Time with writers / time without them"),
    "writer_rate": ("writer_rate", "Rate of the writers during the runs"),
}
_ENDS = (("", ""), ("_low", ", lower end of its 95 % interval"), ("_high", ", upper end"))


def prometheus_text(summary: Summary) -> str:
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


# A night as a JUnit report: a test case for each case of the campaign. Pure.


def junit_xml(summary: Summary) -> str:
    """The document: slower is a failure, a failed machine an error, no measurement a skip."""
    cases = summary.cases or [summary.campaign]
    suite = ElementTree.Element(
        "testsuite",
        name=f"{summary.machine}.{summary.nightly}",
        tests=str(len(cases)),
        timestamp=_utc(summary.started_s),
    )
    for case in cases:
        suite.append(_case(summary, case))
    for kind, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(kind, str(len(suite.findall(f"testcase/{element}"))))
    suites = ElementTree.Element("testsuites", name="nimc")
    suites.append(suite)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(
        suites, encoding="unicode"
    )


def _case(summary: Summary, case: str) -> ElementTree.Element:
    found = ElementTree.Element(
        "testcase", name=_text(case), classname=f"{summary.machine}.{summary.campaign}"
    )
    figures = [each for each in summary.figures if each.case == case]
    slower = [each.text for each in summary.alarms if each.case == case]
    failed = [each.reason for each in summary.failures if each.case == case]
    if failed or (summary.outcome == "machine failed" and not figures):
        _add(found, "error", failed or [summary.reason])
    elif slower:
        _add(found, "failure", slower)
    elif not figures:
        _add(found, "skipped", [summary.reason])
    if figures:
        ElementTree.SubElement(found, "system-out").text = _text("\n".join(map(_line, figures)))
    return found


def _add(case: ElementTree.Element, kind: str, lines: list[str]) -> None:
    part = ElementTree.SubElement(case, kind, message=_text(lines[0]))
    part.text = _text("\n".join(lines))


def _line(each: NightFigure) -> str:
    bounds = (each.low, each.high)
    interval = "" if None in bounds else " [" + ", ".join(f"{end:.4g}" for end in bounds) + "]"
    verdict = f", {each.verdict}" if each.verdict else ""
    unit = "" if each.unit == "1" else f" {each.unit}"
    return f"{each.arm} {each.quantity}: {each.value:.4g}{interval}{unit}{verdict}"


def _text(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return "\n".join(map(one_line, text.split("\n")))


def _utc(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
