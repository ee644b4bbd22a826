"""Which effects a planned campaign can show.

The plan's promises are checked in simulated campaigns ('nights'), with the statistical tests that
decide real verdicts. `aa` is an arm that repeats the baseline `off`.
"""

import json
import math
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from scipy import stats

from analysis.contention.evaluate import calibrate, load_published
from analysis.effects.power import (
    POWER,
    TABLE_FILE,
    min_loss,
    pairs_for_no_effect,
    pairs_to_decide,
    share_after_writes,
)
from analysis.effects.result import Verdict
from analysis.statistics import evidence
from analysis.statistics.interval import Estimate, Interval
from nimc.campaign.cases import evenly_spaced
from nimc.campaign.reach import PastRuns, Spread, past_runs, reaches_of, warnings
from nimc.campaign.request import load_request
from records.campaign import Entry, SweepRequest
from records.checkout import ROOT
from records.order import pair_order
from tests.analysis.contention.made_sweeps import noisy_sweep
from tests.analysis.synthetic import Case, header, result, samples, write_run
from tests.studies.campaigns import CAMPAIGNS, ON_A_CLUSTER
from tests.studies.power import GRID, PAIRS, WANTED, least, reached

NIGHTS = 100
#: Share of nights that must reach a verdict that is promised for 90 % of them. By chance, fewer
#: than 83 of 100 do so in 1 % of cases.
LEAST_SHARE = 83 / 100


def assert_model_follows(sweep: SweepRequest) -> None:
    """Assert that the ten parameters of the contention model are found in a made sweep.

    The machine is one of the paper, and the noise 2 %.
    """
    truth = load_published("henri")
    places = truth.calibrated_nodes()
    measured = noisy_sweep(truth, 1, 0.02)
    if sweep.cores == "few":
        measured = noisy_sweep(truth, 1, 0.02, [(node, node) for node in places])
        numbers = evenly_spaced(truth.cores)
        points = [point for point in measured.points if point.n in numbers]
        measured = replace(measured, points=points)
    model = calibrate(measured).model
    for fitted, true in ((model.local, truth.local), (model.remote, truth.remote)):
        assert fitted is not None
        assert fitted.b_comp_seq_b_s == pytest.approx(true.b_comp_seq_b_s, rel=0.05)
        assert fitted.t_par_max_b_s == pytest.approx(true.t_par_max_b_s, rel=0.05)
    assert model.notes == []


@pytest.mark.parametrize(
    ("machine", "name"),
    [("example_slurm" if name in ON_A_CLUSTER else "localhost", name) for name in CAMPAIGNS],
)
def test_every_campaign_of_the_project_can_conclude(name, machine):
    """A campaign ends in verdicts or in a model.

    On one host, a loss must also exceed the control's.
    """
    request = load_request(ROOT / "campaigns" / f"{name}.yaml", machine)
    planned, campaign = request.plan(), request.campaign
    can_show = reaches_of(planned, campaign, PastRuns())
    assert list(warnings(can_show)) == []
    assert campaign.margin is not None
    swept = [entry.sweep for entry in campaign.cases if entry.sweep]
    if not can_show:
        assert len(swept) == len(campaign.cases)
        assert_model_follows(swept[0])
    for case in can_show:
        floor, cap = case.pairs
        assert {floor, cap} <= {interim.pairs for interim in evidence.interim_analyses(cap)}
        # The minimum of pairs shows a slowdown of 1.5 at a noise of 3 %. The maximum of pairs shows
        # 'no effect' at a noise of 1 %.
        loss = min_loss(floor, case.family, controlled="control" in case.roles)
        assert loss is not None
        assert loss * 0.03 <= math.log(1.5)
        assert case.pairs_for_none <= cap
    runs = {case.case: len(case.treatments) for case in planned.cases}
    assert simulated_cases(name, machine) == {(case.family, runs[case.case]) for case in can_show}


def simulated_cases(name: str, machine: str) -> set[tuple[int, int]]:
    """Return questions and runs a pair of the simulated cases in the table of docs/evidence.md."""
    words = {"example_slurm": "cluster", "localhost": "one host"}[machine]
    text = (ROOT / "docs" / "evidence.md").read_text()
    rows = re.findall(rf"^\| {name} \| {words} \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    return {(int(questions), int(runs)) for questions, runs in rows}


@pytest.mark.parametrize(
    ("wanted", "pairs", "hypotheses"),
    [("slower", 6, 1), ("above_control", 8, 1), ("slower", 16, 128), ("within", 12, 8)],
)
def test_nine_of_ten_nights_reach_the_verdict_that_a_plan_promises(wanted, pairs, hypotheses):
    """The table of docs/evidence.md has more numbers of pairs and questions."""
    size = json.loads(TABLE_FILE.read_text())[wanted][str(pairs)][str(hypotheses)]
    assert reached(wanted, pairs, hypotheses, size, NIGHTS) >= LEAST_SHARE
    assert reached(wanted, pairs, hypotheses, size / 2, NIGHTS) < 0.6


def test_the_table_is_the_result_of_its_study():
    table = json.loads(TABLE_FILE.read_text())
    assert list(table) == list(WANTED)
    for by_pairs in table.values():
        assert [*map(int, by_pairs)] == list(PAIRS)
        for sizes in by_pairs.values():
            assert [*map(int, sizes)] == list(GRID)
            # With more questions, only larger effects are shown, and finally none.
            known = [size for size in sizes.values() if size is not None]
            assert known == sorted(known)
            assert [*sizes.values()][: len(known)] == known
    size = least("slower", 8, 4)
    assert table["slower"]["8"]["4"] == math.ceil(1000 * size) / 1000


def test_sizes_are_looked_up_for_the_last_analysis_and_the_next_larger_number_of_questions():
    table = json.loads(TABLE_FILE.read_text())
    assert min_loss(15, 7, controlled=False) == table["slower"]["12"]["8"]
    assert min_loss(12, 8, controlled=True) == table["above_control"]["12"]["8"]
    # The least p of six pairs, 1 / 2^6, exceeds the level of the first analysis, 0.05 / 4. There is
    # no analysis after five pairs.
    assert [min_loss(pairs, 1, controlled=True) for pairs in (5, 6)] == [None, None]
    # The least p of six pairs, 1 / 3^6, exceeds the level of the first analysis, 0.04 / 64 / 4.
    assert min_loss(6, 64, controlled=False) is None
    sizes = [table["within"][str(pairs)]["8"] for pairs in PAIRS]
    assert pairs_for_no_effect(sizes[4], 7) == PAIRS[4]
    assert pairs_for_no_effect(sizes[4] - 0.001, 7) == PAIRS[5]
    assert pairs_for_no_effect(0.01, 1) is None


@pytest.mark.parametrize("value", [1.0, 1.05, 1 / 1.05, 1.12, 1.019, 1.021])
@pytest.mark.parametrize("controlled", [False, True])
def test_the_pairs_that_decide_a_result_agree_with_the_plan(value, controlled):
    """The interval of eight pairs shows a spread of 5 %. The result is one of four questions."""
    spread, pairs, family = 0.05, 8, 4
    half_width = stats.t.ppf(0.975, pairs - 1) * spread * math.sqrt(1.5 / pairs)
    row = result(
        pairs=pairs,
        slowdown=Estimate(value, value * math.exp(-half_width), value * math.exp(half_width)),
        control=Interval(0.99, 1.01) if controlled else None,
        family=family,
        margin=0.02,
    )
    needed = pairs_to_decide(row)
    if abs(math.log(value)) < math.log(1.02):
        assert needed == pairs_for_no_effect(math.log(1.02) / spread, family) > 64
        return
    before, last = [interim.pairs for interim in evidence.interim_analyses(needed)][-2:]
    losses = [min_loss(number, family, controlled=controlled) for number in (before, last)]
    assert last == needed
    assert losses[1] * spread <= abs(math.log(value)) < losses[0] * spread


def test_a_result_not_above_the_control_is_decided_against_the_control_even_within_the_margin():
    """The loss against off is less than the margin, but the verdict cannot become 'no effect'.

    Eight pairs show a spread of 1 %. The time divided by the control's time is 1.012, whose
    logarithm is 0.0119. The table's sizes for four questions, times 0.01, are 0.0132 at 32 pairs
    and 0.0108 at 48.
    """
    half_width = stats.t.ppf(0.975, 7) * 0.01 * math.sqrt(1.5 / 8)
    row = result(
        pairs=8,
        slowdown=Estimate(1.015, 1.015 * math.exp(-half_width), 1.015 * math.exp(half_width)),
        control=Interval(0.99, 1.01),
        over_control=Estimate(1.012, 1.001, 1.023),
        verdict=Verdict.NOT_ABOVE_CONTROL,
        family=4,
        margin=0.02,
    )
    sizes = json.loads(TABLE_FILE.read_text())["above_control"]
    assert sizes["32"]["4"] * 0.01 > math.log(1.012) > sizes["48"]["4"] * 0.01
    assert pairs_to_decide(row) == 48
    assert pairs_to_decide(replace(row, margin=0.001)) == 48


def test_no_number_of_pairs_is_given_if_none_decides_a_result():
    """At a spread of 50 %, 'no effect' within 2 % takes 1.5 (3.3 / 0.04)^2 pairs, above 2,000.

    A loss that is not above the control is not decided by more pairs either.
    """
    wide = result(pairs=8, slowdown=Estimate(1.0, 0.6, 1.6))
    assert pairs_to_decide(wide) is None
    lost = replace(wide, slowdown=Estimate(1.1, 1.08, 1.12))
    assert pairs_to_decide(lost) is not None
    below = replace(lost, control=Interval(1.1, 1.2), over_control=Estimate(0.95, 0.9, 1.0))
    assert pairs_to_decide(below) is not None
    assert pairs_to_decide(replace(below, verdict=Verdict.NOT_ABOVE_CONTROL)) is None


@pytest.mark.parametrize(("effects", "controls"), [(1, 0), (1, 1), (2, 0), (6, 0)])
def test_with_more_effects_more_runs_of_the_baseline_follow_right_after_writes(effects, controls):
    """The orders of runs show it. 'No effect' allows for it, and so takes more pairs."""
    names = ["off", "aa", *["spin"][:controls], *(f"on@{number}" for number in range(effects))]
    baselines = {name: None if name == "off" else "off" for name in names}
    order = [name for pair in range(2000) for name in pair_order(baselines, 1, "c", pair)]
    before = [previous[:2] for previous, name in pairwise(order) if name in ("off", "aa")]
    share = share_after_writes(len(names), effects)
    assert before.count("on") / len(before) == pytest.approx(share, abs=0.03)
    assert share == pytest.approx(effects / len(names) + effects / len(names) ** 2)
    sizes = json.loads(TABLE_FILE.read_text())["within"]
    # sqrt(share / (1 - share)) is sqrt(4 / 5) for the table's share of 4/9, and sqrt(27 / 5) for a
    # share of 27/32.
    more = max(0.0, math.sqrt(share / (1 - share)) - math.sqrt(4 / 5)) / math.sqrt(24)
    assert pairs_for_no_effect(sizes["24"]["8"] + more + 1e-9, 7, share) == 24
    assert pairs_for_no_effect(sizes["24"]["8"] + more - 0.001, 7, share) == 32
    assert effects < 6 or more == pytest.approx((math.sqrt(27 / 5) - math.sqrt(4 / 5)) / 24**0.5)
    for controlled, name in ((False, "slower"), (True, "above_control")):
        size = json.loads(TABLE_FILE.read_text())[name]["24"]["8"]
        loss = min_loss(24, 7, share, controlled=controlled)
        assert loss == pytest.approx(size + more / 2)


def test_above_64_pairs_the_size_that_can_be_shown_follows_from_quantiles_of_students_t():
    """The ninth analysis is at 96 pairs. It may use a quarter of the error that the
    first eight analyses left.

    Half a standard error is added. It is that of the pairs in which one baseline run is after
    writes, 40 of 81.
    """
    error = 0.25 * 0.75**8
    for controlled, level, runs in ((False, 0.04, 1.5), (True, 0.05, 2.0)):
        apart = stats.t.ppf(1 - error * level, 95) + stats.t.ppf(POWER, 95)
        loss = min_loss(100, 1, controlled=controlled)
        carried = 4 / 9 * math.sqrt(2 / (96 * 40 / 81)) / 2
        assert loss == pytest.approx(apart * math.sqrt(runs / 96) + carried)


def melt(*, steps: int, aa: bool = True) -> tuple[Case, dict[str, object]]:
    """Return a case of LAMMPS with a spread of 2 %, and what the header of its run says of it."""
    effects = {"on": 1.5, **({"aa": 1.0} if aa else {})}
    case = Case(name="melt", unit="s", better="lower", base=10.0, effects=effects, noise=0.02)
    entry = {"check": "lammps", "case": "melt", "set": {"steps": steps}}
    return case, {"campaign": {"workloads": [entry]}}


def test_the_spread_of_a_case_is_that_of_its_last_run_which_repeats_its_baseline(tmp_path):
    case, resolved = melt(steps=100)
    old = header(started_s=1.0, resolved=resolved)
    write_run(tmp_path / "old", samples(case, pairs=400, seed=1), old)
    bare, resolved = melt(steps=100, aa=False)
    new = header(started_s=2.0, resolved=resolved)
    write_run(tmp_path / "new", samples(bare, blocks=2, pairs=6, seed=2), new)
    other, resolved = melt(steps=200)
    longer = header(started_s=3.0, resolved=resolved)
    write_run(tmp_path / "longer", samples(replace(other, noise=0.05), pairs=400, seed=3), longer)
    same = Entry(check="lammps", case="renamed", set={"steps": 100})
    past = past_runs(tmp_path, header().machine, [same])
    assert past.variation is not None, "the last run of the case has two allocations"
    assert past.spread_of(same).run == str(tmp_path / "old")
    assert past.spread_of(same).share == pytest.approx(0.02, rel=0.15)
    # Another application, other settings and another machine say nothing about a case.
    for machine, entry in (
        (old.machine, Entry(check="stream", case="melt", set={"steps": 100})),
        (old.machine, Entry(check="lammps", case="melt", set={"steps": 300})),
        ("another", same),
    ):
        assert past_runs(tmp_path, machine, [entry]) == PastRuns()
        assert past_runs(tmp_path, machine, [same, entry]).spread_of(entry) == Spread(0.01, None)
    assert past_runs(tmp_path / "none", old.machine, [same]) == PastRuns()


def test_a_case_without_writes_has_no_verdict(tmp_path):
    file = tmp_path / "c.yaml"
    for arms, cases in (("off, aa", []), ("off, on, aa", ["stream"])):
        file.write_text(f"name: c\nworkloads: [{{check: stream, expect: 5s}}]\narms: [{arms}]\n")
        request = load_request(file, "localhost")
        reaches = reaches_of(request.plan(), request.campaign, PastRuns())
        assert [reach.case for reach in reaches] == cases


@pytest.mark.usefixtures("every_case_feasible")
def test_the_plan_says_what_the_campaign_can_show_and_warns_of_what_it_cannot(tmp_path, command):
    file = tmp_path / "c.yaml"
    text = "name: c\nworkloads: [{check: stream, expect: 5s}]\narms: [off, on, aa]\n"
    file.write_text(f"{text}pairs: {{floor: 6, cap: 24}}\n")
    shown = " ".join(command("plan", file, "--machine", "localhost", "--results", tmp_path).split())
    assert "What 90 % of runs of the campaign show:" in shown
    assumed = "A spread of 1 % is assumed, since no run here repeated the baseline 6 times: stream."
    assert assumed in shown
    losses = [100 * math.expm1(0.01 * min_loss(pairs, 1, controlled=False)) for pairs in (6, 24)]
    # A loss below the margin may end as 'no effect', and is not promised.
    assert f"slower by {losses[0]:.2g} % in 6 pairs, by 2 % in 24 pairs" in shown
    # Student's t of 23 degrees of freedom, with 0.0334 of 0.04 and 1.5 runs a pair, gives this
    # lower bound.
    assert 0.95 < 100 * math.log1p(losses[1] / 100) < 1.4
    assert "'no effect' in 16 pairs; spread 1 %" in shown
    file.write_text(f"{text.replace(', aa', '')}pairs: {{floor: 6, cap: 6}}\n")
    bare, uncontrolled = command.json("plan", file, "--machine", "localhost")["warnings"]
    assert bare.startswith("stream: no verdict, since no arm aa repeats the baseline")
    assert uncontrolled.startswith(
        "stream: a loss ends as 'control missing', since origin and target"
    )
    file.write_text(f"{text.replace('on,', 'on, spin,')}pairs: {{floor: 6, cap: 6}}\n")
    (warning,) = command.json("plan", file, "--machine", "localhost")["warnings"]
    assert warning.endswith("among 1 question: raise pairs.cap to 8")
    # Six pairs cannot show a loss against the control: their least p is 2^-6.
    assert "stream: no slowdown in 6 pairs; 'no effect'" in command("plan", file)
    file.write_text(f"{text.replace('on,', 'on, spin,')}pairs: {{floor: 6, cap: 8}}\n")
    assert re.search(r"stream: slower by \S+ % in 8 pairs; 'no effect'", command("plan", file))
