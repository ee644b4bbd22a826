"""What a campaign can show, as planned; simulated by the tests that decide its verdicts."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from scipy import stats

from analysis.contention.evaluate import calibrated, load_published
from analysis.effects.verdict import LEVELS
from analysis.statistics import looks
from nimc.campaign.cases import evenly_spaced
from nimc.campaign.prepare import prepare
from nimc.campaign.reach import (
    Spreads,
    last_spreads,
    least_effect,
    pairs_for_none,
    reach,
    warnings,
)
from records.campaign import SweepRequest
from records.checkout import ROOT
from tests.analysis.contention import made_sweeps as sweeps
from tests.analysis.synthetic import Case, header, samples, write_run

NIGHTS = 100
#: P(fewer than 83 of 100 | 0.9) is 1 %.
MOST_OFTEN = 83 / 100
CAMPAIGNS = sorted(path.stem for path in (ROOT / "campaigns").glob("*.yaml"))
#: What asks for several nodes, NUMA nodes or rails; one host also has the control to surpass.
ON_A_CLUSTER = {
    *("core_reservation_scaling", "scaling", "scaling_quick", "scaling_rxe"),
    *("numa", "multirail", "multirail_quick"),
}


def power(
    pairs: int, noise: float, slowdown: float, error: float, test: Callable[..., float], runs: int
) -> float:
    """Share of nights with normal noise, each of pairs of so many runs, that a test decides."""
    drawn = np.random.default_rng(pairs).normal(0, noise, (NIGHTS, pairs, runs))
    drawn[..., 0] += math.log(slowdown)
    return float(np.mean([looks.over_looks(night, test) <= error for night in drawn]))


@cache
def names(pairs: int, family: int, controlled: bool) -> float:
    """Share that names a slowdown of 1.5 at a noise of 3 %, next to others that are nothing."""
    slower = power(pairs, 0.03, 1.5, LEVELS["slower"] / family, looks.longer, 3)
    if not controlled:
        return slower
    return min(slower, power(pairs, 0.03, 1.5, LEVELS["above_control"] / family, looks.longer, 2))


@cache
def rules_out(pairs: int, family: int, margin: float) -> float:
    """Share of nights of nothing at a noise of 1 % that are shown to be within a margin."""
    within = partial(looks.outside, margin=margin)
    return power(pairs, 0.01, 1.0, LEVELS["within"] / family, within, 3)


def model_follows(sweep: SweepRequest) -> None:
    """On a machine of the paper, at a noise of 2 %: ten parameters."""
    truth = load_published("henri")
    places = truth.calibrated_nodes()
    measured = sweeps.sweep(truth, 1, 0.02)
    if sweep.cores == "few":
        measured = sweeps.sweep(truth, 1, 0.02, [(node, node) for node in places])
        numbers = evenly_spaced(truth.cores)
        points = [point for point in measured.points if point.n in numbers]
        measured = replace(measured, points=points)
    model = calibrated(measured).model
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
    """In what it ends in: verdicts, or a model."""
    request = prepare(ROOT / "campaigns" / f"{name}.yaml", machine)
    planned, campaign = request.plan(), request.campaign
    reached = reach(planned, campaign, Spreads())
    assert list(warnings(reached)) == []
    assert campaign.margin is not None
    swept = [entry.sweep for entry in campaign.cases if entry.sweep]
    if not reached:
        assert len(swept) == len(campaign.cases)
        model_follows(swept[0])
    for case in reached:
        floor, cap = case.pairs
        assert {floor, cap} <= {look.pairs for look in looks.looks(cap)}
        assert names(floor, case.family, "control" in case.roles) >= MOST_OFTEN
        assert rules_out(cap, case.family, campaign.margin) >= MOST_OFTEN


@pytest.mark.parametrize(("pairs", "family"), [(6, 1), (16, 100)])
def test_the_least_effect_is_found_in_nine_of_ten_nights(pairs, family):
    error = LEVELS["slower"] / family
    effect = least_effect(pairs, family, LEVELS["slower"], 0.01)
    assert effect is not None
    assert 0.84 <= power(pairs, 0.01, 1 + effect, error, looks.longer, 3) <= 0.98
    assert power(pairs, 0.01, 1 + effect / 2, error, looks.longer, 3) < 0.6
    needed = pairs_for_none(0.02, family, LEVELS["within"], 0.01)
    assert needed is not None
    assert rules_out(needed, family, 0.02) >= MOST_OFTEN


def test_what_pairs_can_show_follows_from_quantiles_of_student():
    """At eight pairs 3/16 of the error: t(1 - a) + t(0.9) with seven degrees, by sqrt(1.5 / 8)."""
    for baselines, runs in ((2, 1.5), (1, 2.0)):
        apart = (stats.t.ppf(1 - 0.1875 * 0.05, 7) + stats.t.ppf(0.9, 7)) * math.sqrt(runs / 8)
        effect = least_effect(9, 1, 0.05, 0.01, baselines)
        assert effect == pytest.approx(np.expm1(0.01 * apart))
    # Of 2^6 exchanges one is more than a quarter of 0.05; five pairs are not looked at.
    assert [least_effect(pairs, 1, 0.05, 0.01, 1) for pairs in (5, 6)] == [None, None]
    # At a noise of 1 % and a margin of 2 %, 9 of 10 are decided at 12 pairs, of seven cases at 16.
    assert [pairs_for_none(0.02, cases, 0.05, 0.01) for cases in (1, 7)] == [12, 16]
    assert pairs_for_none(0.001, 1, 0.05, 0.1) is None


def test_the_spread_is_that_of_the_last_run_that_repeats_its_baseline(tmp_path):
    made = Case("melt", "s", "lower", 10.0, {"on": 1.5, "aa": 1.0}, noise=0.02)
    write_run(tmp_path / "old", samples(made, pairs=400, seed=1), header(started_s=1.0))
    bare = Case("melt", "s", "lower", 10.0, {"on": 1.5})
    write_run(tmp_path / "new", samples(bare, pairs=6, seed=2), header(started_s=2.0))
    spreads = last_spreads(tmp_path, header().machine)
    assert spreads.run == str(tmp_path / "old")
    assert spreads.of("melt") == spreads.of("another") == pytest.approx(0.02, rel=0.15)
    assert last_spreads(tmp_path, "another").of("melt") == 0.01
    assert last_spreads(tmp_path / "none", "m") == Spreads()


@pytest.mark.usefixtures("able")
def test_the_plan_says_what_is_shown_and_what_never_can_be(tmp_path, command):
    file = tmp_path / "c.yaml"
    text = "name: c\nworkloads: [{check: stream, expect: 5s}]\narms: [off, on, aa]\n"
    file.write_text(f"{text}pairs: {{floor: 6, cap: 24}}\n")
    shown = " ".join(command("plan", file, "--machine", "localhost", "--results", tmp_path).split())
    assert "with a spread of single runs of 1 %" in shown
    # Student's quantiles of 5 and 23 degrees at 0.01 and 0.0032, and at 0.9, by a table.
    effects = [
        100 * math.expm1(0.01 * (t + power) * math.sqrt(1.5 / pairs))
        for t, power, pairs in ((3.3649, 1.4759, 6), (3.0078, 1.3195, 24))
    ]
    assert f"slower by {effects[0]:.2g} % in 6 pairs, by {effects[1]:.2g} % in 24 pairs" in shown
    assert "'no effect' in 12 pairs; spread 1 %" in shown
    file.write_text(f"{text.replace(', aa', '')}pairs: {{floor: 6, cap: 6}}\n")
    bare, uncontrolled = command.json("plan", file, "--machine", "localhost")["warnings"]
    assert bare.startswith("stream: no verdict, as the arm aa does not repeat the baseline")
    assert uncontrolled.startswith("stream: a loss ends as 'control missing', as origin and target")
    file.write_text(f"{text.replace('on,', 'on, spin,')}pairs: {{floor: 6, cap: 6}}\n")
    (warning,) = command.json("plan", file, "--machine", "localhost")["warnings"]
    assert warning.endswith("among 1 question: raise pairs.cap to 8")
    # Against the control six pairs show nothing (2^-6).
    assert "stream: no slowdown in 6 pairs; 'no effect'" in command("plan", file)
    file.write_text(f"{text.replace('on,', 'on, spin,')}pairs: {{floor: 6, cap: 8}}\n")
    assert re.search(r"stream: slower by \S+ % in 8 pairs; 'no effect'", command("plan", file))
