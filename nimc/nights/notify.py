"""How a night ended, told to others: metrics, JUnit, webhook, mail. Nothing here fails a night."""

from __future__ import annotations

import os
import shutil
import threading
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from email.message import EmailMessage
from http.client import HTTPException
from typing import Any, get_args
from xml.etree import ElementTree

from analysis.history.tables import COUNTER, Outcome
from nimc.base.errors import NimcError
from nimc.base.files import named_output
from nimc.base.programs import ask
from nimc.base.text import one_line
from nimc.nights import summary
from nimc.nights.description import MARGIN_S, Nightly, NightWindow
from nimc.nights.summary import NightFigure, Summary

# A night's metrics for node_exporter. Pure.


#: Unit of a figure -> its part in a metric's name, as Prometheus writes base units.
_UNITS = {"s": "seconds", "B/s": "bytes_per_second", "1": "ratio", "1/s": "per_second"}
_QUANTITIES = {
    "fom": ("figure_of_merit", "Median figure of merit of a case's treatment"),
    "slowdown": ("slowdown", "Time with writers / time without them"),
    "writer_rate": ("writer_rate", "Rate of the writers during the runs"),
}
_ENDS = (("", ""), ("_low", ", lower end of its 95 % interval"), ("_high", ", upper end"))


def prometheus_text(summary: Summary, window: NightWindow | None = None) -> str:
    """The file's text: each metric with its help, type and values.

    With a `window` also by when the next night has ended, so that one that never comes is noticed.
    """
    of = {name: getattr(summary, name) for name in ("nightly", "machine", "campaign")}
    outcomes = [
        (of | {"outcome": name}, float(name == summary.outcome)) for name in get_args(Outcome)
    ]
    lines = [*_metric("nimc_night_outcome", "1 for how the last night ended", outcomes)]
    for name, about, value in (
        ("started_timestamp_seconds", "When the last night began", summary.started_s),
        ("used_node_hours", "Node-hours of the night", summary.used_node_h),
        ("budget_node_hours", "Node-hours that a night may use", summary.budget_node_h),
        ("alarms", "What became slower", float(len(summary.alarms))),
        ("finished_timestamp_seconds", "When it ended", summary.finished_s),
        ("next_end_timestamp_seconds", "When the next one has ended", _next_end_s(summary, window)),
    ):
        if value is not None:
            lines += _metric(f"nimc_night_{name}", about, [(of, value)])
    return "\n".join([*lines, *_figures(summary.figures, of), ""])


def _next_end_s(summary: Summary, window: NightWindow | None) -> float | None:
    """The latest end of the scheduled night after this one, with the margin to report."""
    if window is None:
        return None
    first, last = (summary.night + timedelta(days) for days in (1, 7))
    return next(window.nights(first, last)).end_s + MARGIN_S


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
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    for labels, value in rows:
        inner = ",".join(f'{key}="{text.translate(escapes)}"' for key, text in labels.items())
        yield f"{name}{{{inner}}} {value!r}"


# A night as a JUnit report: a test case for each case of the campaign. Pure.


def junit_xml(summary: Summary) -> str:
    """The document: slower is a failure, a failed machine an error, no measurement a skip."""
    cases = summary.cases or [summary.campaign]
    suite = ElementTree.Element(
        "testsuite",
        name=f"{summary.machine}.{summary.nightly}",
        tests=str(len(cases)),
        timestamp=f"{datetime.fromtimestamp(summary.started_s, timezone.utc):%Y-%m-%dT%H:%M:%S}",
    )
    for case in cases:
        suite.append(_case(summary, case))
    for kind, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(kind, str(len(suite.findall(f"testcase/{element}"))))
    suites = ElementTree.Element("testsuites", name="nimc")
    suites.append(suite)
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'


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


# Metrics, webhook and mail.


#: How long a webhook or the mail program may take in all, seconds.
_ANSWER_S = 30.0
#: Where sendmail is, if not on PATH: cron's is short.
_SENDMAIL_PATH = "/usr/sbin:/usr/lib"


def everyone(ended: Summary, request: Nightly, before: Summary | None = None) -> Iterator[str]:
    """Send the summary by mail and webhook; yields a line for each that failed.

    `before`: the summary of the night before; a mail is sent if this one is news.
    """
    if request.metrics:
        try:
            path = named_output(request.metrics) / f"nimc_{ended.nightly}.prom"
            summary.write(path, prometheus_text(ended, request.window), mode=0o644)
        except NimcError as error:
            yield f"metrics: {error}"
    if request.tell.webhook:
        url = os.path.expandvars(request.tell.webhook)
        if fault := post(url, summary.summary_text(ended)):
            yield f"webhook: {fault}"
    to = request.tell.mail if is_news(ended, before) else []
    if to and (fault := send(mail(ended, to))):
        yield f"mail: {fault}"


def is_news(ended: Summary, before: Summary | None) -> bool:
    """Whether a night did not measure, and not in the same way as the night before.

    The same way: outcome, what became slower and nobody has seen, what failed. A night that was
    killed sent nothing.
    """
    if ended.outcome == "measured":
        return False
    if ended.outcome == "slower" and all(each.acknowledged for each in ended.alarms):
        return False
    return before is None or before.finished_s is None or _state(ended) != _state(before)


def _state(of: Summary) -> tuple[Outcome, set[tuple[str, ...]]]:
    slower = {(a.case, a.arm, a.quantity) for a in of.alarms if not a.acknowledged}
    return of.outcome, slower | {(each.case,) for each in of.failures}


def post(url: str, text: str, within_s: float = _ANSWER_S) -> str | None:
    """POST a JSON document; returns why that failed. The URL may be a secret: it is not named.

    In a thread that is not waited for longer: timeouts of sockets are those of single reads, and
    looking up a name has none.
    """
    said: list[str | None] = []
    thread = threading.Thread(target=lambda: said.append(_post(url, text, within_s)), daemon=True)
    thread.start()
    thread.join(within_s)
    return said[0] if said else f"no answer within {within_s:g} s"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """A redirect is an error: followed, it would be a GET without the summary."""


def _post(url: str, text: str, within_s: float) -> str | None:
    if not url.startswith(("http://", "https://")):
        return "its variable holds no http:// or https:// address"
    opener = urllib.request.build_opener(_NoRedirect)
    headers = {"Content-Type": "application/json"}
    try:
        request = urllib.request.Request(url, text.encode(), headers, method="POST")
        with opener.open(request, timeout=within_s):
            return None
    except (OSError, ValueError) as error:
        return one_line(str(error).replace(url, "URL"))
    except HTTPException as error:  # its text may be a part of the URL
        return f"no HTTP answer, or an invalid address ({type(error).__name__})"


def send(message: EmailMessage) -> str | None:
    """Hand a mail to the local mail program; returns why that failed."""
    program = shutil.which("sendmail") or shutil.which("sendmail", path=_SENDMAIL_PATH)
    if program is None:
        return "sendmail: not found on PATH or in /usr/sbin"
    text = message.as_bytes().decode(errors="replace")
    answer = ask([program, "-t", "-i"], timeout_s=_ANSWER_S, stdin=text)
    return None if answer.ok else one_line(answer.reason)


def mail(ended: Summary, to: list[str]) -> EmailMessage:
    """The mail about a night."""
    found = EmailMessage()
    found["To"] = ", ".join(to)
    about = f"{ended.machine}, {ended.nightly}, night {ended.night}: {ended.outcome}"
    found["Subject"] = one_line(f"nimc: {about}")
    lines = [
        f"outcome:  {ended.outcome}",
        f"reason:   {one_line(ended.reason)}",
        f"machine:  {ended.machine}",
        f"campaign: {ended.campaign}",
        f"run:      {one_line(ended.run or 'none')}",
        f"used:     {ended.used_node_h:.3g} of {ended.budget_node_h:.3g} node-hours",
    ]
    for title, found_lines in (
        ("became slower", [a.text + " (acknowledged)" * a.acknowledged for a in ended.alarms]),
        ("could not be measured", [f"{each.case}: {each.reason}" for each in ended.failures]),
    ):
        if found_lines:
            lines += ["", f"{title}:", *(f"  {one_line(line)}" for line in found_lines)]
    found.set_content("\n".join(lines) + "\n")
    return found
