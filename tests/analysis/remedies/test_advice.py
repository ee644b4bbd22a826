"""Advice on made runs: what it says, and that it says no more than the intervals carry.

Pairs that would decide, and their node-hours, by hand.
"""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.effects.verdict import Verdict
from analysis.questions.question import columns_of
from analysis.remedies.advice import Advice, Assumed, advise, sentences, where
from analysis.remedies.net import Remedy
from analysis.remedies.next_pairs import NextPairs, next_allocations, next_pairs, pair_node_hours
from analysis.remedies.standing import Standing, costs_nothing
from analysis.report.data import load_run
from analysis.statistics.interval import Estimate
from analysis.statistics.location import p_value
from records.checkout import ROOT
from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.synthetic import LAMMPS, Case, crossed, samples, write_run

#: A core that costs 5 % and takes the loss from 1.5 to 1.1 times: a net of 1.364 all the time.
TIMES = {"off": (1.0, 1.05), "on": (1.5, 1.1), "aa": (1.0, 1.05)}
CORE = crossed(
    Case(
        *("lammps", "s", "lower", 10.0),
        {name: time for name, (time, _) in TIMES.items() if name != "off"}
        | {f"{name}@reserved_cores=1": time for name, (_, time) in TIMES.items()},
        noise=0.005,
        transport="InfiniBand",
        origin="origin-0",
    ),
    {"reserved_cores": 0},
)


def advice(folder: Path, case: Case, *assumed: Assumed, pairs: int = 4, blocks: int = 3) -> Advice:
    made = samples(case, blocks=blocks, pairs=pairs)
    return advise([load_run(write_run(folder / "run", made))], *assumed)


def test_the_right_remedy_is_recommended(tmp_path: Path) -> None:
    advised = advice(tmp_path, CORE, Assumed(traffic_share=1.0))
    (row,) = advised.remedies
    assert row["standing"] is Standing.BETTER
    assert row["recommended"]
    assert row["net_low"] <= 1.5 / 1.1 <= row["net_high"]
    (loss,) = advised.losses
    assert loss["lost_low"] <= 1 - 1 / 1.5 <= loss["lost_high"]
    lost, recommended, undecided = sentences(advised)
    assert "33." in lost
    assert recommended.startswith("Recommended: reserved_cores=1 for lammps under on, 36.")
    # (1 - s) (1 - 1 / 1.05) = s (1 / 1.1 - 1 / 1.5): a share of 16.4 %.
    assert "from 16 % [" in recommended
    assert undecided.startswith("Nothing is open in 1 case")


def test_without_a_share_of_traffic_the_break_even_is_all_that_is_said(tmp_path: Path) -> None:
    found = advice(tmp_path, CORE)
    assert not found.best
    lost, recommended, _ = sentences(found)
    assert lost.startswith("With traffic all the time, as in the runs, on (7.")
    assert "reserved_cores=1 for lammps under on, from 16 % [" in recommended


def test_one_allocation_recommends_nothing_and_asks_for_two_more(tmp_path: Path) -> None:
    found = advice(tmp_path, CORE, Assumed(traffic_share=1.0), pairs=12, blocks=1)
    (row,) = found.remedies
    assert (row["standing"], row["recommended"]) == (Standing.HERE, False)
    assert (row["next"].pairs, row["next"].allocations) == (24, 2)
    assert "next 24 more pairs" in sentences(found)[2]


def test_a_stated_traffic_and_size_give_node_hours_a_month(tmp_path: Path) -> None:
    """1 % of the time, a third of it lost, on 90 nodes of 730.5 h: 219 node-hours."""
    found = advice(tmp_path, CORE, Assumed(90, 0.01))
    (loss,) = found.losses
    low, high = (loss[f"node_hours_month_{end}"] for end in ("low", "high"))
    assert low <= 90 * 730.5 * 0.01 / 3 <= high
    # Price 5 % in 99 % of the time against 27 % won in 1 %.
    (row,) = found.remedies
    assert row["standing"] is Standing.WORSE
    assert not found.best
    lost, recommended, _ = sentences(found)
    assert "With traffic 1 % of the time (assumed)" in lost
    assert "node-hours a month if 90 nodes (assumed) run it" in lost
    assert recommended.startswith("No remedy is recommended. Shown to cost more than it gains: res")


def test_emulated_traffic_recommends_nothing(tmp_path: Path) -> None:
    found = advice(tmp_path, replace(CORE, transport="soft-RoCE"))
    assert found.best == []
    lost, recommended, _ = sentences(found)
    assert "[emulated]" in lost
    assert "no remedy is recommended for RDMA hardware" in recommended
    assert found.next is None


def test_noise_is_not_decided_and_names_the_next_pairs(tmp_path: Path) -> None:
    """Nothing is lost, and nothing won, at a noise of 5 %."""
    times = {**CORE.effects, "on": 1.0, "on@reserved_cores=1": 1.0}
    found = advice(tmp_path, replace(CORE, noise=0.05, effects=times), pairs=8, blocks=1)
    (row,) = found.remedies
    assert row["standing"] is Standing.OPEN
    assert found.next == row
    assert found.losses[0]["lost_low"] <= 0 <= found.losses[0]["lost_high"]
    lost, _, undecided = sentences(found)
    assert lost.endswith("no loss is shown.")
    assert undecided.startswith("Not decided: 1 in 1 case ")
    assert f"next {row['next'].pairs} more pairs (" in undecided


def test_a_run_without_remedies_has_none(tmp_path: Path) -> None:
    found = advice(tmp_path, LAMMPS)
    assert found.remedies == []
    assert sentences(found)[1].startswith("No remedy was tried")
    empty = advise([load_run(write_run(tmp_path / "empty" / "run", []))])
    assert sentences(empty)[0].startswith("No loss can be stated")


def _keys(found: object) -> set[str]:
    if isinstance(found, dict):
        names = (re.sub("_(low|high)$", "", key) for key in found)
        return {*names, *(key for each in found.values() for key in _keys(each))}
    return {key for each in found for key in _keys(each)} if isinstance(found, list) else set()


def test_the_document_and_its_documented_keys(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run", swept(sweep(noise=0.05), pairs=8)))
    document = json.loads(json.dumps(advise([run], Assumed(10, 0.5)).as_dict()))
    assert document["schema"] == 3
    assert document["assumed"] == {"nodes": 10, "traffic_share": 0.5}
    assert len(document["sentences"]) == 3
    row = next(each for each in document["remedies"] if each["remedy"] == "reserved_cores=1")
    assert row["what"] == "cores left free by the application"
    assert row["net_low"] <= row["net"] <= row["net_high"]
    assert [each["reserved"] for each in document["throttling"]] == [1, None]
    throttled = [each for each in document["remedies"] if each["factor"] == "rate"]
    assert not any(each["recommended"] for each in throttled)
    assert document["next"]
    text = (ROOT / "docs/remedies.md").read_text()
    assert {key for key in _keys(document) if f"`{key}`" not in text} == set()


@pytest.mark.parametrize(
    ("ends", "unit", "text"),
    [
        ((4e9, 3.6e9, 4.4e9), "B/s", "4.00 GB/s [3.60 GB/s, 4.40 GB/s]"),
        ((None, 7.2e9, None), "B/s", "above 7.20 GB/s"),
        ((None, None, 1e9), "B/s", "below 1.00 GB/s"),
        ((None, None, None), "B/s", "not decided"),
        ((0.18, 0.15, 0.2), "%", "18 % [15 %, 20 %]"),
        ((None, 1.0, None), "%", "never"),
        ((None, None, 0.0), "%", "always"),
    ],
)
def test_crossings_as_text(ends: tuple, unit: str, text: str) -> None:
    assert where(dict(zip(("at", "at_low", "at_high"), ends, strict=True)), "at", unit) == text


def _loss(
    case: str, value: float, low: float, high: float, verdict: Verdict = Verdict.CONTENTION
) -> dict:
    lost = Estimate(value, low, high, 0.95)
    hours = lost.mapped(lambda share: share * 1e4)
    names = {"case": case, "traffic": "on", "rate_b_s": 2e9, "verdict": verdict, "emulated": []}
    return {**names, **columns_of("lost", lost), **columns_of("node_hours_month", hours)}


@pytest.mark.parametrize(
    ("losses", "nodes", "text"),
    [
        # The largest of them, of stable baselines.
        (
            [("a", 0.1, 0.05, 0.15), ("b", 0.9, 0.8, 0.95), ("c", 0.2, 0.1, 0.3)],
            None,
            "b 90.0 % [80.0, 95.0] of its node-hours, the most of 3 measured cases of traffic.",
        ),
        (
            [("a", 0.1, 0.05, 0.15)],
            1,
            "a 10.0 % [5.0, 15.0] of its node-hours, 1,000 [500, 1,500] node-hours a month if"
            " 1 node (assumed) run it.",
        ),
        *(
            ([("a", *of)], None, f"a {shown} of its node-hours; {why}, so no loss is shown.")
            for of, shown, why in (
                ((0.1, 0.0, 0.15), "10.0 % [0.0, 15.0]", "the interval holds 0"),
                ((-0.1, -0.15, 0.0), "-10.0 % [-15.0, 0.0]", "the interval holds 0"),
                ((-0.1, -0.15, -0.05), "-10.0 % [-15.0, -5.0]", "it gains"),
            )
        ),
    ],
)
def test_the_largest_loss_is_told(losses: list[tuple], nodes: int | None, text: str) -> None:
    unstable = _loss("u", 0.99, 0.98, 1.0, verdict=Verdict.BASELINE_UNSTABLE)
    found = [unstable, *(_loss(*each) for each in losses)]
    said = sentences(Advice("m", [], Assumed(nodes), found, [], [], []))[0]
    assert said == f"With traffic all the time, as in the runs, on (2.00 GB/s) costs {text}"
    said = sentences(Advice("m", [], Assumed(), found[:1], [], [], []))[0]
    assert said.startswith("No loss can be stated")


def _row(standing: Standing, **changes: object) -> Remedy:
    """A reserved core with this standing."""
    row = {"case": "melt", "traffic": "on", "remedy": "reserved_cores=1", "emulated": []}
    row |= columns_of("net", Estimate(0.9, 0.8, 0.95, 0.95)) | {"price": 1.1, "recommended": False}
    return {**row, "standing": standing, "next": None, **changes}


NONE = "No remedy is recommended."
WORSE = "reserved_cores=1 for melt under on, -10.0 % [-20.0, -5.0] more work"
COSTS = f"{NONE} Shown to cost more than it gains: {'; '.join([WORSE] * 3)}"
NEXT = NextPairs(24, 12.0, None, 0.2, 2)


@pytest.mark.parametrize(
    ("rows", "recommended", "undecided"),
    [
        (
            [_row(Standing.WORSE)] * 3,
            f"{COSTS}.",
            "Nothing is open in 3 cases of a remedy under traffic.",
        ),
        (
            [_row(Standing.WORSE)] * 5,
            f"{COSTS}; and 2 more.",
            "Nothing is open in 5 cases of a remedy under traffic.",
        ),
        (
            [_row(Standing.SLOWER_WRITES), _row(Standing.HERE, next=NEXT)],
            f"{NONE} Helps the application by delaying the writes: reserved_cores=1.",
            "Not decided: 1 in 2 cases of a remedy under traffic; next 24 more pairs (12"
            " node-hours) in 2 other allocations, to see whether reserved_cores=1 for melt under on"
            " does the same there.",
        ),
        (
            [
                _row(Standing.UNSTABLE),
                _row(Standing.OPEN, next=NextPairs(5, 10.0, 0.9, 0.1)),
                _row(Standing.FEW, next=NextPairs(1, 1.0, None, None)),
            ],
            NONE,
            "Not decided: 3 in 3 cases of a remedy under traffic; next 5 more pairs (10 node-hours)"
            " would show a net difference of 90.0 % of reserved_cores=1 for melt under on.",
        ),
        (
            [_row(Standing.FEW, next=NextPairs(1, 1.0, None, None))],
            NONE,
            "Not decided: 1 in 1 case of a remedy under traffic; next 1 more pair (1.0 node-hours)"
            " for a first interval of reserved_cores=1 for melt under on.",
        ),
        (
            [
                _row(s, emulated=["soft-RoCE"])
                for s in (Standing.BETTER, Standing.BETTER, Standing.WORSE)
            ],
            "The traffic was emulated, so no remedy is recommended for RDMA hardware (2 of 3 were"
            " better here).",
            "Nothing is open in 3 cases of a remedy under traffic.",
        ),
    ],
)
def test_what_is_recommended_and_open(rows: list[Remedy], recommended: str, undecided: str) -> None:
    found = sentences(Advice("m", [], Assumed(), [], rows, [], []))
    assert found[1:] == [recommended, undecided]


def test_what_costs_nothing_and_what_is_worth_most() -> None:
    highs = (0.0, None, 1.0)
    free = [costs_nothing({"price": 1.1, "break_even_high": high}) for high in highs]
    assert free == [True, False, False]
    assert NextPairs(1, 2.0, None, None).worth == NextPairs(1, 0.0, None, 0.5).worth == 0
    assert NextPairs(1, 2.0, None, 0.5).worth == 0.25


def test_pairs_by_hand() -> None:
    """An interval that just holds 1: (1.96 + 1.2816)^2 / 1.96^2 = 2.735 times as many pairs."""
    row = _measured(10, (1.03, 1.0, 1.03**2))
    found = next_pairs(row, 1, 0.5)
    assert found.pairs == 28 - 10
    assert found.node_hours == pytest.approx(9.0)
    assert found.finds == pytest.approx(0.03)
    assert found.at_stake == pytest.approx(1 - 1 / 1.03**2)
    assert found.worth == pytest.approx(found.at_stake / 9.0)
    # Ten remedies: z of 0.0025 is 2.807 instead of 1.96.
    strict = next_pairs(row, 10, 0.5)
    assert strict.pairs == np.ceil(10 * ((2.807 + 1.2816) / 1.96) ** 2) - 10
    # Near 1 the margin takes the estimate's place.
    near = next_pairs(_measured(10, (1.001, 0.98, 1.0225)), 1, 1.0)
    assert near.finds == pytest.approx(0.02)


def _measured(pairs: int, net: tuple[float | None, ...] = (None, None, None)) -> Remedy:
    ends = dict(zip(("net", "net_low", "net_high"), net, strict=True))
    return {"n": pairs, "margin": 0.02, **ends}


def test_as_many_pairs_as_holm_needs() -> None:
    """Six pairs pass 0.05, ten remedies need 2 / 2^n <= 0.005: nine."""
    assert next_pairs(_measured(4), 1, 1.0).pairs == 2
    assert next_pairs(_measured(4), 10, 1.0).pairs == 5
    assert p_value(np.linspace(1, 1.5, 9)) <= 0.005 < p_value(np.linspace(1, 1.5, 8))
    assert next_pairs(_measured(6), 1, 1.0).pairs == 1
    assert next_pairs(_measured(6, (1.2, 1.19, 1.21)), 10, 1.0).pairs == 3


@pytest.mark.parametrize(
    ("allocations", "more", "pairs"), [(1, 2, 24), (2, 1, 6), (3, 1, 4), (5, 1, 3)]
)
def test_allocations_that_are_missing(allocations: int, more: int, pairs: int) -> None:
    """12 pairs in so many allocations: up to three of them, then one more, with as many each."""
    row = _measured(12, (1.2, 1.1, 1.25)) | {"allocations": allocations}
    found = next_allocations(row, 0.5)
    assert (found.allocations, found.pairs, found.node_hours) == (more, pairs, pairs / 2)
    assert found.finds is None
    assert found.at_stake == pytest.approx(0.2)


@pytest.mark.parametrize("pairs", [5, 1])
def test_node_hours_of_a_pair(tmp_path: Path, pairs: int) -> None:
    """Two nodes, four runs a pair of 18 s and 2 s of lead-in, but for the first of all."""
    case = replace(LAMMPS, effects={"on": 1.0, "aa": 1.0, "spin": 1.0}, origin="origin-0")
    made = [
        replace(each, elapsed_s=18.0, lead_in_s=2.0, origin_nodes=["origin-0"])
        for each in samples(case, pairs=pairs)
        if each.pair >= 0
    ]
    clock = made[0].start_s
    made = [replace(each, start_s=clock + 25 * place) for place, each in enumerate(made)]
    made[0] = replace(made[0], lead_in_s=None)
    run = load_run(write_run(tmp_path / "run", made), force=True)
    assert pair_node_hours(run.samples, "lammps") == pytest.approx((160 - 4 / pairs) / 3600)
