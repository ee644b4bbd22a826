"""Alarms of made nights, their confirmation, and the watch over each series.

What changed at the same time, and the worst node.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from analysis.history.alarms import (
    REPEATS,
    Acknowledgement,
    Alarm,
    ChangedFact,
    acknowledge,
    acknowledged,
    changed_facts,
    confirmation,
    confirmed,
    facts_of,
    save,
    survey,
    worst_node,
)
from analysis.history.store import alarmed_runs
from tests.analysis.history.nights_table import START, night_rows, nights_table, runs_table

_NO_RUNS = runs_table({})


def steady(nights: int, seed: int = 27) -> np.ndarray:
    """Times with a night-to-night spread of 1 %; with seed 27 there is no long run of bad ones."""
    return 100 * np.exp(0.01 * np.random.default_rng(seed).standard_normal(nights))


def day(iso: str) -> int:
    return (np.datetime64(iso) - np.datetime64(START)).astype(int)


def with_others(values: np.ndarray, **fields: object) -> list[dict[str, object]]:
    """The series among steady ones, as a machine has them."""
    others = [
        row
        for seed in range(1, 6)
        for row in night_rows(steady(len(values), seed).tolist(), case=f"other{seed}")
    ]
    return [*night_rows(values.tolist(), **fields), *others]


def stream_alarms(rows: list[dict[str, object]], runs: pl.DataFrame = _NO_RUNS) -> list[Alarm]:
    return [alarm for alarm in survey(nights_table(*rows), runs).alarms if alarm.case == "stream"]


def slower(nights: int, since: int = 100) -> np.ndarray:
    """Steady times, and 5 % more from one night on."""
    values = steady(nights)
    values[since:] *= 1.05
    return values


def test_a_loss_of_five_percent_is_one_alarm_within_three_nights() -> None:
    (alarm,) = stream_alarms(with_others(slower(112)))
    assert day(alarm.since) == 100
    assert 101 <= day(alarm.night) <= 102
    assert alarm.run == f"run{day(alarm.night)}"
    assert alarm.state == "suspected"
    assert alarm.ratio == pytest.approx(1.05, abs=0.02)
    assert 1 < alarm.ratio_low < 1.05 < alarm.ratio_high
    assert alarm.reference == pytest.approx(100, rel=0.005)
    assert {f"run{n:03}" for n in range(50, 100)} | {alarm.run} <= set(alarm.runs)


def test_a_loss_is_relative_to_the_level_of_the_nodes_of_a_night() -> None:
    """Every third night runs on n2, which is 3 % slower."""
    values = steady(112) * np.where(np.arange(112) % 3 == 0, 1.03, 1.0)
    values[100:] *= 1.05
    rows = with_others(values)
    for each in rows[:112:3]:
        each["nodes"] = "n2"
    (alarm,) = stream_alarms(rows)
    level = 103 if alarm.nodes == ["n2"] else 100
    assert alarm.reference == pytest.approx(level, rel=0.008)
    apart = np.log(values / np.where(np.arange(112) % 3 == 0, 103, 100))
    change = apart[100 : day(alarm.night) + 1].mean() - apart[40:100].mean()
    assert alarm.ratio == pytest.approx(np.exp(change), abs=0.004)
    assert day(alarm.since) == 100


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_an_alarm_ends_with_five_nights_in_a_row_nearer_to_the_level_of_their_nodes(
    better: str,
) -> None:
    """Every third night runs on n2, which is 3 % slower: more than half of the loss of 5 %.

    It is back from night 105 on, but for night 107; the fifth good night in a row is night 112.
    """
    is_other = np.arange(130) % 3 == 0
    values = steady(130) * np.where(is_other, 1.03, 1.0)
    values[[100, 101, 102, 103, 104, 107]] *= 1.05
    found = []
    for nights in (112, 113):
        times = values[:nights]
        rows = with_others(times if better == "lower" else 1 / times, better=better)
        for each in rows[:nights:3]:
            each["nodes"] = "n2"
        (alarm,) = stream_alarms(rows)
        found.append(alarm.back)
    assert found == [None, (START + timedelta(108)).isoformat()]


@pytest.mark.parametrize(("better", "worse_by"), [("lower", 1.06), ("higher", 1 / 1.06)])
def test_only_the_worse_direction_is_an_alarm(better: str, worse_by: float) -> None:
    for factor, count in ((worse_by, 1), (1 / worse_by, 0)):
        values = steady(112)
        values[100:] *= factor
        found = survey(nights_table(*with_others(values, better=better)), _NO_RUNS)
        assert sum(alarm.case == "stream" for alarm in found.alarms) == count
        (watch,) = (each for each in found.watches if each.case == "stream")
        assert [change.worse for change in watch.changes] == [bool(count)]


def test_after_an_improvement_its_loss_is_an_alarm() -> None:
    values = steady(200)
    values[80:160] /= 1.05
    (alarm,) = stream_alarms(with_others(values))
    assert day(alarm.since) == 160


def test_a_single_bad_night_is_no_alarm() -> None:
    values = steady(112)
    values[100:102] = (1000.0, 100.0)  # and a usual one
    assert stream_alarms(with_others(values)) == []


def test_a_later_look_finds_the_same_alarms() -> None:
    rows = with_others(slower(150))
    early = [row for row in rows if row["night"] <= START + np.timedelta64(110, "D").astype(object)]
    first = survey(nights_table(*early), _NO_RUNS).alarms
    later = survey(nights_table(*rows), _NO_RUNS).alarms
    assert first
    assert [a for a in later if day(a.night) <= 110] == first


def test_runs_of_another_machine_with_the_same_names_have_their_own_facts() -> None:
    kernels = {
        f"run{n:03}": json.dumps({"kernel": "6.1" if n > 99 else "5.14"}) for n in range(112)
    }
    other = runs_table(dict.fromkeys(kernels, '{"kernel": "4.18"}')).with_columns(
        machine=pl.lit("other")
    )
    (alarm,) = stream_alarms(with_others(slower(112)), pl.concat([runs_table(kernels), other]))
    assert alarm.changed == [ChangedFact("kernel", "5.14", "6.1")]


def test_nights_without_a_run_are_not_counted_as_good_or_bad() -> None:
    values: list[float | None] = steady(130).tolist()
    for index in range(100, 130):
        values[index] = None if index % 2 else values[index] * 1.05
    rows = [*night_rows(values), *with_others(steady(130))[130:]]
    (alarm,) = stream_alarms(rows)
    assert day(alarm.since) == 100
    assert day(alarm.night) in (102, 104)  # the second or third measured night


def test_a_watch_says_what_would_be_found() -> None:
    found = survey(nights_table(*with_others(steady(112))), _NO_RUNS)
    (watch,) = (each for each in found.watches if each.case == "stream")
    assert (watch.nights, watch.changes) == (112, [])
    assert (watch.level, watch.drift) == pytest.approx((100, 1), rel=0.005)
    assert watch.spread == pytest.approx(0.01, rel=0.25)
    # Between two spreads, which theory needs at least, and four.
    assert 0.018 <= watch.detectable <= 0.045


def test_too_few_nights_are_not_watched() -> None:
    values = steady(25)
    values[20:] *= 2
    found = survey(nights_table(*night_rows(values.tolist())), _NO_RUNS)
    assert found.alarms == []
    assert (found.watches[0].level, found.watches[0].detectable) == (None, None)
    assert survey(nights_table(), _NO_RUNS).watches == []


#: Times of five runs of one night, all 5 % longer.
LOST = [105.0, 104.5, 105.5, 104.8, 105.2]


def again(night: int, values: list[float], **fields: object) -> list[dict[str, object]]:
    """Runs of one night."""
    row = night_rows([*[None] * night, 1.0], **fields)[0]
    return [
        {**row, "run": f"again{n}", "started_s": row["started_s"] + 1 + n, "value": value}
        for n, value in enumerate(values)
    ]


@pytest.fixture(scope="module")
def suspected() -> Alarm:
    (alarm,) = stream_alarms(with_others(slower(103)))
    return alarm


def test_a_confirmation_asks_for_the_same_case_on_the_same_nodes(suspected) -> None:
    series = {"machine": "hpc", "campaign": "nightly", "case": "stream"}
    assert confirmation(suspected) == {**series, "nodes": ["n1"], "repeats": REPEATS}


@pytest.mark.parametrize(
    ("values", "fields", "state"),
    [
        (LOST, {}, "confirmed"),
        ([100.0, 100.4, 99.6, 100.2, 99.8], {}, "dismissed"),
        # Mean 103 with a deviation of 4.5: Student's interval is 97.6 to 108.7.
        ([97.0, 101.0, 103.0, 107.0, 108.0], {}, "dismissed"),
        # Half of the loss: surely worse than 100, but not by what the alarm says.
        ([102.0, 102.1, 101.9, 102.0, 102.0], {}, "dismissed"),
        ([103.5, 103.6, 103.4, 103.5, 103.5], {}, "confirmed"),
        ([105.0, 104.5, 105.5, 104.8], {}, "suspected"),
        ([95.0, 95.5, 94.5, 95.2, 94.8], {"better": "higher"}, "confirmed"),
        ([98.0, 98.1, 97.9, 98.0, 98.0], {"better": "higher"}, "dismissed"),
        # Runs of something else confirm nothing.
        (LOST, {"nodes": "n2"}, "suspected"),
        (LOST, {"case": "lammps"}, "suspected"),
        (LOST, {"machine": "other"}, "suspected"),
    ],
)
def test_confirmed_only_if_the_whole_interval_is_beyond_half_of_the_loss(
    suspected, values, fields, state
) -> None:
    judged = confirmed(suspected, nights_table(*again(104, values, **fields)))
    assert judged.state == state
    assert judged.confirmed_by == ([f"again{n}" for n in range(5)] if state != "suspected" else [])


def test_a_confirmation_in_the_same_night_counts() -> None:
    rows = with_others(slower(103))
    (alarm,) = stream_alarms([*rows, *again(102, LOST)])
    assert (day(alarm.night), alarm.run, alarm.state) == (102, "run102", "confirmed")


@pytest.mark.parametrize(("hours", "state"), [(4.4, "confirmed"), (4.6, "suspected")])
def test_a_confirmation_may_cross_midnight_and_takes_18_hours(suspected, hours, state) -> None:
    rows = again(104, LOST)
    for n, row in enumerate(rows):
        row["started_s"] += n * hours * 3600
        row["night"] += timedelta(n // 2)
    assert confirmed(suspected, nights_table(*rows)).state == state


def test_alarms_are_files_that_say_what_must_stay(suspected, tmp_path: Path) -> None:
    (path,) = save(tmp_path, [suspected])
    assert save(tmp_path, [suspected]) == [path] == [*(tmp_path / "alarms").iterdir()]
    record = json.loads(path.read_text())
    assert (record["schema"], record["machine"], record["state"]) == (1, "hpc", "suspected")
    assert (record["runs"], record["ratio"]) == (suspected.runs, suspected.ratio)


SEEN = Acknowledgement("jane", "new kernel", 1.75e9)


def test_an_acknowledgement_survives_the_next_nights(suspected, tmp_path: Path) -> None:
    acknowledge(tmp_path, [suspected], SEEN)
    (path,) = save(tmp_path, [replace(suspected, state="confirmed", acknowledged=SEEN)])
    assert "acknowledged" not in json.loads(path.read_text())
    other = replace(suspected, arm="off")
    seen = replace(suspected, acknowledged=SEEN)
    assert acknowledged(tmp_path, [suspected, other], pytest.fail) == [seen, other]
    # `store prune` reads all alarms of the folder.
    assert alarmed_runs(tmp_path) == {("hpc", run) for run in suspected.runs}


def link(path: Path) -> None:
    path.symlink_to(path.rename(path.parents[1] / "elsewhere"))


@pytest.mark.parametrize(
    "spoil",
    [
        *(
            partial(Path.write_text, data=text)
            for text in (
                *("{", "[" * 100_000, "{}", '{"by": "jane", "reason": "", "at_s": 1e99}'),
                json.dumps(asdict(SEEN) | {"by": "x" * 257}),
            )
        ),
        # What others may have written.
        lambda path: path.chmod(0o777),
        lambda path: path.parent.chmod(0o777),
        link,
    ],
)
def test_an_acknowledgement_that_cannot_be_used_is_named_and_none(
    suspected, tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    acknowledge(tmp_path, [suspected], SEEN)
    (path,) = (tmp_path / "alarms").iterdir()
    spoil(path)
    lines: list[str] = []
    assert acknowledged(tmp_path, [suspected], lines.append) == [suspected]
    assert [str(path.parent) in line for line in lines] == [True]


def made(**facts: str) -> dict[str, str]:
    return {"kernel": "5.14", "mpi": "4.1", **facts}


def test_usual_facts_before_and_since_are_compared() -> None:
    """One odd run on either side hides nothing and shows nothing; of equals the latest counts."""
    facts = {name: made(firmware="20.1") for name in "abcdef"}
    facts["b"]["mpi"] = "5.0"
    facts |= {name: made(kernel="6.1") for name in "xyz"}
    facts["x"] |= {"firmware": "20.1", "mpi": "5.0"}
    kernel, firmware = ChangedFact("kernel", "5.14", "6.1"), ChangedFact("firmware", "20.1", None)
    assert changed_facts(facts, list("abcdef"), list("xyz")) == [firmware, kernel]
    assert changed_facts(facts, list("abcdef"), list("xy")) == [firmware, kernel]
    assert changed_facts(facts, list("abcdef"), ["x"])[0].name == "kernel"
    assert changed_facts(facts, ["a"], ["unknown"]) == []


def test_facts_are_those_of_the_run_and_its_nodes() -> None:
    runs = runs_table({"a": json.dumps(made()), "b": ""}, nodes="n1,n2")
    assert facts_of(runs) == {"a": made(nodes="n1,n2"), "b": {"nodes": "n1,n2"}}


def test_the_worst_node_against_the_median_of_the_others() -> None:
    worse = [0.0, 0.02, 0.04, 0.30, 0.32]
    nodes = [["n1"], ["n2"], ["n3"], ["n4"], ["n4"]]
    found = worst_node(worse, nodes)
    # n4: median 0.31; the others' median 0.02: exp(0.29) = 1.3364.
    assert (found.node, found.nights) == ("n4", 2)
    assert found.ratio == pytest.approx(1.33643, abs=1e-5)
    # Nights on the same nodes have none.
    assert worst_node([0.0, 1.0], [["n1", "n2"], ["n1", "n2"]]) is None
    assert worst_node([0.0, 1.0], [[], []]) is None
