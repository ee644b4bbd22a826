"""What pages say of alarms, worked out by hand."""

from dataclasses import replace
from functools import partial

import polars as pl
import pytest

from analysis.history.alarms import Acknowledgement, Alarm, Change, ChangedFact, NodeRatio
from analysis.history.tables import RUNS
from analysis.pages.alarms import (
    AlarmGroup,
    ShownAlarm,
    alarm_groups,
    is_unusual,
    open_alarms,
    sentence,
    shown_alarms,
)
from analysis.pages.data import MachineHistory
from tests.analysis.history.nights_table import night_rows, nights_table, started_s
from tests.analysis.made_nights import made_alarm, made_watch

_history = partial(MachineHistory, "hpc", pl.DataFrame(schema=RUNS), known_s=started_s(60))
_KERNEL, _MPI = ChangedFact("kernel", "5.14", "6.1"), ChangedFact("MPI", "4", "5")


def _open(history: MachineHistory) -> list[Alarm]:
    return list(open_alarms(shown_alarms(history)).values())


def test_an_alarm_is_open_until_it_is_dismissed_or_replaced_or_the_series_got_better() -> None:
    first, last = made_alarm("2025-01-06"), made_alarm("2025-02-06", ratio=1.2)
    history = _history(nights_table(), alarms=[last, first])
    assert _open(history) == [last]
    assert _open(replace(history, alarms=[replace(last, state="dismissed")])) == []
    assert _open(replace(history, alarms=[replace(last, back="2025-03-01")])) == []
    for noticed, still in (("2025-03-01", []), ("2025-01-20", [last])):
        watch = made_watch(changes=[Change("2025-01-10", noticed, 0.9)])
        assert _open(replace(history, watches=[watch])) == still


@pytest.mark.parametrize(
    ("past", "after", "unusual"),
    [
        (["8", "9", "10", "11", "12"], "14", False),  # median 10, deviation 1: 3 x 1.4826 = 4.4
        (["8", "9", "10", "11", "12"], "15", True),
        (["v1"] * 30, "v2", True),
        (["v1"] * 20 + ["v2"] * 10, "v1", True),
        (["n1", "n2"] * 15, "n1", False),
        (["n1", "n2"] * 15, "n3", True),
        ([f"commit{each}" for each in range(30)], "commit30", False),
        (["v1"] * 30, None, True),
        ([], "v1", True),
    ],
)
def test_a_fact_is_unusual_beyond_what_it_did_before(
    past: list[str], after: str | None, unusual: bool
) -> None:
    assert is_unusual(ChangedFact("fact", past[-1] if past else None, after), past) is unusual


def test_alarms_of_one_beginning_and_one_changed_fact_are_one() -> None:
    """One night apart and both facts; the same night without facts; four nights later; ended."""
    alarms = [
        made_alarm("2025-02-05", since="2025-02-03", changed=[_KERNEL, _MPI], ratio=1.1),
        made_alarm("2025-02-06", since="2025-02-04", arm="off", changed=[_KERNEL], ratio=1.09),
        made_alarm("2025-02-06", since="2025-02-03", case="other"),
        made_alarm("2025-02-09", since="2025-02-07", case="late", changed=[_KERNEL]),
        made_alarm("2025-03-09", since="2025-03-07", case="ended", state="dismissed"),
    ]
    groups = alarm_groups(shown_alarms(_history(nights_table(), alarms=alarms)))
    found = [{each.alarm.case for each in group.alarms} for group in groups]
    assert found == [{"stream"}, {"late"}, {"other"}, {"ended"}]
    assert [group.until for group in groups] == [None, None, None, "2025-03-09"]
    assert (groups[0].since, groups[0].changed) == ("2025-02-03", [_KERNEL, _MPI])
    assert groups[0].lead.alarm.arm == "on"
    assert len(groups[0].sentences) == 2


def test_alarms_that_are_one_are_acknowledged_if_all_open_ones_of_them_are() -> None:
    first, last = (Acknowledgement(name, "why", at_s) for name, at_s in (("a", 1.0), ("b", 2.0)))
    alarms = [
        made_alarm("2025-02-05", acknowledged=last),
        made_alarm("2025-02-05", arm="off", acknowledged=first),
        made_alarm("2025-02-05", case="other"),
    ]

    def group(*changed: Alarm) -> AlarmGroup:
        (found,) = alarm_groups(shown_alarms(_history(nights_table(), alarms=list(changed))))
        return found

    assert (group(*alarms).acknowledged, group(*alarms).look) == (None, "bad")
    assert (group(*alarms[:2]).acknowledged, group(*alarms[:2]).look) == (last, "warn")
    ended = group(*alarms[:2], replace(alarms[2], back="2025-03-01"))
    assert (ended.acknowledged, ended.until) == (last, None)
    assert any("by a on 1970-01-01 00:00 UTC: why" in text for text in ended.states)


def _with_baseline(off: list[float]) -> ShownAlarm:
    """Four nights around 10 s, then four of 5 % more with writes; `off` are those without."""
    on = [9.9, 10.1, 10, 10, 10.4, 10.6, 10.5, 10.5]
    rows = [*night_rows(on), *night_rows(off, arm="off")]
    runs = [f"run{each:03}" for each in range(8)]
    alarm = made_alarm("2025-01-13", since="2025-01-10", runs=runs, reference=10.0)
    (shown,) = shown_alarms(_history(nights_table(*rows), alarms=[alarm]))
    return shown


def test_what_is_slower_without_writes_as_well_is_the_machine() -> None:
    """From 20 to 20.8: 4 % without writes, 5 % with them."""
    shown = _with_baseline([20, 20.1, 20, 19.9, 20.8, 20.7, 20.8, 20.9])
    assert shown.without_writes is not None
    assert shown.without_writes.value == pytest.approx(1.04, abs=2e-4)
    assert shown.without_writes.low > 1.03
    text = sentence(shown)
    assert "5.0 % (2.0 to 8.0) slower since 2025-01-10" in text
    assert "as well, by 4.0 %" in text
    assert "so it is the machine" in text


def test_an_alarm_without_writes_at_the_same_time_tells_it_from_few_nights() -> None:
    """Nights from 15 to 25 s tell nothing of 4 %, the sum of an alarm did."""
    shown = _with_baseline([20, 25, 15, 20, 20.8, 25, 17, 21])
    assert shown.without_writes is not None
    assert shown.without_writes.low < 1 < 1.03 < shown.without_writes.value
    assert "so it is the machine" not in sentence(shown)
    assert "so it is the machine" in sentence(replace(shown, is_alarm_without=True))

    # None, or 1 %, which is less than half of the loss, is not the machine.
    for off in ([20.1, 20, 19.9, 20], [20.2, 20.1, 20.2, 20.3]):
        assert "so it is the machine" not in sentence(_with_baseline([20, 20.1, 20, 19.9, *off]))


def test_the_worst_node_is_named_if_it_is_half_of_the_loss() -> None:
    """1.05 is the loss, its half 1.0247."""
    for ratio, is_named in ((1.0, False), (1.02, False), (1.03, True)):
        alarm = made_alarm("2025-01-08", worst_node=NodeRatio("n002", ratio, 9))
        (shown,) = shown_alarms(_history(nights_table(), alarms=[alarm]))
        assert (shown.node is not None) is is_named


@pytest.mark.parametrize(
    ("quantity", "word"),
    [("slowdown", "larger"), ("writer_rate", "slower"), ("counter:memory_reads", "more")],
)
def test_a_slowdown_is_larger_and_writers_are_slower(quantity: str, word: str) -> None:
    alarm = made_alarm("2025-01-08", quantity=quantity)
    (shown,) = shown_alarms(_history(nights_table(), alarms=[alarm]))
    assert f"5.0 % (2.0 to 8.0) {word}" in sentence(shown)
