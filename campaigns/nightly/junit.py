"""A night as a JUnit report: a test case for each case of the campaign. Pure."""

from __future__ import annotations

from datetime import datetime, timezone
from xml.etree import ElementTree

from analysis.escape import one_line
from campaigns.nightly.summary import NightFigure, Summary


def xml(summary: Summary) -> str:
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
