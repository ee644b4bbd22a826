import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from analysis.compare.mismatches import Mismatch, setting_mismatches, write_mismatches
from analysis.compare.sides import (
    ComparedFact,
    Comparison,
    NightsByQuantity,
    Quantity,
    Side,
    compare_quantities,
    compare_sides,
    correlation_of_sides,
    nights_needed,
    sides_of,
)
from analysis.history.between_nights import NightCorrelation
from analysis.report.data import RunData
from analysis.statistics.interval import Estimate
from records.errors import InputError
from records.notes import Note
from tests.analysis.compare.nights import night
from tests.analysis.synthetic import LAMMPS, STREAM, Case
from tests.studies import nights as study
from tests.studies.nights import NOISES, NightNoise, named


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return night(tmp_path_factory.mktemp("stream") / "a", STREAM)


def renamed(run: RunData, name: str, provenance: Any = None, **changes: object) -> RunData:
    """Return the run with another name, provenance and header."""
    header = replace(run.header, run=name, **changes)  # type: ignore[arg-type]
    return replace(run, header=header, provenance={"made": provenance} if provenance else {})


# Differences that make sides not comparable.

_WRITES = {
    "writers": 1,
    "message_b": 65536,
    "transport": "tcp",
    "injector": "ucx",
    "direction": "write",
    "asked_b_s": None,
    "writer_rate_alone_b_s": 8.1e9,
}


def effects_table(*nights: dict[str, Any]) -> pl.DataFrame:
    """Return the effects of one side, with a row for each night: `_WRITES` with its changes."""
    rows = [{"case": "stream", "arm": "on", "runs": 7, **_WRITES, **changes} for changes in nights]
    rates = dict.fromkeys(("asked_b_s", "writer_rate_alone_b_s"), pl.Float64)
    return pl.DataFrame(rows, schema_overrides=rates)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ([{}], [{}], None),
        ([{}], [{"message_b": 1 << 20}], "64 KiB -> 1 MiB"),
        ([{}], [{"transport": "shared memory"}], "tcp -> shared memory"),
        ([{}], [{"injector": "perftest"}], "ucx -> perftest"),
        ([{}], [{"direction": "read"}], "write -> read"),
        ([{}], [{"writers": 2}], "1 writer -> 2 writers"),
        ([{"writers": 0, "message_b": None}], [{}], "0 writers -> 1 writer; none -> 64"),
        ([{}], [{"asked_b_s": 2e9}], "full rate -> 2.00 GB/s requested"),
        ([{}], [{"writer_rate_alone_b_s": 8.9e9}], None),  # 9.9 % more
        ([{}], [{"writer_rate_alone_b_s": 9e9}], "8.10 GB/s alone -> 9.00"),  # 11 % more
        ([{}], [{"message_b": 1 << 20, "transport": "rc"}], "64 KiB -> 1 MiB; tcp -> rc"),
        # Nights of one side must agree, too. Of requested rates, only medians must agree.
        ([{}, {"message_b": 4096}], [{}], "64 KiB, 4 KiB -> 64 KiB"),
        ([{"asked_b_s": rate} for rate in (1.9e9, 2e9, 2.9e9)], [{"asked_b_s": 2.1e9}], None),
        ([{"asked_b_s": 2.9e9}], [{"asked_b_s": 2.1e9}], "2.90 GB/s requested -> 2.10"),
        ([{"runs": 0, "writers": 3}], [{}], None),
        # A night without a complete pair has no uncontended rate; the other nights have one.
        ([{}], [{"writer_rate_alone_b_s": None}, {}], None),
        ([{}], [{"writer_rate_alone_b_s": None}], "8.10 GB/s alone -> - alone"),
    ],
)
def test_writes_must_agree(old: list[dict], new: list[dict], text: str | None) -> None:
    mismatches = write_mismatches(effects_table(*old), effects_table(*new))
    assert [(mismatch.case, mismatch.arm) for mismatch in mismatches] == (
        [("stream", "on")] if text else []
    )
    assert all(mismatch.text.startswith(text) for mismatch in mismatches)


def with_entries(run: RunData, *entries: dict[str, Any], **changes: object) -> RunData:
    """Return the run as one of a campaign with these workloads."""
    return renamed(run, "other", resolved={"campaign": {"workloads": entries}}, **changes)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ({"array_most": "128MiB"}, {"array_most": "128MiB"}, None),
        ({"array_most": "128MiB"}, {"array_most": "32MiB"}, "array_most: 128MiB -> 32MiB"),
        ({}, {"iterations": 20}, "iterations: default -> 20"),
    ],
)
def test_the_application_must_be_set_alike(
    stream: RunData, old: dict, new: dict, text: str | None
) -> None:
    """Only settings of the workload with whose name the case begins are compared."""
    other = {"check": "lammps", "set": {"steps": 1}}
    sides = [
        with_entries(stream, {"check": "stream", "set": old}),
        with_entries(stream, other, {"check": "victim.py:stream", "set": new}),
    ]
    expected = [Mismatch("stream", None, text)] if text else []
    assert setting_mismatches(sides[:1], sides[1:]) == expected
    # Runs without a record of their settings are compared by the campaign's text.
    unkept = renamed(stream, "old", campaign_text="another")
    assert setting_mismatches([stream], sides[1:]) == []
    (whole,) = setting_mismatches([unkept], [stream])
    assert whole.text.startswith("campaign file: ")


@pytest.mark.parametrize(
    ("case", "workload", "text"),
    [
        (LAMMPS, None, "length: default -> steps times 2"),
        # A command's time is the mean of its repetitions, and a rate does not grow with the length.
        (LAMMPS, "command", None),
        (STREAM, None, None),
    ],
)
def test_times_of_lengthened_runs_are_compared_with_runs_of_the_same_length(
    tmp_path: Path, case: Case, workload: str | None, text: str | None
) -> None:
    lengthened = replace(case, notes=[Note.LENGTHENED(variable="steps", times=2)])
    old, new = night(tmp_path / "a", case), night(tmp_path / "b", lengthened)
    if workload:
        old, new = (
            replace(run, samples=run.samples.with_columns(workload=pl.lit(workload)))
            for run in (old, new)
        )
    expected = [Mismatch(case.name, None, text)] if text else []
    assert setting_mismatches([old], [new]) == expected
    assert setting_mismatches([new], [new]) == []


def test_an_unfinished_run_is_named_and_few_pairs_leave_no_row_to_compare(
    stream: RunData, tmp_path: Path
) -> None:
    few = renamed(night(tmp_path / "few", STREAM, pairs=3), "few", finished_s=None)
    comparison = compare_sides([stream], [few])
    assert comparison.warnings == ["few: unfinished"]
    assert {row.verdict for row in comparison.rows} == {"too few pairs"}
    assert comparison.summary == "No row can be judged: too few pairs, or not comparable."
    # Different settings are reported, even for a row with few pairs.
    small = {"check": "stream", "set": {"array_most": "32MiB"}}
    otherwise = compare_sides(
        [with_entries(stream, {"check": "stream", "set": {}})],
        [with_entries(few, small, started_s=9e8)],
    )
    assert {row.verdict for row in otherwise.rows} == {"not comparable"}


def test_rows_that_are_not_comparable_have_no_ratio_and_are_reported_first(
    stream: RunData, tmp_path: Path
) -> None:
    """Another machine has five times the rate, with other arrays and another campaign."""
    fast = night(tmp_path / "fast", replace(STREAM, base=5.28 * STREAM.base))
    small = {"check": "stream", "set": {"array_most": "32MiB"}}
    here = with_entries(stream, {"check": "stream", "set": {}}, campaign="quick")
    mycluster = with_entries(fast, small, campaign="tiny", machine="mycluster", started_s=9e8)
    comparison = compare_sides([here], [mycluster])
    assert comparison.warnings[:3] == [
        "different machines: synthetic machine -> mycluster",
        "different campaigns: quick -> tiny",
        "stream: array_most: default -> 32MiB: not comparable",
    ]
    assert {(row.verdict, row.text, row.ratio) for row in comparison.rows} == {
        ("not comparable", "not comparable", None)
    }
    assert (comparison.worse_count, comparison.summary) == (
        0,
        "No row can be judged: too few pairs, or not comparable.",
    )
    # With the same arrays, baselines are comparable. The time on the faster machine is 1 / 5.28.
    alike = compare_sides([with_entries(stream, small)], [mycluster])
    off = next(row for row in alike.rows if row.metric == "off")
    assert off.ratio.value == pytest.approx(1 / 5.28, rel=0.02)
    assert off.text == f"two nights: {off.ratio.value:.2f} times as long"


# Facts.

_NODE = {
    "hostname": "n1",
    "cpu_model": "Example 8-Core",
    "kernel": "5.14",
    "bios": "Vendor 1.0",
    "rdma": [{"name": "mlx5_0", "firmware": "20.31"}],
}


def on_nodes(*nodes: dict[str, Any], **record: Any) -> dict[str, Any]:
    named = {f"host{number}": node for number, node in enumerate(nodes)}
    return {"nodes": named, "clock_offsets_s": {"a": 1e-6}, "seed": 1, **record}


@pytest.mark.parametrize(
    ("change", "differing"),
    [
        ({"hostname": "n2"}, None),
        ({"kernel": "6.6"}, ("kernel", "5.14", "6.6")),
        ({"bios": None}, ("BIOS", "Vendor 1.0", "unknown")),
        (
            {"rdma": [{"name": "mlx5_0", "firmware": "20.40"}]},
            ("NIC firmware", "mlx5_0 20.31", "mlx5_0 20.40"),
        ),
    ],
)
def test_facts_of_the_nodes_are_compared(
    stream: RunData, change: dict[str, Any], differing: tuple[str, str, str] | None
) -> None:
    old = renamed(stream, "old", on_nodes(_NODE))
    new = renamed(stream, "new", on_nodes({**_NODE, **change}, seed=2))
    compared = compare_sides([old], [new])
    assert compared.differing_facts == ([ComparedFact(*differing)] if differing else [])
    # Seeds, clocks and names of hosts differ between any two runs.
    assert compared.other_differences == []
    unknown = {"DDIO", "hardware prefetchers", "resctrl schemata", "governor", "microcode"}
    unknown |= {"IOMMU", "transparent huge pages", "NUMA balancing"}
    assert set(compared.unknown_facts) == unknown


def test_the_memory_of_the_machines_files_is_compared_with_the_nodes(stream: RunData) -> None:
    """Settings of the firmware or the frequency may differ. A file may leave out a fact."""
    memory = {"channels": 16, "channel_rate_b_s": 25.6e9, "ganged": False, "page_policy": None}
    changed = {**memory, "channel_rate_b_s": 21.3e9, "ganged": True, "page_policy": "open"}
    old, new = (
        renamed(stream, name, facts={"site": {"name": "m", "memory": site_memory}})
        for name, site_memory in (("old", memory), ("new", changed))
    )
    compared = compare_sides([old], [new])
    assert compared.differing_facts == [
        ComparedFact("memory: channel rate", "25.60 GB/s", "21.30 GB/s"),
        ComparedFact("memory: ganged", "no", "yes"),
        ComparedFact("memory: page policy", "unknown", "open"),
    ]
    assert compared.other_differences == []
    # If one side has no file, neither list has the memory of the other side twice.
    alone = compare_sides([old], [stream])
    assert "memory: channels" in [fact.what for fact in alone.differing_facts]
    assert not [
        fact.what for fact in alone.other_differences if fact.what.startswith("site memory")
    ]


def test_nodes_of_several_nights_are_put_together(stream: RunData) -> None:
    kernels = ("6.1", "5.14", "6.1")
    old = [
        renamed(stream, f"b{number}", on_nodes({**_NODE, "kernel": kernel}))
        for number, kernel in enumerate(kernels)
    ]
    (differing,) = compare_sides(old, [renamed(stream, "c", on_nodes(_NODE))]).differing_facts
    assert differing == ComparedFact("kernel", "5.14 | 6.1", "5.14")


def test_other_facts_and_cases_of_one_side_are_listed(stream: RunData, tmp_path: Path) -> None:
    facts = {"cores": 2, "site_": 1}
    programs = [
        {
            "program": {
                "name": "a",
                "path": f"/{digit}",
                "sha256": digit,
                "images": {"/a.sif": digit * 2},
            }
        }
        for digit in "01"
    ]
    old = renamed(stream, "old", programs[0], facts=facts, commit="abc")
    facts = {**facts, "cores": 4, "smt": True}
    new = renamed(night(tmp_path / "b", LAMMPS), "new", programs[1], facts=facts)
    compared = compare_sides([old], [new])
    assert compared.rows == []
    assert [(fact.what, fact.reference, fact.this) for fact in compared.other_differences] == [
        ("commit", "abc", "unknown"),
        ("cores", "2", "4"),
        ("a sha256", "0", "1"),
        ("a images", "/a.sif 00", "/a.sif 11"),
        ("stream on", "measured in B/s", "absent"),
        ("SMT", "absent", "yes"),
        ("lammps on", "absent", "measured in s"),
    ]


def test_a_side_is_of_one_machine_and_a_run_counts_once(stream: RunData) -> None:
    other, elsewhere = renamed(stream, "b", machine="other"), renamed(stream, "c", campaign="other")
    for reference, newer, words in (
        ([stream, other], [elsewhere], "same machine"),
        ([stream], [other, renamed(stream, "d")], "same machine"),
        ([other], [stream, elsewhere], "same campaign"),
        ([other], [stream, stream], "a copy is not another night"),
        ([stream], [stream], "a copy is not another night"),
    ):
        with pytest.raises(InputError, match=words):
            sides_of(reference, newer)
    assert sides_of([stream], [other])[1].header.machine == "other"


def test_nights_of_one_name_in_several_folders_all_count(stream: RunData) -> None:
    """The history has 31 nights of the name, one of which is compared."""
    nights = [renamed(stream, "night", started_s=float(day)) for day in range(3)]
    assert {len(values) for values in Side(tuple(nights)).nights().values()} == {3}
    header = stream.header
    history = pl.DataFrame(
        {
            "machine": header.machine,
            "campaign": header.campaign,
            "run": "night",
            "started_s": [float(day) for day in range(31)],
            "case": "stream",
            "arm": "on",
            "quantity": "slowdown",
            "value": [1.0 + day % 3 for day in range(31)],
        }
    )
    compared = compare_sides([renamed(stream, "old", started_s=99.0)], nights[:1], history)
    assert compared.correlation.history_nights == 30


# Rows.

#: The correlation of independent nights.
INDEPENDENT = NightCorrelation(0.0, 0.0)


def quantity_of(metric: str = "slowdown", better: str = "lower", case: str = "a") -> Quantity:
    return Quantity(case, "off" if metric == "off" else "on", metric, "s", better)  # type: ignore[arg-type]


def compared(
    old: NightsByQuantity, new: NightsByQuantity, *mismatches: Mismatch
) -> list[Comparison]:
    return compare_quantities(old, new, mismatches, INDEPENDENT)


def estimates(*values: float) -> list[Estimate]:
    return [Estimate(v, v * 0.99, v * 1.01) for v in values]


@pytest.mark.parametrize(
    "noise",
    [*NOISES[::2], *(pytest.param(noise, marks=pytest.mark.slow) for noise in NOISES[1::2])],
    ids=lambda noise: noise.name,
)
def test_unchanged_nights_name_a_change_in_at_most_five_percent(noise: NightNoise) -> None:
    unchanged, _ = named(noise, (5, 5), 7, 100)
    assert unchanged <= 0.05


@pytest.mark.parametrize("past", [0, 40])
def test_the_study_of_nights_computes_what_the_program_does(past: int) -> None:
    rng = np.random.default_rng(3)
    old, new, before = (study.made_logs(NOISES[2], rng, 3, nights, 2) for nights in (7, 8, past))
    largest = study.at_most(old, new, before)
    p = study.p_values(old, new, largest)
    alternating = study.p_values_in_turn(old, new[..., :7])
    for draw in range(3):
        sides = [study.as_nights(logs[draw]) for logs in (old, new, new[..., :7])]
        history = [np.exp(before[draw]).tolist()] if past else []
        correlated = correlation_of_sides(*sides[:2], *history)
        assert correlated.at_most == largest[draw]
        rows = compare_quantities(*sides[:2], (), correlated)
        assert [row.p for row in rows] == pytest.approx(p[draw].tolist())
        assert [row.p_adjusted <= 0.05 for row in rows] == study.shown(p)[draw].tolist()
        rows = compare_quantities(sides[0], sides[2], (), correlated, alternating_nights=7)
        assert [row.p for row in rows] == pytest.approx(alternating[draw].tolist())


#: (Nights on each side, change) -> share of changes found with one case, by docs/evidence.md.
_POWER = {(7, 0.05): 0.72, (10, 0.03): 0.84}


@pytest.mark.parametrize(("count", "change"), _POWER)
def test_planted_changes_are_found_as_often_as_documented(count: int, change: float) -> None:
    share = _POWER[count, change]
    # Four standard errors of 200 trials.
    error = 4 * np.sqrt(share * (1 - share) / 200)
    _, named_share = named(NOISES[0], (count, count), 1, 200, change=change)
    assert named_share == pytest.approx(share, abs=error)


@pytest.mark.parametrize(("rows", "nights"), [(1, 6), (3, 7), (21, 10), (25, 10), (26, 11)])
def test_so_many_rows_need_so_many_nights(rows: int, nights: int) -> None:
    """rows x 2 / 2^nights must be at most 0.05. For example, 25 x 2 / 2^10 is 0.049."""
    assert nights_needed(rows) == nights
    quantities = [quantity_of(case=str(n)) for n in range(rows)]
    values = np.exp(np.random.default_rng(6).normal(0, 0.01, nights))
    for total in (nights - 1, nights):
        sides = (values[: total // 2], values[total // 2 : total])
        old, new = (
            {quantity: estimates(*side.tolist()) for quantity in quantities} for side in sides
        )
        judged = {row.verdict != "too few nights" for row in compared(old, new)}
        assert judged == {total == nights}


@pytest.mark.parametrize("rows", [1, 2])
def test_the_least_change_that_is_named_is_that_of_the_smallest_p(rows: int) -> None:
    """With five nights on each side and a standard deviation of sqrt(2.5) %, the error is 1 %.

    The least change follows from Student's t of eight degrees of freedom, at 5 % over all rows. A
    slightly larger change is named, a slightly smaller one is not.
    """
    values = np.exp([-0.02, -0.01, 0.0, 0.01, 0.02])
    side = {quantity_of(case=str(n)): estimates(*values.tolist()) for n in range(rows)}
    least = np.expm1(stats.t.ppf(1 - 0.025 / rows, 8) * 0.01)
    assert [row.least_named for row in compared(side, side)] == [pytest.approx(least)] * rows
    # Five differences of neighbours have the same error, with four degrees of freedom.
    in_turn = np.expm1(stats.t.ppf(1 - 0.025 / rows, 4) * 0.01)
    assert [row.least_named_in_turn for row in compared(side, side)] == [
        pytest.approx(in_turn)
    ] * rows
    for factor, verdict in ((0.999, "no change shown"), (1.001, "worse")):
        moved = {
            **side,
            quantity_of(case="0"): estimates(*(values * (1 + least * factor)).tolist()),
        }
        assert compared(side, moved)[0].verdict == verdict


def test_rows_are_judged_together() -> None:
    """Student's t of one row is 3.8, with 8 degrees of freedom.

    Printed tables have 3.833 for p = 0.005.
    """
    logs = np.array([-0.02, -0.01, 0, 0.01, 0.02])
    old, new = (estimates(*np.exp(logs + more).tolist()) for more in (0, 0.038))
    (alone,) = compared({quantity_of(): old}, {quantity_of(): new})
    assert 0.005 < alone.p < 0.006
    assert alone.verdict == "worse"
    others = {quantity_of(case=str(n)): old for n in range(9)}
    rows = compared({quantity_of(): old, **others}, {quantity_of(): new, **others})
    assert [row.verdict for row in rows] == ["no change shown"] * 10
    first = next(row for row in rows if row.case == "a")
    assert (first.p_adjusted, first.ratio) == (pytest.approx(10 * alone.p), alone.ratio)


@pytest.mark.parametrize(
    ("metric", "better", "verdict"),
    [
        ("off", "lower", "worse"),
        ("off", "higher", "better"),
        ("on", "higher", "better"),
        # A slowdown is always a ratio of times, also if the figure of merit is a rate.
        ("slowdown", "higher", "worse"),
    ],
)
def test_a_rate_is_better_when_it_rises(metric: str, better: str, verdict: str) -> None:
    quantity = quantity_of(metric, better)
    old, new = estimates(1.0, 1.001, 1.002), estimates(1.5, 1.501, 1.502)
    (row,) = compared({quantity: old}, {quantity: new})
    assert row.verdict == verdict
    assert row.ratio.value == pytest.approx(1.5 if verdict == "worse" else 1 / 1.5, rel=0.01)
    assert row.reference_nights == [1.0, 1.001, 1.002]
    # The same holds with one night on each side.
    (two,) = compared({quantity: old[:1]}, {quantity: new[:1]})
    assert two.ratio.value == pytest.approx(1.5 if verdict == "worse" else 1 / 1.5)


def test_the_correlation_of_nights_is_that_of_the_machines_history() -> None:
    """Seven nights exclude no correlation; sixty independent nights exclude large ones."""
    rng = np.random.default_rng(7)
    old, new = (
        {quantity_of(): estimates(*np.exp(rng.normal(0, 0.01, 7)).tolist())} for _ in range(2)
    )
    past = [np.exp(rng.normal(0, 0.01, 60)).tolist() for _ in range(3)]
    known = correlation_of_sides(old, new, past)
    assert (known.history_nights, known.at_most <= 0.3) == (60, True)
    # The larger correlation of both machines is used. If one has no history, only the compared
    # nights are used.
    rising = [np.exp(0.001 * np.arange(60)).tolist()]
    assert correlation_of_sides(old, new, past, rising).at_most == 0.95
    few = [values[:29] for values in past]
    assert correlation_of_sides(old, new, past, few) == correlation_of_sides(old, new)
    assert correlation_of_sides(old, new).history_nights == 0


def test_nights_in_turn_are_compared_with_their_neighbours(stream: RunData) -> None:
    runs = [renamed(stream, f"n{day}", started_s=float(day)) for day in range(6)]
    assert compare_sides(runs[::2], runs[1::2]).alternating_nights == 3
    assert compare_sides(runs[:3], runs[3:]).alternating_nights == 0
    assert compare_sides(runs[:1], runs[1:3]).alternating_nights == 0
    # A drift is almost the same for neighbours. Here, nights of one side differ more than the
    # sides.
    drift = np.arange(6) * 0.01
    old, new = (
        estimates(*np.exp(10 * drift[start::2] + 0.02 * start).tolist()) for start in (0, 1)
    )
    (row,) = compare_quantities(
        {quantity_of(): old},
        {quantity_of(): new},
        (),
        correlation_of_sides({}, {}),
        alternating_nights=3,
    )
    assert row.ratio is not None
    assert row.ratio.value == pytest.approx(np.exp(0.12))
    assert row.widened == 1
    assert row.least_named is not None
    assert row.least_named_in_turn is None


def test_two_nights_may_differ_but_one_night_on_a_side_gives_no_verdict() -> None:
    (row,) = compared({quantity_of(): estimates(1.0)}, {quantity_of(): estimates(1.5)})
    assert (row.verdict, row.p, row.least_named) == ("too few nights", None, None)
    assert row.text == "two nights differ by +50.0 %"
    (row,) = compared({quantity_of(): estimates(1.0)}, {quantity_of(): estimates(1.01)})
    assert row.text == "two nights: no difference shown (+1.0 %)"  # sqrt(2) % either way
    (row,) = compared({quantity_of(): estimates(1.0)}, {quantity_of(): estimates(1.5)})
    # Each interval reaches 1 % to both sides, so that of the ratio reaches sqrt(2) %.
    assert row.ratio.high == pytest.approx(1.5 * 1.01 ** (2**0.5), rel=1e-3)
    many = estimates(*(1 + n / 1000 for n in range(10)))
    (row,) = compared({quantity_of(): many}, {quantity_of(): estimates(1.5)})
    assert (row.verdict, row.text, row.p) == ("too few nights", "too few nights", None)
    assert row.ratio.low > 1
    (none,) = compared({quantity_of(): many}, {quantity_of(): []})
    assert (none.verdict, none.ratio, none.this) == ("too few pairs", None, None)


def test_correlated_nights_widen_all_intervals_of_a_row() -> None:
    old, new = estimates(1.0, 1.01, 1.02), estimates(1.0, 1.02, 1.03)
    plain, wide = (
        compare_quantities(
            {quantity_of(): old}, {quantity_of(): new}, (), NightCorrelation(None, r)
        )[0]
        for r in (0.0, 0.6)
    )
    assert plain.widened == 1
    assert wide.ratio.value == plain.ratio.value
    narrow, wider = (np.log(row.ratio.low / row.ratio.value) for row in (plain, wide))
    assert wider / narrow == pytest.approx(wide.widened)
    assert wide.reference.low < plain.reference.low


def test_rows_with_different_writes_are_not_judged_and_do_not_count_for_other_rows() -> None:
    sides = [
        {
            quantity_of(m): estimates(*(v * f for v in (1.0, 1.01, 1.02)))
            for m in ("off", "slowdown")
        }
        for f in (1.0, 1.05)
    ]
    off, slowdown = compared(sides[0], sides[1], Mismatch("a", "on", "1 writer against 2"))
    assert (slowdown.verdict, slowdown.p_adjusted) == ("not comparable", None)
    assert (slowdown.ratio, slowdown.this_nights[0]) == (None, pytest.approx(1.05))
    assert (off.verdict, off.p_adjusted) == ("worse", off.p)


# Comparisons of runs.


@pytest.mark.parametrize("case", [STREAM, LAMMPS])
def test_a_slower_machine_is_slower_in_time_and_not_in_slowdown(tmp_path: Path, case: Case) -> None:
    """The machine takes 1.5 times as long. The ratio is one of times, also for rates."""
    slower = case.base / 1.5 if case.better == "higher" else case.base * 1.5
    old = [night(tmp_path / f"a{n}", case, seed=n) for n in range(4)]
    moved = replace(case, base=slower)
    new = [night(tmp_path / f"b{n}", moved, seed=n + 9) for n in range(4)]
    comparison = compare_sides(old, new)
    verdicts = {row.metric: row.verdict for row in comparison.rows}
    assert verdicts == {"off": "worse", "slowdown": "no change shown", "on": "worse"}
    off = next(row for row in comparison.rows if row.metric == "off")
    assert off.ratio.value == pytest.approx(1.5, abs=0.05)
    document = comparison.document()
    assert document["reference"] == {
        "machine": "synthetic machine", "campaign": "synthetic", "runs": ["a0", "a1", "a2", "a3"]
    }  # fmt: skip
    assert document["worse"] == 2
    assert document["night_correlation"].keys() == {"estimate", "at_most", "history_nights"}
    assert (
        "2 of 3 rows changed by more than nights differ. With 4 nights of the reference"
        in comparison.summary
    )
    assert (
        " If as many nights alternated between the sides, 4 of each, a row would have to"
        in comparison.summary
    )
    for known, offered in ((0, "30"), (30, "more than 30"), (200, None)):
        night_correlation = NightCorrelation(0.5, 0.7, history_nights=known)
        summary = replace(comparison, correlation=night_correlation).summary
        nights = re.search(r"A history of (.+) other nights of this campaign may show", summary)
        assert (nights and nights[1]) == offered
        assert " If as many nights alternated between the sides, 4 of each" in summary
    one = compare_sides(old[:1], new[:2])
    assert one.summary.startswith(one.unjudged_text)
    assert "may correlate by up to 0.95, the largest correlation that is considered" in one.summary


def test_cases_that_only_one_side_measured_are_named(stream: RunData, tmp_path: Path) -> None:
    more = replace(STREAM, effects={**STREAM.effects, "mine": 1.2})
    whole = night(tmp_path / "whole", more, LAMMPS)
    here, not_here = compare_sides([stream], [whole]), compare_sides([whole], [stream])
    assert list(map(sorted, here.unmatched)) == [[], ["lammps", "stream mine"]]
    assert not_here.unmatched == here.unmatched[::-1]
    assert [compared.warnings[-1].partition(": ")[0] for compared in (here, not_here)] == [
        "only this side measured",
        "only the reference measured",
    ]
    assert compare_sides([stream], [renamed(stream, "again")]).warnings == []


def test_effects_that_share_a_baseline_compare_it_once(tmp_path: Path) -> None:
    case = replace(STREAM, effects={**STREAM.effects, "on@rate=25%": 1.1, "mine": 1.2})
    run = night(tmp_path / "a", case)
    rows = compare_sides([run], [renamed(run, "b")]).rows
    effects = [(arm, m) for arm in ("mine", "on", "on@rate=25%") for m in ("on", "slowdown")]
    assert sorted((row.arm, row.metric) for row in rows) == sorted([("off", "off"), *effects])


def test_figures_with_another_unit_are_not_compared_and_too_few_pairs_give_none(
    stream: RunData, tmp_path: Path
) -> None:
    other = night(tmp_path / "b", replace(LAMMPS, name="stream"))
    apart = compare_sides([stream], [other])
    assert (apart.rows, apart.unmatched) == ([], (["stream in B/s"], ["stream in s"]))
    few = night(tmp_path / "c", STREAM, pairs=5)
    assert set(map(len, Side((few,)).nights().values())) == {0}
    assert {row.verdict for row in compare_sides([stream], [few]).rows} == {"too few pairs"}
