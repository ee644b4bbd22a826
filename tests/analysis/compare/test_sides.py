import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from analysis.compare.sides import (
    Comparison,
    Difference,
    DoseDifference,
    Nights,
    Quantity,
    Side,
    compare,
    compare_sides,
    dose_differences,
    nights_needed,
    other_differences,
    pair_up,
)
from analysis.report.data import RunData, load_run
from analysis.statistics.interval import Estimate
from analysis.statistics.nights import NightCorrelation
from records.errors import InputError
from records.sample import Sample, TimetableRecord
from studies.nights import NOISES, NightNoise, named
from tests.analysis.compare.nights import night
from tests.analysis.synthetic import LAMMPS, STREAM, Case, header, samples, write_run

_NODE = {
    "hostname": "n1",
    "cpu_model": "Example 8-Core",
    "kernel": "5.14",
    "governor": "performance",
    "microcode": "0x1",
    "bios": "Vendor 1.0",
    "iommu": "identity",
    "transparent_huge_pages": "always",
    "rdma": [{"name": "mlx5_0", "firmware": "20.31"}],
    "cores": 8,
}


def _changed(folder: Path, count: int = 1, **changes: object) -> RunData:
    """A night of STREAM with `count` writers, each with the changed fields, which may not fit."""
    found: list[Sample] = []
    for sample in samples(STREAM, pairs=7):
        writers = [replace(writer, **changes) for writer in sample.writers]  # type: ignore[arg-type]
        role = sample.role == "effect"
        found.append(replace(sample, writers=writers * count if role else sample.writers))
    return load_run(write_run(folder, found, header(run=folder.name)), force=True)


def differences(*sides: Side) -> list[DoseDifference]:
    return dose_differences(*(side.effects for side in sides))


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return _changed(tmp_path_factory.mktemp("usual") / "a")


@pytest.fixture(scope="module")
def on_node(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    """A night of STREAM on `_NODE`."""
    return night(tmp_path_factory.mktemp("node") / "a", STREAM, node=_NODE)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, None),
        ({"message_b": 1 << 20}, "64 KiB against 1 MiB"),
        ({"transport": "tcp"}, "shared memory against tcp"),
        ({"injector": "perftest"}, "ucx against perftest"),
        ({"direction": "read"}, "write against read"),
        ({"count": 2, "rate_alone_b_s": 4.05e9}, "1 writer against 2 writers"),
        ({"asked_b_s": 2e9}, "full rate against 2.00 GB/s requested"),
        ({"rate_alone_b_s": 8.9e9}, None),  # 9.9 % more
        ({"rate_alone_b_s": 9.0e9}, "8.10 GB/s alone against 9.00 GB/s alone"),  # 11 % more
        (
            {"message_b": 1 << 20, "transport": "tcp"},
            "64 KiB against 1 MiB; shared memory against tcp",
        ),
    ],
)
def test_doses_must_agree(
    usual: RunData, tmp_path: Path, changes: dict[str, object], text: str | None
) -> None:
    new = Side((_changed(tmp_path / "b", **changes),))  # type: ignore[arg-type]
    doses = [(dose.case, dose.arm, dose.text) for dose in differences(Side((usual,)), new)]
    assert doses == ([("stream", "on", text)] if text else [])


def test_a_timetable_of_no_writers_is_another_dose(usual: RunData, tmp_path: Path) -> None:
    found = [
        replace(each, writers=[], timetable=TimetableRecord(0, 1.0, 0.1, 0.1))
        if each.role == "effect"
        else each
        for each in samples(STREAM, pairs=7)
    ]
    none = load_run(write_run(tmp_path / "b", found, header(run="b")), force=True)
    compared = compare_sides([none], [usual])
    (dose,) = compared.doses
    assert dose.text.startswith("0 writers against 1 writer; none against 64 KiB")
    assert {row.verdict for row in compared.rows if row.arm == "on"} == {"dose differs"}


def test_nights_of_one_side_must_have_one_dose_as_well(usual: RunData, tmp_path: Path) -> None:
    old = Side((usual, _changed(tmp_path / "b", message_b=4096)))
    (dose,) = differences(old, Side((_changed(tmp_path / "c"),)))
    assert dose.text == "64 KiB, 4 KiB against 64 KiB"


def test_requested_rates_are_compared_by_the_nights_median(tmp_path: Path) -> None:
    def side(*rates: float) -> Side:
        return Side(tuple(_changed(tmp_path / f"{rate:g}", asked_b_s=rate) for rate in rates))

    old = side(1.9e9, 2e9, 2.9e9)
    assert differences(old, side(2.1e9)) == []
    assert len(differences(old, Side(old.runs[2:]))) == 1


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({}, None),
        ({"cpu_model": "Other"}, ("CPU model", "Example 8-Core", "Other")),
        ({"kernel": "6.6"}, ("kernel", "5.14", "6.6")),
        ({"governor": "powersave"}, ("governor", "performance", "powersave")),
        ({"microcode": "0x2"}, ("microcode", "0x1", "0x2")),
        ({"bios": None}, ("BIOS", "Vendor 1.0", "unknown")),
        ({"iommu": "DMA"}, ("IOMMU", "identity", "DMA")),
        ({"transparent_huge_pages": "never"}, ("transparent huge pages", "always", "never")),
        (
            {"rdma": [{"name": "mlx5_0", "firmware": "20.40"}]},
            ("NIC firmware", "mlx5_0 20.31", "mlx5_0 20.40"),
        ),
    ],
)
def test_facts_of_the_nodes_are_compared(
    on_node: RunData, tmp_path: Path, change: dict[str, object], differs: tuple[str, ...] | None
) -> None:
    new = night(tmp_path / "b", STREAM, node={**_NODE, "hostname": "n2", **change}, seed=2)
    compared = compare_sides([on_node], [new])
    assert compared.differing == ([Difference(*differs)] if differs else [])
    assert compared.unknown == ["DDIO", "hardware prefetchers", "resctrl schemata"]
    # The node's name and clocks differ between any two nights; of the NIC, all facts are listed.
    firmware = ["node RDMA mlx5_0 firmware"] if "rdma" in change else []
    assert [each.what for each in compared.others] == firmware


def test_nodes_of_several_nights_are_put_together(on_node: RunData, tmp_path: Path) -> None:
    old = [
        night(tmp_path / f"b{n}", STREAM, node={**_NODE, "kernel": kernel})
        for n, kernel in enumerate(("6.1", "5.14", "6.1"))
    ]
    found = compare_sides(old, [on_node]).differing
    assert found == [Difference("kernel", "5.14 | 6.1", "5.14")]


def test_other_facts_and_cases_of_one_side_are_listed(tmp_path: Path) -> None:
    facts = {"cores": 2, "site_": 1}
    old = night(tmp_path / "a", STREAM, facts=facts, commit="abc")
    new = night(tmp_path / "b", LAMMPS, facts={**facts, "cores": 4, "smt": True})
    compared = compare_sides([old], [new])
    assert compared.rows == []
    assert [(each.what, each.reference, each.this) for each in compared.others] == [
        ("commit", "abc", "unknown"),
        ("stream on", "measured in B/s", "absent"),
        ("cores", "2", "4"),
        ("lammps on", "absent", "measured in s"),
        ("SMT", "absent", "yes"),
    ]


def test_a_side_is_of_one_machine_and_a_run_counts_once(tmp_path: Path) -> None:
    a, b = night(tmp_path / "a", STREAM), night(tmp_path / "b", STREAM, machine="other")
    c, r = night(tmp_path / "c", STREAM, campaign="other"), night(tmp_path / "r", STREAM)
    for wrong, words in (([a, b], "same machine"), ([a, c], "same campaign"), ([a, a], "a copy")):
        with pytest.raises(InputError, match=words):
            pair_up([r], wrong)
    with pytest.raises(InputError, match="a copy is not another night"):
        pair_up([a], [a])
    assert pair_up([a], [b])[1].machine == "other"


def test_the_document_is_json_and_complete(tmp_path: Path) -> None:
    old = [night(tmp_path / f"a{n}", STREAM, seed=n) for n in range(3)]
    compared = compare_sides(old, [night(tmp_path / "b", STREAM, seed=9)])
    document = json.loads(json.dumps(compared.document()))
    names = {"machine": "synthetic machine", "campaign": "synthetic"}
    assert document["reference"] == {**names, "runs": ["a0", "a1", "a2"]}
    assert document["worse"] == 0
    assert len(document["comparisons"]) == 3
    for row in document["comparisons"]:
        assert len(row["reference"]["nights"]) == 3
        assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
    assert compared.too_few_nights
    assert compared.summary.startswith(compared.too_few_nights)
    assert document["night_correlation"]["at_most"] == 0.95


@pytest.mark.parametrize(("sha256", "differences"), [("0" * 64, 0), ("1" * 64, 1)])
def test_what_every_run_has_of_its_own_is_no_difference(
    on_node: RunData, tmp_path: Path, sha256: str, differences: int
) -> None:
    new = Side((night(tmp_path / "b", STREAM, seed=2, node=_NODE, program_sha256=sha256),))
    found = [each for each in other_differences(Side((on_node,)), new) if each.what != "digest"]
    assert [(each.reference, each.this) for each in found] == [("0" * 64, sha256)] * differences


#: Rates in 1/s, as XSBench, AMG and UMT report them.
LOOKUPS = replace(STREAM, name="xsbench", unit="1/s", base=2.5e6)
#: Nights that do not follow one another in time.
INDEPENDENT = NightCorrelation(0.0, 0.0)


def _by_metric(rows: list[Comparison]) -> dict[str, Comparison]:
    return {row.metric: row for row in rows}


def _quantity(metric: str = "slowdown", better: str = "lower", case: str = "a") -> Quantity:
    return Quantity(case, "off" if metric == "off" else "on", metric, "s", better)  # type: ignore[arg-type]


def _compared(
    old: Nights,
    new: Nights,
    other_dose: Collection[tuple[str, str]] = (),
    correlated: NightCorrelation = INDEPENDENT,
) -> list[Comparison]:
    return compare(old, new, other_dose, correlated)


def _estimates(*values: float) -> list[Estimate]:
    return [Estimate(v, v * 0.99, v * 1.01, 0.95) for v in values]


@pytest.mark.parametrize(
    "noise",
    [
        *NOISES[::2],
        *(pytest.param(noise, marks=pytest.mark.slow) for noise in NOISES[1::2]),
    ],
    ids=lambda noise: noise.name,
)
def test_unchanged_nights_name_a_change_in_at_most_five_percent(noise: NightNoise) -> None:
    assert named(noise, (5, 5), 7, 200) <= 0.05


#: Nights a side, change of one case of one -> share found, as docs/evidence.md has it.
_POWER = {(7, 0.05): 0.72, (10, 0.03): 0.84, (10, 0.05): 0.965}


@pytest.mark.parametrize(("count", "change"), _POWER)
def test_planted_changes_are_found_as_often_as_documented(count: int, change: float) -> None:
    found = named(NOISES[0], (count, count), 1, 300, change)
    # Four standard errors of 300 trials.
    share = _POWER[count, change]
    assert found == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 300))


@pytest.mark.parametrize(("rows", "nights"), [(1, 6), (3, 7), (21, 10), (25, 10), (26, 11)])
def test_so_many_rows_need_so_many_nights(rows: int, nights: int) -> None:
    """Two levels: rows x 2 / 2^nights is at most 0.05. 25 x 2 / 2^10 is 0.049, 26 x 2 is 0.051."""
    assert nights_needed(rows) == nights
    quantities = [_quantity(case=str(n)) for n in range(rows)]
    values = np.exp(np.random.default_rng(6).normal(0, 0.01, nights))
    for total in (nights - 1, nights):
        sides = (values[: total // 2], values[total // 2 : total])
        old, new = ({each: _estimates(*side.tolist()) for each in quantities} for side in sides)
        judged = {row.verdict != "too few nights" for row in _compared(old, new)}
        assert judged == {total == nights}


@pytest.mark.parametrize("rows", [1, 2])
def test_the_least_change_that_is_named_is_that_of_the_smallest_p(rows: int) -> None:
    """Of five nights a side with a standard deviation of sqrt(2.5) % the error is 1 %: Student's t
    of eight degrees of freedom, at 5 % over all rows.
    """
    values = _estimates(*np.exp([-0.02, -0.01, 0.0, 0.01, 0.02]).tolist())
    side = {_quantity(case=str(n)): values for n in range(rows)}
    least = np.expm1(stats.t.ppf(1 - 0.025 / rows, 8) * 0.01)
    found = [row.least_named for row in _compared(side, side)]
    assert found == [pytest.approx(least)] * rows


def test_rows_are_judged_together() -> None:
    """t of the one row is 3.8 with 8 degrees of freedom: printed tables have 3.833 for 0.005."""
    logs = np.array([-0.02, -0.01, 0, 0.01, 0.02])
    old, new = (_estimates(*np.exp(logs + more).tolist()) for more in (0, 0.038))
    (alone,) = _compared({_quantity(): old}, {_quantity(): new})
    assert 0.005 < alone.p < 0.006
    assert alone.verdict == "worse"
    others = {_quantity(case=str(n)): old for n in range(9)}
    rows = _compared({_quantity(): old, **others}, {_quantity(): new, **others})
    assert [row.verdict for row in rows] == ["no change shown"] * 10
    first = next(row for row in rows if row.case == "a")
    assert first.p_adjusted == pytest.approx(10 * alone.p)
    assert (first.ratio.low, first.ratio.high) == (alone.ratio.low, alone.ratio.high)


def test_the_least_change_named_is_just_named() -> None:
    old = _estimates(1.0, 1.01, 1.02)
    (row,) = _compared({_quantity(): old}, {_quantity(): old})
    for factor, verdict in ((0.999, "no change shown"), (1.001, "worse")):
        moved = [each.value * (1 + row.least_named * factor) for each in old]
        assert (
            _compared({_quantity(): old}, {_quantity(): _estimates(*moved)})[0].verdict == verdict
        )


@pytest.mark.parametrize(
    ("metric", "better", "verdict"),
    [
        ("off", "lower", "worse"),
        ("off", "higher", "better"),
        ("on", "higher", "better"),
        # A slowdown is a ratio of times, whatever the figure of merit is.
        ("slowdown", "higher", "worse"),
    ],
)
def test_a_rate_is_better_when_it_rises(metric: str, better: str, verdict: str) -> None:
    quantity = _quantity(metric, better)
    old, new = _estimates(1.0, 1.001, 1.002), _estimates(1.5, 1.501, 1.502)
    (row,) = _compared({quantity: old}, {quantity: new})
    assert row.verdict == verdict
    assert row.ratio.value == pytest.approx(1.5 if verdict == "worse" else 1 / 1.5, rel=0.01)
    assert row.reference.nights == [1.0, 1.001, 1.002]
    # With one night a side as well.
    (two,) = _compared({quantity: old[:1]}, {quantity: new[:1]})
    assert two.ratio.value == pytest.approx(1.5 if verdict == "worse" else 1 / 1.5)


def test_two_nights_differ_and_no_more() -> None:
    (row,) = _compared({_quantity(): _estimates(1.0)}, {_quantity(): _estimates(1.5)})
    assert (row.verdict, row.p, row.least_named) == ("too few nights", None, None)
    assert row.text == "two nights differ by +50.0 %"
    # 1 % on either side of both: sqrt(2) % together.
    assert row.ratio.high == pytest.approx(1.5 * 1.01 ** (2**0.5), rel=1e-3)


def test_one_new_night_is_not_judged_however_many_there_were() -> None:
    old = _estimates(*(1 + n / 1000 for n in range(10)))
    (row,) = _compared({_quantity(): old}, {_quantity(): _estimates(1.5)})
    assert (row.verdict, row.text, row.p) == ("too few nights", "too few nights", None)
    assert row.ratio.low > 1


def test_correlated_nights_widen_all_intervals_of_a_row() -> None:
    old, new = _estimates(1.0, 1.01, 1.02), _estimates(1.0, 1.02, 1.03)
    plain, wide = (
        _compared({_quantity(): old}, {_quantity(): new}, (), NightCorrelation(None, r))[0]
        for r in (0.0, 0.6)
    )
    assert plain.widened == 1
    assert wide.ratio.value == plain.ratio.value
    narrow, wider = (np.log(row.ratio.low / row.ratio.value) for row in (plain, wide))
    assert wider / narrow == pytest.approx(wide.widened)
    assert wide.reference.low < plain.reference.low


def test_rows_of_another_dose_are_not_judged_and_weigh_on_no_other() -> None:
    sides = [
        {_quantity(m): _estimates(*(v * f for v in (1.0, 1.01, 1.02))) for m in ("off", "slowdown")}
        for f in (1.0, 1.05)
    ]
    off, slowdown = _compared(sides[0], sides[1], {("a", "on")})
    assert (slowdown.verdict, slowdown.p_adjusted) == ("dose differs", None)
    assert slowdown.ratio.value == pytest.approx(1.05)
    assert (off.verdict, off.p_adjusted) == ("worse", off.p)


def test_a_side_without_a_night_of_six_pairs_has_no_ratio(tmp_path: Path) -> None:
    sides = [
        Side((night(tmp_path / name, STREAM, pairs=pairs),))
        for name, pairs in (("a", 12), ("b", 5))
    ]
    for row in _compared(sides[0].nights(), sides[1].nights()):
        assert (row.verdict, row.ratio, row.this) == ("too few pairs", None, None)


@pytest.mark.parametrize("case", [STREAM, LAMMPS])
def test_a_slower_machine_is_slower_in_time_and_not_in_slowdown(tmp_path: Path, case: Case) -> None:
    """Half as much again: the ratio is one of times, whatever the unit is."""
    slower = case.base / 1.5 if case.better == "higher" else case.base * 1.5
    old = [night(tmp_path / f"a{n}", case, seed=n) for n in range(4)]
    new = [night(tmp_path / f"b{n}", replace(case, base=slower), seed=n + 9) for n in range(4)]
    rows = _by_metric(compare_sides(old, new).rows)
    assert {metric: row.verdict for metric, row in rows.items()} == {
        "off": "worse",
        "slowdown": "no change shown",
        "on": "worse",
    }
    assert rows["off"].ratio.value == pytest.approx(1.5, abs=0.05)


def test_effects_that_share_a_baseline_compare_it_once(tmp_path: Path) -> None:
    case = replace(STREAM, effects={**STREAM.effects, "on@rate=25%": 1.1, "mine": 1.2})
    rows = compare_sides([night(tmp_path / "a", case)], [night(tmp_path / "b", case)]).rows
    effects = [(arm, m) for arm in ("mine", "on", "on@rate=25%") for m in ("on", "slowdown")]
    assert sorted((row.arm, row.metric) for row in rows) == sorted([("off", "off"), *effects])


def test_figures_with_another_unit_or_direction_are_not_compared(tmp_path: Path) -> None:
    theirs = replace(LOOKUPS, name="theirs")
    other = replace(LAMMPS, name="theirs", unit="1/s")
    compared = compare_sides([night(tmp_path / "a", theirs)], [night(tmp_path / "b", other)])
    assert compared.rows == []
