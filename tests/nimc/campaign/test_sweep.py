"""Sweeps of the contention model: their cases, and which of them are measured."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from analysis.contention import evaluate
from analysis.contention.fit import fit
from analysis.contention.parameters import placements, predict
from analysis.contention.sweep import from_run
from nimc.campaign.cases import expand, next_case, siblings
from nimc.campaign.checks import CheckVariables
from nimc.campaign.prepare import prepare
from nimc.run import runner
from nimc.run.progress import display
from nimc.run.runner import CampaignRunner
from records.campaign import Campaign
from records.checkout import ROOT
from records.errors import InputError
from records.interrupts import Interrupts
from records.machine.site import Machine
from records.run import save_header
from tests.analysis.contention.test_sweep import made_header, made_sample
from tests.nimc.blocks import block_of
from tests.nimc.campaign.made_request import made_machine, made_request

TRUTH = evaluate.load_published("occigen")
#: Two sockets of 14 cores and one NUMA node each, as the published occigen has them.
FACTS = {"cores": 28, "sockets": 2, "numa_nodes": 2, "llc": "70MiB", "memory": "64GiB"}


def machine(policy: str = "hetjob", **facts: Any) -> Machine:
    return made_machine(policy, facts=FACTS | facts)


def expanded(campaign: Campaign, machine: Machine) -> Campaign:
    return expand(campaign, {"membench": CheckVariables(frozenset())}, machine)


def campaign(**asked: str) -> Campaign:
    entry = {"check": "membench", "case": "s", "sweep": asked, "set": {"duration_s": 3}}
    return Campaign.model_validate(
        {"name": "c", "workloads": [entry], "arms": ["off", "on"], "pairs": {"floor": 6, "cap": 6}}
    )


def test_each_number_of_cores_on_both_calibrated_placements() -> None:
    cases = expanded(campaign(cores="all"), machine(cores=4)).cases
    assert [case.name for case in cases] == ["s@n1-c0-m0", "s@n2-c0-m0", "s@n1-c1-m1", "s@n2-c1-m1"]
    assert cases[3].set == {"duration_s": 3, "cores": 2, "node": 1, "comm_node": 1}
    # Those of both sockets, whose memory is on the first one's node.
    asked = campaign(cores="all", placements="local")
    asked.workloads[0].set["socket"] = "all"
    found = [
        (case.set["cores"], case.set["node"]) for case in expanded(asked, machine(cores=4)).cases
    ]
    assert found == [(1, 0), (2, 0), (3, 0), (4, 0)]


def test_on_a_shared_host_the_origin_has_a_core_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of five usable cores four are the application's, two a socket."""
    monkeypatch.setattr(
        "records.machine.host.detect", lambda: SimpleNamespace(usable_cores=range(5))
    )
    cases = expanded(campaign(cores="all", placements="local"), machine("same_host")).cases
    assert [case.set["cores"] for case in cases] == [1, 2]


def test_the_next_case_is_the_one_that_the_models_of_its_placement_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = expanded(campaign(placements="all"), machine()).cases
    cases += [case.but({"case": case.name.replace("s@", "t@")}) for case in cases]
    same = siblings(next(case for case in cases if case.name == "s@n3-c0-m1"), cases[::-1])
    assert [case.name for case in same] == [f"s@n{n}-c0-m1" for n in range(1, 15)]
    assert next_case(tmp_path, same, []) is same[0]
    assert next_case(tmp_path, same, same[:1]) is None  # which has no sample
    asked: list[Any] = []
    found = SimpleNamespace(at=lambda comp, comm: (comp, comm))
    monkeypatch.setattr("analysis.contention.sweep.from_run", lambda *_: found)
    monkeypatch.setattr("analysis.contention.fit.next_n", lambda *of: asked.append(of) or 7)
    assert next_case(tmp_path, same, same[:1]) is same[6]
    assert next_case(tmp_path, same, [same[0], same[6]]) is None  # it failed
    assert asked == [((0, 1), 14, 6)] * 2


@pytest.mark.parametrize(
    ("facts", "asked", "expected"),
    [
        ({"sockets": 1, "numa_nodes": 1}, "calibration", [(0, 0)]),
        # Two NUMA nodes a socket: the remote one is the second socket's first (section 3).
        ({"numa_nodes": 4}, "calibration", [(0, 0), (2, 2)]),
        ({"numa_nodes": 4}, "local", [(0, 0)]),
        ({}, "all", [(0, 0), (1, 1), (0, 1), (1, 0)]),
        # Node 1 or 2 has memory and no cores.
        (
            {"sockets": 1, "numa_nodes": 1, "memory_nodes": [1]},
            "all",
            [(0, 0), (0, 1), (1, 0), (1, 1)],
        ),
        ({"memory_nodes": [2]}, "calibration", [(0, 0), (1, 1)]),
    ],
)
def test_placements(facts: dict[str, int], asked: str, expected: list[tuple[int, int]]) -> None:
    cases = expanded(campaign(placements=asked), machine(**facts)).cases
    found = [(case.set["node"], case.set["comm_node"]) for case in cases]
    assert list(dict.fromkeys(found)) == expected


@pytest.mark.parametrize(
    ("cores", "expected"), [(1, [1]), (2, [1, 2]), (4, [1, 2, 4]), (7, [1, 2, 4, 7])]
)
def test_doubled_numbers_of_cores_end_with_all(cores: int, expected: list[int]) -> None:
    asked = campaign(cores="doubled", placements="local")
    cases = expanded(asked, machine(cores=cores, sockets=1, numa_nodes=1)).cases
    assert [case.set["cores"] for case in cases] == expected
    assert not any(case.adaptive for case in cases)


def test_a_plan_says_what_may_be_left_out() -> None:
    asked = expanded(campaign(), machine())
    planned = made_request(asked, machine()).plan()
    least = {case.case: case.pairs_least for case in planned.cases}
    assert len(least) == 28
    assert {name for name, pairs in least.items() if pairs} == {
        "s@n1-c0-m0", "s@n14-c0-m0", "s@n1-c1-m1", "s@n14-c1-m1"
    }  # fmt: skip
    # Of 14 numbers of cores a placement, a third of the runs of a full sweep is 6.
    sums = planned.as_dict()
    assert sums["duration_most_s"] == pytest.approx(3 * sums["duration_least_s"])


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (
            "check: stream, sweep: {}",
            ":3: workloads[0].sweep: 'stream' has no variables comm_node,",
        ),
        ("check: membench, sweep: {}, set: {node: 1}", "set.node: cannot be combined with 'sweep'"),
        (
            "check: membench, sweep: {}, factors: {comm_node: [0, 1]}",
            "sweep: cannot be combined with the factor 'comm_node'",
        ),
        (
            "check: membench, sweep: {}, factors: {warmups: [1, 2]}",
            "sweep: cannot be combined with the factor 'warmups'",
        ),
        ("check: membench, sweep: {cores: some}", "cores: 'some' found; allowed: all; doubled:"),
    ],
)
def test_mistakes(tmp_path: Path, entry: str, text: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"name: c\nworkloads:\n  - {{{entry}}}\narms: [off, on]\n")
    with pytest.raises(InputError) as error:
        prepare(path, "localhost")
    assert text in str(error.value)


def test_campaigns_of_the_project() -> None:
    for name in ("contention_model", "contention_model_all", "contention_emulated", "numa"):
        asked = prepare(ROOT / "campaigns" / f"{name}.yaml", "localhost").campaign
        # Denis, Jeannot and Swartvagher, Table 9: on henri-subnuma's remote side communications
        # keep 0.27: such runs are not rejected.
        assert asked.verify.min_share < 0.27
        if name == "contention_model":  # a machine of one node
            assert {(case.set["node"], case.set["comm_node"]) for case in asked.cases} == {(0, 0)}


def _session(case: str, block: int, pairs: int, run: Path) -> None:
    """Leaves what ReFrame would: pairs of a case s@nN-cCOMP-mCOMM whose rates are the truth's."""
    n, comp, comm = (int(part[1:]) for part in case.removeprefix("s@").split("-"))
    rates = predict(TRUTH, comp, comm)
    foms = {"off": rates.comp_alone_b_s[n - 1], "on": rates.comp_par_b_s[n - 1]}
    lines = []
    for pair in range(pairs):
        for arm, fom in foms.items():
            record = made_sample(arm, pair, float(fom), n, comp).as_dict()
            record |= {"case": case, "block": block}
            record["key"] = f"{case}/{block}/{pair}/{arm}/0"
            for writer in record["writers"]:
                writer["buffer_node"] = comm
                writer["rate_alone_b_s"] = float(rates.comm_alone_b_s[n - 1])
                writer["rate_b_s"] = float(rates.comm_par_b_s[n - 1])
            lines.append(json.dumps(record) + "\n")
    with (run / "samples" / f"{case}.jsonl").open("a") as file:
        file.writelines(lines)


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Runs the sweep of few cores: the names of the cases that ReFrame was asked for."""
    save_header(tmp_path, made_header(numa_nodes=2, sockets=2))
    (tmp_path / "samples").mkdir()

    def run() -> list[str]:
        asked: list[str] = []

        def session(argv: Sequence[str], folder: Path, *_: object) -> int:
            plan = block_of(argv)
            node, comp, comm = (plan.settings[name] for name in ("cores", "node", "comm_node"))
            assert plan.case == f"s@n{node}-c{comp}-m{comm}"
            asked.append(plan.case)
            _session(plan.case, plan.block, plan.pairs, folder)
            return 0

        monkeypatch.setattr(runner, "run_session", session)
        request = made_request(expanded(campaign(), machine()), machine())
        with Interrupts() as interrupts:
            made = CampaignRunner(request, tmp_path, "reframe", 1, interrupts, display())
            assert made.run_all() == []
        return asked

    return run


@pytest.mark.slow
def test_few_cores_tell_as_much_as_all_and_a_killed_case_is_completed_first(
    tmp_path: Path, measure: Callable[[], list[str]]
) -> None:
    _session("s@n1-c0-m0", 0, 2, tmp_path)
    asked = measure()
    for node in (0, 1):
        mine = [name for name in asked if name.endswith(f"-c{node}-m{node}")]
        assert mine[:2] == [f"s@n1-c{node}-m{node}", f"s@n14-c{node}-m{node}"]
        assert 3 <= len(mine) <= 6  # a third of a full sweep's runs: (14 - 2) / 2 points
    lines = (tmp_path / "samples" / "s@n1-c0-m0.jsonl").read_text().splitlines()
    assert len(lines) == 2 * 6
    # Nothing is left to choose: a second session measures nothing.
    assert measure() == []
    model = fit(from_run(tmp_path, None))
    for at in placements(TRUTH):
        found, true = predict(model, *at), predict(TRUTH, *at)
        off = np.abs(found.comp_par_b_s / true.comp_par_b_s - 1)
        assert float(off.mean()) < 0.02, at
