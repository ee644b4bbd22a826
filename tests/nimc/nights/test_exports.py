"""JUnit and Prometheus text, against what their documents say."""

import math
import re
from xml.etree import ElementTree

import pytest

from nimc.nights import notify
from nimc.nights.summary import NightAlarm, NightFigure
from tests.nimc.nights.made import SUMMARY, summary

_LINE = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)\{(?P<labels>.*)\} (?P<value>\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def read_metrics(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """As the exposition format 0.0.4 is documented: help and type once, before all samples."""
    assert text.endswith("\n")
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    current, seen = "", set[str]()
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("# HELP "):
            current = line.split()[2]
            assert current not in seen, "a metric in two places"
            seen.add(current)
            assert next(lines) == f"# TYPE {current} gauge"
            continue
        match = _LINE.fullmatch(line)
        assert match, line
        assert match["name"] == current
        labels = _LABEL.findall(match["labels"])
        assert "".join(f'{key}="{value}",' for key, value in labels)[:-1] == match["labels"]
        key = (current, tuple(sorted(labels)))
        assert key not in found, "a sample twice"
        found[key] = float(match["value"])
        assert math.isfinite(found[key])
    return found


def test_metrics_have_units_in_their_names_and_bounds() -> None:
    found = read_metrics(notify.prometheus_text(SUMMARY))
    of = (("campaign", "small"), ("machine", "m1"), ("nightly", "box"))
    on = tuple(sorted((*of, ("case", "stream"), ("arm", "on"))))
    off = tuple(sorted((*of, ("case", "stream"), ("arm", "off"))))
    assert found["nimc_slowdown_ratio", on] == 2.0
    assert found["nimc_slowdown_ratio_low", on] == 1.9
    assert found["nimc_slowdown_ratio_high", on] == 2.1
    assert found["nimc_figure_of_merit_bytes_per_second", off] == 1e10
    lammps = tuple(sorted((*of, ("case", "lammps"), ("arm", "off"))))
    assert found["nimc_figure_of_merit_seconds", lammps] == 3.5
    assert ("nimc_figure_of_merit_seconds_low", lammps) not in found  # from five runs
    assert found["nimc_night_used_node_hours", of] == 0.25
    outcomes = {
        dict(labels)["outcome"]: value
        for (name, labels), value in found.items()
        if name == "nimc_night_outcome"
    }
    assert outcomes == {
        "measured": 0, "slower": 1, "not run": 0, "inconclusive": 0, "machine failed": 0
    }  # fmt: skip


def test_metrics_escape_labels_and_keep_odd_units_and_roles() -> None:
    figures = [
        NightFigure('a"\\b', "off", "fom", "zones/s", "higher", 1e300, None, None, 1),
        NightFigure("c", "off", "counter:stalls", "1/s", "lower", 2.5, 2.0, 3.0, 6),
    ]
    found = read_metrics(notify.prometheus_text(summary(figures=figures, finished_s=None)))
    names = {name for name, _ in found}
    assert "nimc_night_finished_timestamp_seconds" not in names
    labels = next(dict(of) for name, of in found if name == "nimc_figure_of_merit")
    assert (labels["case"], labels["unit"]) == (r"a\"\\b", "zones/s")
    role = next(dict(of) for name, of in found if name == "nimc_counter_per_second_low")
    assert role["role"] == "stalls"


def test_junit_says_slower_failed_and_measured() -> None:
    root = ElementTree.fromstring(notify.junit_xml(SUMMARY))
    assert root.tag == "testsuites"
    (suite,) = root
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3", "failures": "1", "errors": "1", "skipped": "0"
    }  # fmt: skip
    assert suite.get("timestamp") == "2026-11-20T22:00:00"
    stream, lammps, snap = suite
    assert stream.find("failure").get("message") == "stream: slower than its reference"  # type: ignore[union-attr]
    assert "on slowdown: 2 [1.9, 2.1], memory contention" in stream.findtext("system-out", "")
    assert [part.tag for part in lammps] == ["system-out"]
    assert snap.find("error").get("message") == "no such binary"  # type: ignore[union-attr]


@pytest.mark.parametrize(("outcome", "tag"), [("not run", "skipped"), ("machine failed", "error")])
def test_junit_of_a_night_without_figures(outcome: str, tag: str) -> None:
    night = summary(outcome=outcome, reason="\x1b<&", figures=[], alarms=[], failures=[])
    (suite,) = ElementTree.fromstring(notify.junit_xml(night))
    assert [case[0].tag for case in suite] == [tag] * 3
    assert suite[0][0].get("message") == r"\x1b<&"
    (suite,) = ElementTree.fromstring(
        notify.junit_xml(summary(outcome=outcome, cases=[], figures=[]))
    )
    assert len(suite) == 1  # the campaign's cases are not known


def test_junit_shows_a_second_alarm_of_a_case() -> None:
    alarms = [NightAlarm("stream", "off", "fom", "history", text) for text in ("one", "two")]
    (suite,) = ElementTree.fromstring(notify.junit_xml(summary(alarms=alarms)))
    assert suite[0].findtext("failure") == "one\ntwo"


def test_junit_shows_no_interval_with_one_end() -> None:
    figure = NightFigure("stream", "off", "fom", "s", "lower", 2.0, 1.5, None, 6)
    (suite,) = ElementTree.fromstring(notify.junit_xml(summary(figures=[figure])))
    assert suite[0].findtext("system-out") == "off fom: 2 s"
