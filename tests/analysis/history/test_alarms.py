"""Tests which changes the watch for alarms finds in made nights, whose changes are known."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from analysis.history.alarms import (
    COMMON_PART_CASE,
    MAX_NIGHTS_BEFORE,
    MIN_NIGHTS_BEFORE,
    RECENT_NIGHTS,
    Alarm,
    AlarmWatch,
    NoticedChange,
    below_reference,
    survey,
)
from analysis.history.changed_facts import ChangedFact, changed_facts
from analysis.history.nights import nights_of
from records.notes import Note
from tests.analysis.history.tables import made_table, night_tables

NIGHTS, SERIES, CHANGE_NIGHT = 120, 10, 90


def noise(seed: int = 1) -> np.ndarray:
    """Return independent normal values of nights of ten series, with a spread of 1 %."""
    return 0.01 * np.random.default_rng(seed).standard_normal((NIGHTS, SERIES))


def planted(
    loss: float,
    *,
    nights: int | slice = slice(CHANGE_NIGHT, None),
    series: int | slice = 3,
    seed: int = 1,
) -> np.ndarray:
    """Return such values with a loss in some nights and series."""
    values = noise(seed)
    values[nights, series] += loss
    return values


def changes(values: np.ndarray) -> list[NoticedChange]:
    return AlarmWatch(values).judge_all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (noise(), []),
        (planted(0.5, nights=CHANGE_NIGHT), []),  # one unusual night
        (planted(-0.05), [(3, False)]),  # an improvement
        # A loss of all series is one alarm of the machine.
        (planted(0.05, series=slice(None), seed=2), [(None, True)]),
        (
            planted(1.0, nights=slice(MIN_NIGHTS_BEFORE, None))[
                : MIN_NIGHTS_BEFORE + RECENT_NIGHTS - 1
            ],
            [],
        ),  # too few nights
    ],
)
def test_a_change_is_found_in_six_nights(
    values: np.ndarray, expected: list[tuple[int | None, bool]]
) -> None:
    assert [(change.column, change.worse) for change in changes(values)] == expected
    assert all(
        CHANGE_NIGHT <= change.noticed_night < CHANGE_NIGHT + RECENT_NIGHTS
        for change in changes(values)
    )


@pytest.mark.parametrize("loss", [0.04, 0.3])
def test_a_loss_of_one_series_is_found_in_six_nights_and_once(loss: float) -> None:
    (change,) = changes(planted(loss))
    assert (change.column, change.worse, change.noticed_night) == (
        3,
        True,
        CHANGE_NIGHT + RECENT_NIGHTS - 1,
    )
    assert change.first_night == CHANGE_NIGHT


@np.errstate(all="raise")
def test_a_loss_in_whole_seconds_is_found_though_usual_nights_do_not_differ() -> None:
    """One usual night of ten takes 11 s in place of 10 s, so the median deviation is 0."""
    usual_s = np.where(np.arange(CHANGE_NIGHT) % 10 == 5, 11.0, 10.0)
    seconds = np.concatenate([usual_s, np.full(RECENT_NIGHTS, 11.0)])
    assert changes(np.log(usual_s)[:, np.newaxis]) == []
    (change,) = changes(np.log(seconds)[:, np.newaxis])
    assert (change.first_night, change.worse) == (CHANGE_NIGHT, True)


@pytest.mark.parametrize(("series", "columns"), [(6, {None}), (5, {0, 1, 2, 3, 4})])
def test_a_loss_that_six_series_share_is_one_alarm_of_the_machine(
    series: int, columns: set[int | None]
) -> None:
    values = planted(0.05, series=slice(None), seed=2)[:, :series]
    assert {change.column for change in changes(values)} == columns


def test_a_reference_has_twenty_nights_or_more() -> None:
    values = noise()[: MIN_NIGHTS_BEFORE + 1]
    watch = AlarmWatch(values)
    watch.judge_all()
    distance = values[-1, 3] - np.median(values[:-1, 3])
    assert watch.series[3].distances[-1] == pytest.approx(distance)


@pytest.mark.slow
def test_spread_and_usual_distance_come_from_the_last_two_hundred_nights() -> None:
    """The first nights scatter three times more and in another way, but do not matter any more.

    Each night is compared with the 30 nights before. The spread is computed from 200 nights, the
    share of the common part from 200 nights with known spreads, and the usual distance from 200
    means of six to twelve nights with known shares.
    """
    needed = 30 + 3 * 200 + 2 * RECENT_NIGHTS
    rng = np.random.default_rng(1)
    shared, own = (rng.standard_normal((needed + 103, columns)) for columns in (1, SERIES))
    # Successive nights are alike, so that the usual distance of means is above its lower limit.
    values = 0.01 * (shared[3:] + (own[:-3] + own[1:-2] + own[2:-1] + own[3:]) / 2)
    values[:100] += 0.03 * rng.standard_normal((100, SERIES))
    usual = []
    for watch in (AlarmWatch(values), AlarmWatch(values[100:])):
        assert watch.judge_all() == []
        usual.append([(series.spread, series.usual_distance) for series in watch.series])
    assert usual[0] == usual[1]


def test_a_loss_that_all_series_share_is_no_loss_of_one_series() -> None:
    """All series together scatter by 1 %, and each by another 0.5 %.

    In three nights, all series are worse by 5 %.
    """
    together = 0.01 * np.random.default_rng(3).standard_normal((NIGHTS, 1))
    values = together + 0.5 * noise()
    values[CHANGE_NIGHT : CHANGE_NIGHT + 3] += 0.05
    assert [change for change in changes(values) if change.column is not None] == []
    values[CHANGE_NIGHT:, 3] += 0.03  # less than the loss of all series in those three nights
    assert [change.column for change in changes(values) if change.column is not None] == [3]


def test_missing_nights_neither_are_nor_hide_a_loss() -> None:
    values = noise()
    values[::7, 3] = np.nan
    values[CHANGE_NIGHT:, 3] += 0.05
    values[CHANGE_NIGHT : CHANGE_NIGHT + 5, 3] = np.nan
    losses = [change for change in changes(values) if change.column == 3]
    assert [loss.worse for loss in losses] == [True]
    # One of the nights in which it is found is missing.
    nights_of_change = losses[0].first_night, losses[0].noticed_night
    assert nights_of_change == (CHANGE_NIGHT + 5, CHANGE_NIGHT + 5 + RECENT_NIGHTS)


def test_later_nights_do_not_change_an_alarm() -> None:
    values = planted(0.05)
    (change,) = changes(values)
    assert changes(values[: change.noticed_night]) == []
    assert changes(values[: change.noticed_night + 1]) == [change]


# Alarms with names, found in tables of runs.


def nights(*losses: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return results and nights of 60 usual nights, then one for each factor of `losses`.

    Only times without writers are multiplied by the factors.
    """
    usual = np.exp(0.01 * np.random.default_rng(2).standard_normal(60))
    results = pl.concat(night_tables(made_table(), [*usual.tolist(), *losses]))
    return results, nights_of(results)


def alarms(*losses: float) -> list[Alarm]:
    results, night_table = nights(*losses)
    return survey(night_table, results).alarms


def test_an_alarm_says_what_is_worse_since_when_and_by_how_much() -> None:
    (alarm,) = alarms(*[1.1] * RECENT_NIGHTS)
    assert (alarm.machine, alarm.key) == ("m", ("nightly", "melt", "off", "fom"))
    assert alarm.run == f"night-{60 + RECENT_NIGHTS - 1}"
    assert alarm.ratio == pytest.approx(1.1, abs=0.01)
    assert alarm.open
    sentence = f"melt off fom: {(alarm.ratio - 1) * 100:.1f} % worse since {alarm.since}"
    assert alarm.text == sentence
    # `120 %`, to two digits, was 1.2e+02 %.
    assert "fom: 2.20 times worse since" in replace(alarm, ratio=2.2).text
    assert alarm.case != COMMON_PART_CASE


def test_a_series_that_gains_less_than_all_others_raises_no_alarm() -> None:
    """Night by night, all series differ by 1 % together. From one on, all but one gain 3 % more."""
    rng = np.random.default_rng(5)
    values = 0.01 * rng.standard_normal((160, 1)) + 0.003 * rng.standard_normal((160, SERIES))
    values[140:] -= 0.04
    values[140:, 3] += 0.03
    assert (3, True) in [(change.column, change.worse) for change in changes(values)]
    off = pl.concat(night_tables(made_table().filter(arm="off"), [1.0] * 160))
    results = pl.concat(
        off.with_columns(case=pl.lit(f"case {column}"), fom=pl.Series(np.exp(logs)))
        for column, logs in enumerate(values.T)
    )
    assert survey(nights_of(results), results).alarms == []


def test_the_ratio_is_that_of_medians_also_of_an_odd_number_of_nights() -> None:
    """One of the 30 nights before was not measured, so the 15th of 29 is the median."""
    results, night_table = nights(*[1.1] * RECENT_NIGHTS)
    usual = np.exp(0.01 * np.random.default_rng(2).standard_normal(60))[30:]
    is_lost = (pl.col("run") == "night-45") & (pl.col("arm") == "off")
    (alarm,) = survey(night_table.filter(~is_lost), results).alarms
    assert alarm.ratio == pytest.approx(1.1 / sorted(np.delete(usual, 15))[14])
    assert alarm.ratio_now == alarm.ratio


def test_an_alarm_ends_when_values_are_back_or_the_new_level_is_usual() -> None:
    (back,) = alarms(*[1.1] * RECENT_NIGHTS, *[1.0] * RECENT_NIGHTS)
    assert not back.open
    assert back.text.endswith(", but no longer")
    (still,) = alarms(*[1.1] * (RECENT_NIGHTS + MAX_NIGHTS_BEFORE - 1))
    assert still.open
    (usual,) = alarms(*[1.1] * (RECENT_NIGHTS + MAX_NIGHTS_BEFORE))
    assert not usual.open
    assert usual.ratio_now == pytest.approx(1.1, abs=0.01)


def test_an_alarm_stays_open_while_what_is_worse_is_not_measured() -> None:
    results, night_table = nights(*[1.1] * (2 * RECENT_NIGHTS))
    first_unmeasured = night_table["night"].unique().sort()[-RECENT_NIGHTS]
    is_unmeasured = (pl.col("night") >= first_unmeasured) & (pl.col("quantity") == "fom")
    (alarm,) = survey(night_table.filter(~is_unmeasured), results).alarms
    assert alarm.open
    assert alarm.ratio_now == pytest.approx(1.1, abs=0.01)


def test_a_baseline_below_its_reference_is_open_until_it_is_measured_again() -> None:
    """Two cases are below in the second night of three. One was not measured in the third."""
    note = Note.REFERENCE(off=2.0, unit="s", reference=1.0, tolerance=0.05)
    first, second, third = night_tables(made_table(), [1.0] * 3)
    short = pl.lit(True)
    second = second.with_columns(slower_than_reference=short, notes=pl.lit(["another", note]))
    other = second.with_columns(case=pl.lit("other"))
    two = pl.concat([first, second, other])
    below = below_reference(two)
    (run,) = second["run"].unique()
    assert [(case.case, case.run, case.text) for case in below] == [
        ("melt", run, note),
        ("other", run, note),
    ]
    assert [case.case for case in below_reference(pl.concat([two, third]))] == ["other"]
    # A case that 30 runs of the campaign have not measured was removed from it.
    for runs, cases in ((29, ["other"]), (30, [])):
        later = list(night_tables(made_table(), [1.0] * (2 + runs)))[2:]
        assert [case.case for case in below_reference(pl.concat([two, *later]))] == cases
    assert survey(nights_of(two), two).is_open
    assert not survey(nights_of(first), first).is_open


def test_a_series_has_its_level_and_the_least_loss_that_it_would_show() -> None:
    results, night_table = nights()
    (off,) = (series for series in survey(night_table, results).watched if series.arm == "off")
    assert (off.machine, off.key) == ("m", ("nightly", "melt", "off", "fom"))
    assert (off.nights, off.unit) == (60, "s")
    assert off.level == pytest.approx(12.5, rel=0.01)
    assert off.spread == pytest.approx(0.01, rel=0.5)
    # It is at least LIMIT / sqrt(RECENT) spreads, by which means of independent nights vary.
    assert off.detectable is not None
    assert 3.7 / RECENT_NIGHTS**0.5 * off.spread < off.detectable < 3 * off.spread
    # After 42 nights, ten means are known. The limit is then at least 3.7 sqrt((1 + 30 / 10) / 6),
    # which is 3.02 spreads. Distances are clipped to 3, so no loss raises an alarm as yet.
    few = night_table.filter(pl.col("run").is_in([f"night-{day}" for day in range(42)]))
    (off,) = (series for series in survey(few, results).watched if series.arm == "off")
    assert (off.level, off.detectable) == (pytest.approx(12.5, rel=0.01), None)
    first = night_table.filter(pl.col("run").is_in([f"night-{day}" for day in range(9)]))
    assert all(series.level is None for series in survey(first, results).watched)


def test_a_fact_that_changed_is_named_in_spite_of_one_unusual_run() -> None:
    before = [{"kernel": "5", "mpi": "4"} for _ in range(6)]
    before[2] = {"kernel": "6"}
    after = [{"kernel": "6", "mpi": "4", "nodes": "n1"} for _ in range(3)]
    changed = changed_facts([*before, *after], 6)
    assert changed == [ChangedFact("kernel", "5", "6"), ChangedFact("nodes", None, "n1")]
    assert changed_facts([*before, *after], 0) == []


def test_changed_nodes_are_those_of_the_alarms_case() -> None:
    """Runs of two folders have the same names. In the first, another case moved to other nodes."""
    results, _ = nights(*[1.1] * RECENT_NIGHTS)
    is_changed = pl.col("run").str.extract(r"(\d+)").cast(pl.Int64) >= 60
    moved = pl.when(is_changed).then(pl.lit("n3,n2")).otherwise(pl.lit("n1"))
    other = results.with_columns(case=pl.lit("another"), fom=pl.lit(1.0), nodes=moved)
    both_cases = pl.concat([other, results.with_columns(nodes=pl.lit("n1"))])
    elsewhere = other.with_columns(machine=pl.lit("m2"), started_s=pl.col("started_s") + 1)
    everything = pl.concat([elsewhere, both_cases])
    (alarm,) = survey(nights_of(everything), everything).alarms
    assert (alarm.machine, alarm.case, alarm.changed) == ("m", "melt", [])
    itself = pl.concat([elsewhere, results.with_columns(nodes=moved)])
    (alarm,) = survey(nights_of(itself), itself).alarms
    assert alarm.changed == [ChangedFact("nodes", "n1", "n2,n3")]
