"""What the pages' tables say, worked out by hand."""

import json
from dataclasses import replace
from datetime import date, timedelta
from functools import partial

import polars as pl
import pytest

from analysis.pages import across
from analysis.pages.across import MachineSlowdown
from analysis.pages.alarms import calendar_nights, shown_alarms
from analysis.pages.data import FactChange, MachineHistory, PageNight, fact_changes
from analysis.pages.render import case_views, outcome_counts, years
from tests.analysis.history.nights_table import night_rows, nights_table, runs_table, started_s
from tests.analysis.made_nights import made_alarm, made_watch

NIGHT = date(2025, 2, 14)
#: Known on that day, at noon.
_history = partial(MachineHistory, "hpc", known_s=started_s(39) + 10 * 3600)


def _runs(*made: str | None, campaign: str = "nightly") -> pl.DataFrame:
    texts = {f"{campaign}{index}": text for index, text in enumerate(made)}
    return runs_table(texts, campaign=campaign)


def test_facts_that_differ_from_the_campaigns_run_before_are_changes() -> None:
    """The first night is 2025-01-06; the third run has another kernel and lost a fact."""
    old, new = {"kernel": "5.14", "MPI": "5.0"}, {"kernel": "6.1"}
    found = fact_changes(_runs(json.dumps(old), json.dumps(old), json.dumps(new)))
    assert found == [
        FactChange("2025-01-08", "nightly", "nightly2", "MPI", "5.0", "unknown"),
        FactChange("2025-01-08", "nightly", "nightly2", "kernel", "5.14", "6.1"),
    ]
    both = pl.concat(
        [_runs('{"a": "1"}', '{"a": "1"}'), _runs('{"a": "2"}', '{"a": "2"}', campaign="other")]
    )
    assert fact_changes(both) == []


@pytest.mark.parametrize("text", ["", "[", "[1]", "[" * 100_000, None])
def test_facts_that_cannot_be_read_are_none(text: str | None) -> None:
    assert fact_changes(_runs(text, '{"a": "1"}')) == [
        FactChange("2025-01-07", "nightly", "nightly1", "a", "unknown", "1")
    ]


def test_a_month_has_its_weeks_from_monday_and_the_worst_outcome_of_a_night() -> None:
    """February 2025 begins on a Saturday and has 28 days: five weeks."""
    nights = [
        PageNight(NIGHT, "a", "measured"),
        PageNight(NIGHT, "b", "slower", "stream"),
        PageNight(NIGHT + timedelta(1), "a", "not run", "no node was free"),
    ]
    (year,) = years(nights)
    (month,) = year.months
    assert month.name == "February 2025"
    assert len(month.weeks) == 5
    assert [day.number if day else None for day in month.weeks[0]] == [None] * 5 + [1, 2]
    friday, saturday = month.weeks[2][4:6]
    assert (friday.number, friday.mark, friday.look) == (14, "S", "bad")
    assert friday.text == "a: measured; b: slower, stream"
    assert saturday.mark == "\u2013"
    assert outcome_counts(nights) == {"slower": 1, "not run": 1, "measured": 1}


def test_years_have_their_months_and_what_ended_how_the_latest_first() -> None:
    """Months without a night between two of a year are there, years without any are not."""
    days = [date(2022, 9, 30), date(2022, 12, 1), NIGHT, NIGHT + timedelta(1)]
    found = years([PageNight(day, "a", "measured") for day in days])
    months = {year.name: [month.name for month in year.months] for year in found}
    late = ["December 2022", "November 2022", "October 2022", "September 2022"]
    assert list(months.items()) == [("2025", ["February 2025"]), ("2022", late)]
    assert [year.counts for year in found] == [{"measured": 2}] * 2
    assert years([]) == []


def test_a_run_without_summary_is_in_the_calendar_with_what_it_recorded() -> None:
    runs = _runs("{}", "{}").with_columns(outcome=pl.Series([None, "slower"]))
    told = PageNight(date(2025, 1, 6), "nightly", "measured", "by its summary", "nightly0")
    found = calendar_nights(_history(runs, nights_table(), outcomes=[told]), [])
    assert found == [told, PageNight(date(2025, 1, 7), "nightly", "slower", "", "nightly1")]
    bare = calendar_nights(_history(runs[:1], nights_table()), [])
    odd = runs[:1].with_columns(outcome=pl.lit("odd"))
    bare += calendar_nights(_history(odd, nights_table()), [])
    assert [each.outcome for each in bare] == ["recorded"] * 2


def test_nights_are_still_slower_from_the_night_of_an_alarm_to_its_end() -> None:
    """Of one night, a run raised the alarm and another one measured; the third night is its end."""
    nights = nights_table(*night_rows([10.0, 10.0, 10.0]))
    told = [
        PageNight(date(2025, 1, 6 + day), "nightly", "measured", "", f"run{day:03}")
        for day in range(3)
    ]
    alarm = made_alarm("2025-01-06", since="2025-01-05", back="2025-01-08")
    history = _history(_runs(), nights, [alarm], outcomes=told)
    found = calendar_nights(history, shown_alarms(history))
    assert [each.outcome for each in found] == ["still slower", "still slower", "measured"]
    assert found[0].reason == "since 2025-01-05; measured"


def test_a_row_in_alarm_has_the_reference_from_before_it() -> None:
    """Seven of ten nights were before the change; then 12 s against 10 s, and no baseline."""
    rows = night_rows([10.0] * 7 + [12.0] * 3)
    runs = [row["run"] for row in rows]
    alarm = made_alarm("2025-01-15", since="2025-01-13", runs=runs, reference=10.0, detectable=0.03)
    watch = made_watch(level=None, baseline_nights=None, detectable=None)
    history = _history(_runs(), nights_table(*rows), [alarm], [watch])
    (case,) = case_views(history, [], {alarm.key: alarm})
    (series,) = case.series
    assert (series.reference, series.reference_nights, series.change, series.loss) == (
        *("10.00 s", "7 nights", "20.0 % worse", "3.0 %"),
    )
    assert series.alarm


@pytest.mark.parametrize(
    ("better", "change"), [("lower", "20.0 % worse"), ("higher", "16.7 % better")]
)
def test_the_last_night_stands_against_the_reference(better: str, change: str) -> None:
    """12 s against 10 s is 20 % more time; 12 against 10 of a rate is 1 / 1.2 of the time."""
    rows = night_rows([10.0, 12.0], better=better, low=9.0, high=13.0)
    history = _history(_runs(), nights_table(*rows), watches=[made_watch()])
    (case,) = case_views(history, [], {})
    (series,) = case.series
    assert (series.latest, series.reference, series.reference_nights, series.interval) == (
        *("12.00 s", "10.00 s", "40 nights", "9.000 to 13.00"),
    )
    assert series.change == change
    assert series.detectable == "a loss of 2.1 % is found within 5 nights"
    assert f"the last one 12.00 s on 2025-01-07, {change} than the reference" in series.svg


def test_values_in_an_earlier_unit_are_of_another_series() -> None:
    rows = [*night_rows([5.0, 6.0]), *night_rows([None, None, 7e9], unit="B/s", better="higher")]
    again = {**rows[-1], "run": "again", "started_s": started_s(2) + 60}
    (case,) = case_views(_history(_runs(), nights_table(*rows, again)), [], {})
    (series,) = case.series
    assert series.unit == "GB/s"
    assert series.svg.count("h0") == 2
    assert "1 night, the last one 7.000 GB/s on 2025-01-08" in series.svg
    assert (series.detectable, series.change) == ("too few nights for a reference", "")


def _slow(machine: str, case: str, value: float, half: float, *, emulated: bool = False):  # type: ignore[no-untyped-def]
    ends = value / (1 + half), value * (1 + half)
    named = ("nightly", case, "on", machine, "2025-01-06")
    return MachineSlowdown(*named, value, *ends, "memory contention", emulated)


def test_machines_are_ranked_by_the_mean_of_what_all_have() -> None:
    """Means: a sqrt(1.1 * 1.3) = 1.196, b sqrt(1.2 * 1.2) = 1.2, c 2; c alone has `extra`."""
    rows = [
        *(_slow("a", "x", 1.1, 0.01), _slow("a", "y", 1.3, 0.01)),
        *(_slow("b", "x", 1.2, 0.01), _slow("b", "y", 1.2, 0.01)),
        *(_slow("c", "x", 2.0, 0.01), _slow("c", "y", 2.0, 0.01), _slow("c", "extra", 9, 0.01)),
        *(_slow("d", "x", 1.0, 0.01, emulated=True), _slow("d", "y", 1.0, 0.01, emulated=True)),
    ]
    ranks = across.ranking(rows)
    assert [(each.machine, each.first, each.last, each.cases) for each in ranks] == [
        ("a", 1, 2, 2),
        ("b", 1, 2, 2),
        ("c", 3, 3, 2),
    ]
    assert ranks[0].value == pytest.approx((1.1 * 1.3) ** 0.5)
    assert ranks[2].high == pytest.approx(2.02)
    # One machine, or nothing in common.
    assert across.ranking([_slow("a", "x", 1.1, 0.01)]) == []
    assert across.ranking([_slow("a", "x", 1.1, 0.01), _slow("b", "y", 1.1, 0.01)]) == []


def test_a_slowdown_of_which_nothing_is_said_is_not_compared() -> None:
    own = {"quantity": "slowdown", "unit": "1", "low": 1.0, "high": 1.2}
    rows = night_rows([1.1], **own, verdict="memory contention")
    bad = night_rows([None, 1.9], **own, verdict="baseline unstable")
    history = _history(_runs(), nights_table(*rows, *bad))
    assert [each.value for each in across.slowdowns([history])] == [1.1]


def test_table_two_has_the_last_night_with_both_treatments() -> None:
    own = {"unit": "B/s", "better": "higher"}
    off = night_rows([100e9, 90e9, 80e9], arm="off", **own)
    on = night_rows([50e9, 60e9], arm="on", **own)
    slow = night_rows([2.0, 1.5], quantity="slowdown", low=1.4, high=1.6)
    history = _history(_runs(), nights_table(*off, *on, *slow))
    (mine, *published) = across.triads([history])
    assert (mine.off_b_s, mine.on_b_s, mine.night, mine.slowdown) == (90e9, 60e9, "2025-01-07", 1.5)
    assert len(published) == 11
    assert all(each.published for each in published)


def test_published_machines_have_all_cores_of_a_node() -> None:
    """Two sockets of 8 cores share 73.4 GB/s; one of 4 cores has at most 16.8 GB/s; QDR 4 GB/s."""
    facts = across.published_facts()
    rates = {each.machine: each for each in across.core_rates(facts, across.triads([]))}
    onload = rates["Sandy Bridge-X2-onload"]
    assert onload.memory_core_b_s == pytest.approx(73.4e9 / 16)
    assert onload.network_b_s == 32e9 / 8
    assert rates["Westmere"].memory_core_b_s == pytest.approx(16.8e9 / 4)
    assert len(rates) == 8


def test_facts_of_a_machine_are_those_of_its_site_and_host() -> None:
    host = {"cpu_model": "A", "cores": 8, "memory_b": 1e9, "kernel": "6"}
    nic = {"model": "N", "processing": "onload", "link_rate_b_s": 25e9}
    history = _history(_runs(), nights_table(), facts={"host": host})
    bare = across.facts_of(history)
    assert (bare.cores, bare.nic, bare.link_b_s) == (8, "", None)
    site = {"nic": nic, "facts": {"cores": 64}}
    full = across.facts_of(replace(history, facts={"host": host, "site": site}))
    assert (full.cores, full.processing, full.link_b_s) == (64, "onload", 25e9)
    odd = across.facts_of(replace(history, facts={"host": [], "site": {"nic": None}}))
    assert odd.cores is None
    for rate in (float("inf"), 10**400, -1, True, "fast"):
        fast = {"nic": {**nic, "link_rate_b_s": rate}}
        assert across.facts_of(replace(history, facts={"site": fast})).link_b_s is None
