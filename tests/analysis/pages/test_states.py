"""Three machines and 60 nights: one loses 6 % from some night on, one fails every ninth night."""

import json
import re
from dataclasses import replace
from datetime import date, timedelta

import polars as pl
import pytest

from analysis.history.alarms import Acknowledgement, survey
from analysis.pages.alarms import (
    alarm_groups,
    missing_days,
    shown_alarms,
    usual_gap,
)
from analysis.pages.data import MachineHistory, PageNight
from analysis.pages.render import (
    _look,
    index_page,
    machine_page,
    ordered,
    state_of,
)
from tests.analysis.history.nights_table import (
    START,
    night_rows,
    nights_table,
    runs_table,
    started_s,
)

NIGHTS, LOST, EVERY, LOSS = 60, 45, 9, 0.06
#: At noon after the last night.
KNOWN_S = started_s(NIGHTS - 1) + 10 * 3600


def _values(middle: float, factor: float) -> list[float]:
    """Rates within 1 % of `middle`, evenly spread without repeating; `factor` from LOST on."""
    spread = (0.01 * ((index * 0.6180339887) % 1 - 0.5) for index in range(NIGHTS))
    return [
        middle * (1 + each) * (factor if index >= LOST else 1) for index, each in enumerate(spread)
    ]


def _machine(name: str, *, lost: float = 0.0, fails: int = 0) -> MachineHistory:
    """Off at 160, on at 130 GB/s, their slowdown. Nodes alternate; the loss has a kernel."""
    own = {"machine": name, "unit": "B/s", "better": "higher"}
    rows = [
        row
        for arm, middle in (("off", 160e9), ("on", 130e9))
        for row in night_rows(_values(middle, 1 - lost), arm=arm, **own)
    ]
    slow = {"quantity": "slowdown", "low": 1.2, "high": 1.26, "verdict": "memory contention"}
    rows += night_rows(_values(1.23, 1.0), machine=name, unit="1", **slow)
    made = {
        f"run{night:03}": json.dumps({"kernel": "6.1" if lost and night >= LOST else "5.14"})
        for night in range(NIGHTS)
    }
    ran = [not fails or (night + 1) % fails > 0 for night in range(NIGHTS)]
    nodes = pl.Series([f"n{night % 2}" for night in range(NIGHTS)])
    counts = {"samples": pl.lit(480, pl.Int64), "rejected": pl.lit(0, pl.Int64)}
    every = runs_table(made).with_columns(machine=pl.lit(name), nodes=nodes, **counts)
    runs = every.filter(pl.Series(ran))
    nights = nights_table(*rows).join(runs, on="run", how="semi", maintain_order="left")
    found = survey(nights, runs)
    raised = {each.run for each in found.alarms}
    outcomes = [
        PageNight(
            START + timedelta(night),
            "nightly",
            "machine failed" if not ran[night] else "slower" if run in raised else "measured",
            run=run if ran[night] else "",
        )
        for night, run in enumerate(made)
    ]
    return MachineHistory(
        name, runs, nights, found.alarms, found.watches, outcomes, known_s=KNOWN_S
    )


@pytest.fixture(scope="module")
def machines() -> dict[str, MachineHistory]:
    """By name, the steady one first, as the store sorts them."""
    failing, slower = _machine("b-failing", fails=EVERY), _machine("c-slower", lost=LOSS)
    return {each.machine: each for each in (_machine("a-steady"), failing, slower)}


def test_the_list_begins_with_alarms_then_missed_nights_and_neither_is_green(
    machines: dict[str, MachineHistory],
) -> None:
    """Every ninth of 60 nights is six: a tenth of them."""
    states = ordered(list(machines.values()))
    assert [(each.machine, each.look, each.open_alarms, each.missed) for each in states] == [
        ("c-slower", "bad", 1, 0),
        ("b-failing", "warn", 0, 6),
        ("a-steady", "good", 0, 0),
    ]
    assert {each.expected for each in states} == {NIGHTS}
    text = index_page(list(machines.values()))
    rows = re.findall(r'<tr data-look="(\w+)">.*?href="([\w-]+)/index.html".*?</tr>', text, re.S)
    assert rows == [("bad", "c-slower"), ("warn", "b-failing"), ("good", "a-steady")]
    assert text.count('<b class="good">') == 1


def test_the_losses_of_one_night_are_one_alarm_of_the_machine(
    machines: dict[str, MachineHistory],
) -> None:
    """6 % of a rate are 1 / 0.94 - 1 = 6.4 % of time; the kernel changed, the nodes as always."""
    shown = shown_alarms(machines["c-slower"])
    assert {(each.alarm.arm, each.alarm.quantity) for each in shown} == {
        *(("off", "fom"), ("on", "fom"))
    }
    (group,) = alarm_groups(shown)
    assert group.since == "2025-02-20"
    assert [fact.name for fact in group.changed] == ["kernel"]
    assert group.nodes == []
    assert group.lead.alarm.arm == "on"
    assert group.lead.alarm.ratio == pytest.approx(1 / (1 - LOSS), abs=0.006)
    assert group.lead.without_writes is not None
    assert group.lead.without_writes.value == pytest.approx(1 / (1 - LOSS), abs=0.006)
    page = machine_page(machines["c-slower"])
    assert "so it is the machine" in page
    assert page.count(">alarm</span>") == 3  # two rows, and the case in the history
    assert 'class="mark worse"' in page
    (told,) = re.findall(r"<p>Open alarms: stream with writes \(on\) is (\d\.\d) % ", page)
    assert f"{told} %" in index_page(list(machines.values()))


def test_an_acknowledged_alarm_is_open_and_not_red(machines: dict[str, MachineHistory]) -> None:
    """It comes after alarms that nobody has seen, and before missed nights."""
    slower = machines["c-slower"]
    seen = [
        replace(each, acknowledged=Acknowledgement("jane", "new kernel", KNOWN_S))
        for each in slower.alarms
    ]
    history = replace(slower, alarms=seen)
    state = state_of(history)
    assert (state.look, state.open_alarms, state.acknowledged) == ("warn", 1, 1)
    assert state.outcome == "still slower"
    other = replace(slower, machine="z-slower")
    found = [each.machine for each in ordered([machines["b-failing"], history, other])]
    assert found == ["z-slower", "c-slower", "b-failing"]
    page = machine_page(history)
    assert '<tr data-look="bad"' not in page
    assert 'class="verdict bad' not in page
    seen_on = '<span class="nowrap">2025-03-06</span> 12:00 UTC'
    assert f"acknowledged by jane on {seen_on}: new kernel" in page
    again = machine_page(replace(history, alarms=[*seen[1:], replace(seen[0], acknowledged=None)]))
    assert '<tr data-look="bad"' in again


def test_a_machine_whose_nights_stopped_is_not_green(machines: dict[str, MachineHistory]) -> None:
    """Ten days later nine nights are missing, today's may still come; then all of 60 days."""
    steady = machines["a-steady"]
    for days, missed, look in ((10, 9, "warn"), (16, 15, "bad"), (200, 60, "bad")):
        late = state_of(replace(steady, known_s=KNOWN_S + 86400 * days))
        assert (late.missed, late.look) == (missed, look)
    assert "not run: 9" in machine_page(replace(steady, known_s=KNOWN_S + 86400 * 10))
    planned = replace(steady, known_s=KNOWN_S + 86400 * 200, schedules=["nightly"])
    assert (state_of(planned).missed, state_of(planned).look) == (0, "warn")


def test_the_page_says_when_it_was_made_and_from_when_it_is_old(
    machines: dict[str, MachineHistory],
) -> None:
    """Made on 6 March at noon, a night a day, and a day for it: old after the 8th."""
    for text in (index_page(list(machines.values())), machine_page(machines["a-steady"])):
        assert "2025-03-06</span> 12:00 UTC" in text
        assert 'after <span class="nowrap">2025-03-08</span>' in text
    # An ordinary verdict is not drawn as an alarm.
    assert "memory contention" in text
    assert 'class="verdict bad' not in text
    assert '<tr data-look="bad"' not in text


@pytest.mark.parametrize(
    ("outcome", "alarms", "seen", "expected", "missed", "look", "text"),
    [
        (None, 0, 0, 0, 0, "plain", "never measured"),
        ("measured", 0, 0, 21, 1, "good", "last night: measured"),
        ("recorded", 0, 0, 21, 0, "plain", "last night: recorded"),
        ("measured", 2, 1, 9, 0, "bad", "2 open alarms, 1 acknowledged"),
        ("measured", 1, 0, 9, 0, "bad", "1 open alarm"),
        ("still slower", 1, 1, 9, 0, "warn", "1 open alarm, 1 acknowledged; last night: still"),
        ("slower", 2, 1, 9, 0, "bad", "2 open alarms, 1 acknowledged; last night: slower"),
        ("slower", 0, 0, 9, 0, "bad", "last night: slower"),
        ("machine failed", 1, 1, 9, 0, "bad", "last night: machine failed"),
        ("measured", 0, 0, 0, 0, "warn", "no night in 60 days"),
        # From 5 % on, and from 25 % on.
        ("measured", 0, 0, 20, 1, "warn", "1 of 20 nights not measured"),
        ("measured", 0, 0, 20, 4, "warn", "4 of 20 nights not measured"),
        ("measured", 0, 0, 20, 5, "bad", "5 of 20 nights not measured"),
    ],
)
def test_a_machine_looks_as_the_worst_that_is_known_of_it(
    outcome: str | None, alarms: int, seen: int, expected: int, missed: int, look: str, text: str
) -> None:
    last = PageNight(START, "nightly", outcome) if outcome else None
    found = _look(last, alarms, seen, expected, missed)
    assert found[0] == look
    assert found[1].startswith(text)


def _days(*numbers: int) -> list[date]:
    return [START + timedelta(number) for number in numbers]


def test_nights_are_missing_where_the_usual_gap_and_the_day_of_the_week_expect_them() -> None:
    daily = _days(0, 1, 2, 3, 5, 6, 7, 9)
    assert missing_days(daily, 1, START + timedelta(11)) == _days(4, 8, 10)
    workdays = _days(*(day for day in range(21) if day % 7 < 5 and day != 9))
    assert missing_days(workdays, 1, START + timedelta(21)) == _days(9)
    assert missing_days(workdays, 1, START + timedelta(22)) == _days(9, 21)
    weekly = _days(0, 7, 15, 21, 35)  # once a day late
    assert missing_days(weekly, 7, START + timedelta(42)) == _days(28)
    assert missing_days(weekly, 7, START + timedelta(46)) == _days(28, 42)
    wrong = [date(1970, 1, 1), *daily, date(9999, 12, 31)]
    assert missing_days(wrong, 1, START + timedelta(11))[-3:] == _days(4, 8, 10)
    assert len(missing_days(wrong, 1, START + timedelta(11))) <= 366
    # The usual gap is the median and needs seven nights.
    nights = [PageNight(day, "a", "measured", run="r") for day in _days(0, 1, 2, 3, 4, 5, 9)]
    assert usual_gap(nights) == 1
    assert usual_gap(nights[:6]) is None
