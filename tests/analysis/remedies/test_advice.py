"""Tests advice on remedies for made runs. It must not claim more than the intervals show."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.effects.result import Verdict
from analysis.questions.question import columns_of
from analysis.remedies.advice import Advice, advise, crossing_text, sentences
from analysis.remedies.net import Remedy
from analysis.remedies.standing import Standing, costs_nothing
from analysis.report.data import RunData
from analysis.statistics.interval import Estimate
from records.checkout import ROOT
from records.sample import Sample
from tests.analysis.remedies.made_core import CORE
from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.synthetic import LAMMPS, crossed, loaded_run, samples


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    """Return a run with four pairs in each of three allocations."""
    runs = samples(CORE, blocks=3, pairs=4)
    return loaded_run(tmp_path_factory.mktemp("core") / "run", runs)


def test_the_right_remedy_is_recommended(core: RunData) -> None:
    advised = advise([core], 1.0)
    (row,) = advised.remedies
    assert row["standing"] is Standing.BETTER
    assert row["recommended"]
    assert row["net_low"] <= 1.5 / 1.1 <= row["net_high"]
    lost, recommended, undecided = sentences(advised)
    assert lost.startswith("With traffic 100 % of the time (assumed), on (7.")
    assert "costs lammps on average 49." in lost  # the mean is about 1.5 times the baseline
    assert recommended.startswith("Recommended: reserved_cores=1 for lammps under on, 36.")
    # The break-even share s is 16.4 %: (1 - s) (1 - 1 / 1.05) = s (1 / 1.1 - 1 / 1.5).
    assert "from 16 % [" in recommended
    assert undecided.startswith("Nothing is open in 1 case")


@pytest.mark.parametrize("share", [0.01, 1.0])
def test_the_loss_is_proportional_to_the_time_with_traffic(core: RunData, share: float) -> None:
    """Under writes, work takes 1.5 times as long, so a third of the time is lost."""
    (loss,) = advise([core], share).losses
    assert loss["lost_low"] <= share / 3 <= loss["lost_high"]


def test_without_a_share_of_traffic_the_advice_has_the_break_even(core: RunData) -> None:
    lost, recommended, _ = sentences(advise([core]))
    assert lost.startswith("With traffic all the time, as in the runs, on (7.")
    assert "reserved_cores=1 for lammps under on, from 16 % [" in recommended


def test_a_run_without_remedies_gets_no_recommendation(tmp_path: Path) -> None:
    plain = loaded_run(tmp_path / "plain" / "run", samples(LAMMPS, blocks=3, pairs=4))
    advice = advise([plain])
    assert advice.remedies == []
    assert sentences(advice)[1:] == [
        "No remedy was tried, so none is recommended.",
        "A campaign with a remedy, such as campaigns/throttling.yaml, would show its price.",
    ]
    empty = advise([loaded_run(tmp_path / "empty" / "run", [])])
    assert sentences(empty)[0].startswith("No loss can be stated")


@pytest.mark.parametrize(
    ("names", "times"),
    [
        (["lammps@nodes={}"], {name.replace("on", "daly"): t for name, t in CORE.effects.items()}),
        # The levels of a remedy have jobs, and so cases, of their own.
        ([f"lammps@nodes={{}},core_spec={level}" for level in (0, 1)], {"daly": 1.5, "aa": 1.0}),
    ],
)
def test_a_scale_without_a_writer_has_neither_loss_nor_remedy(
    names: list[str], times: dict[str, float], tmp_path: Path
) -> None:
    """On 4 nodes, the timetable has no writer; on 32 nodes, it has one."""

    def without_writers(sample: Sample) -> Sample:
        timetable = replace(sample.timetable, writers=0) if sample.timetable else None
        return replace(sample, writers=[], timetable=timetable)

    case = crossed(replace(CORE, effects=times), {"reserved_cores": 0})
    runs = []
    for name in names:
        runs += map(without_writers, samples(replace(case, name=name.format(4)), pairs=6))
        runs += samples(replace(case, name=name.format(32)), pairs=6)
    advised = advise([loaded_run(tmp_path / "run", runs)])
    (remedy,) = advised.remedies
    rows = [remedy, *advised.losses, *advised.dynamic]
    assert {row["case"] for row in rows} <= {name.format(32) for name in names}
    assert len(advised.losses) == len(names)


def _keys(document: object) -> set[str]:
    if isinstance(document, dict):
        names = (re.sub("_(low|high)$", "", key) for key in document)
        return {*names, *(key for part in document.values() for key in _keys(part))}
    if isinstance(document, list):
        return {key for part in document for key in _keys(part)}
    return set()


def test_the_document_and_its_documented_keys(tmp_path: Path) -> None:
    run = loaded_run(tmp_path / "run", swept(sweep(noise=0.05), pairs=8))
    document = json.loads(json.dumps(advise([run], 0.5).as_dict()))
    assert document["schema"] == 4
    assert document["traffic_share"] == 0.5
    assert len(document["sentences"]) == 3
    row = next(remedy for remedy in document["remedies"] if remedy["remedy"] == "reserved_cores=1")
    assert row["what"] == "cores left free by the application"
    assert row["net_low"] <= row["net"] <= row["net_high"]
    assert [row["reserved"] for row in document["throttling"]] == [1, None]
    throttled = [remedy for remedy in document["remedies"] if remedy["factor"] == "rate"]
    assert not any(remedy["recommended"] for remedy in throttled)
    documented = json.loads((ROOT / "docs/documents.json").read_text())["advise"]["rows"]
    for name, keys in documented.items():
        assert _keys(document[name]) == set(keys), name


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
    assert (
        crossing_text(dict(zip(("at", "at_low", "at_high"), ends, strict=True)), "at", unit) == text
    )


def _sentences(losses: Sequence[dict] = (), remedies: Sequence[Remedy] = ()) -> list[str]:
    """Return the sentences of advice on losses and remedies; the share of traffic is unknown."""
    return sentences(
        Advice(
            machine="m",
            runs=[],
            traffic_share=None,
            losses=list(losses),
            remedies=list(remedies),
            sweeps=[],
        )
    )


def _loss(
    case: str, value: float, low: float, high: float, verdict: Verdict = Verdict.CONTENTION
) -> dict:
    names = {"case": case, "traffic": "on", "rate_b_s": 2e9, "verdict": verdict, "emulated": []}
    return {**names, **columns_of("lost", Estimate(value, low, high))}


@pytest.mark.parametrize(
    ("losses", "text"),
    [
        # The largest loss with a stable baseline is named.
        (
            [("a", 0.1, 0.05, 0.15), ("b", 0.9, 0.8, 0.95), ("c", 0.2, 0.1, 0.3)],
            "b on average 900.0 [400.0, 1900.0] more node-hours per 100, the most among 3 measured"
            " cases of traffic.",
        ),
        ([("a", 0.1, 0.05, 0.15)], "a on average 11.1 [5.3, 17.6] more node-hours per 100."),
        (
            [("a", 0.1, -0.05, 0.15)],
            "a on average 11.1 [-4.8, 17.6] more node-hours per 100; its pairs do not"
            " determine the mean more precisely.",
        ),
    ],
)
def test_the_largest_loss_is_named(losses: list[tuple], text: str) -> None:
    unstable = _loss("u", 0.99, 0.98, 1.0, verdict=Verdict.BASELINE_UNSTABLE)
    rows = [unstable, *(_loss(*loss) for loss in losses)]
    sentence = _sentences(rows)[0]
    assert sentence == f"With traffic all the time, as in the runs, on (2.00 GB/s) costs {text}"
    emulated = [{**row, "emulated": ["soft-RoCE"]} for row in rows]
    assert " on (2.00 GB/s) [emulated] costs " in _sentences(emulated)[0]
    assert _sentences([unstable])[0].startswith("No loss can be stated")


@pytest.mark.parametrize(
    "verdict", [Verdict.NOT_ABOVE_CONTROL, Verdict.INCONCLUSIVE, Verdict.SPEED_UP]
)
def test_a_loss_that_no_verdict_shows_has_no_price(verdict: Verdict) -> None:
    """The interval of the loss is above 0, but the report shows no loss, so the advice has none."""
    rows = [_loss("a", 0.16, 0.09, 0.23, verdict), _loss("b", 0.1, 0.05, 0.15)]
    none = "No verdict shows a loss of node-hours, in 1 measured case of traffic."
    assert _sentences(rows[:1])[0] == none
    assert " costs b on average 11.1 " in _sentences(rows)[0]


def _row(standing: Standing, **changes: object) -> Remedy:
    """Return a reserved core with this standing."""
    row = {"case": "melt", "traffic": "on", "remedy": "reserved_cores=1", "emulated": []}
    row |= columns_of("net", Estimate(0.9, 0.8, 0.95)) | {"price": 1.1, "recommended": False}
    return {**row, "standing": standing, **changes}


NONE = "No remedy is recommended."
WORSE = "reserved_cores=1 for melt under on, 10.0 % [5.0, 20.0] less work"
COSTS = f"{NONE} Shown to cost more than it gains: {'; '.join([WORSE] * 3)}"


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
            [_row(Standing.SLOWER_WRITES), _row(Standing.ONLY_HERE)],
            f"{NONE} Helps the application by delaying the writes: reserved_cores=1.",
            "Not decided: 1 of 2 cases of a remedy under traffic; more allocations, at least three"
            " in all, would show whether effects hold in the next one.",
        ),
        (
            [_row(Standing.UNSTABLE), _row(Standing.NOT_DECIDED), _row(Standing.TOO_FEW_PAIRS)],
            NONE,
            "Not decided: 3 of 3 cases of a remedy under traffic.",
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
def test_recommended_and_undecided_remedies_are_named(
    rows: list[Remedy], recommended: str, undecided: str
) -> None:
    assert _sentences(remedies=rows)[1:] == [recommended, undecided]


def test_sentences_mark_emulated_traffic_and_name_the_run_among_several() -> None:
    real, emulated = {"run": "a", "emulated": []}, {"run": "b", "emulated": ["soft-RoCE"]}
    advice = Advice(
        machine="m",
        runs=["a", "b"],
        traffic_share=None,
        losses=[_loss("c", 0.1, 0.05, 0.15) | emulated, _loss("d", 0.05, 0.01, 0.1) | real],
        remedies=[
            _row(standing, **source)
            for standing in (Standing.WORSE, Standing.SLOWER_WRITES)
            for source in (real, emulated)
        ],
        sweeps=[],
    )
    lost, remedies, _ = sentences(advice)
    assert " [emulated] costs c (run b) on average " in lost
    name, less = "reserved_cores=1 for melt under on", "10.0 % [5.0, 20.0] less work"
    assert f"gains: {name} (run a), {less}; {name} [emulated] (run b), {less}. " in remedies
    assert remedies.endswith("writes: reserved_cores=1; reserved_cores=1 [emulated].")


def test_an_unpaired_remedy_is_worth_its_price_from_an_unknown_share_on() -> None:
    """Its break-even is not measured, so no more runs would decide it."""
    unpaired = columns_of("break_even", None) | columns_of("net", Estimate(1.2, 1.1, 1.3))
    rows = [_row(Standing.BETTER, **{**unpaired, "recommended": stated}) for stated in (1, 0)]
    recommended, conditional = (_sentences(remedies=[row])[1] for row in rows)
    name = "reserved_cores=1 for melt under on"
    assert recommended == (
        f"Recommended: {name}, 20.0 % [10.0, 30.0] more work, worth its price from an unknown"
        " share on."
    )
    assert conditional.endswith(f"(--traffic-share): {name}, from an unknown share on.")


def test_a_remedy_costs_nothing_if_its_break_even_is_zero() -> None:
    highs = (0.0, None, 1.0)
    free = [costs_nothing({"price": 1.1, "break_even_high": high}) for high in highs]
    assert free == [True, False, False]
