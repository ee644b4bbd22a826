"""Pairs needed for slowdowns that the contention model predicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis.contention import evaluate
from analysis.contention.slowdown import SlowdownRow
from analysis.statistics.interval import Estimate
from analysis.statistics.pairs_needed import pairs_needed
from nimc.base.errors import InputError
from nimc.campaign.expected import predicted_pairs
from nimc.campaign.schema import Campaign
from nimc.cli.main import cli
from tests.analysis.contention.test_slowdown import slowdown_run


def asked(**pairs: float) -> Campaign:
    return Campaign.model_validate(
        {"name": "c", "workloads": [{"check": "stream"}], "arms": ["off", "on"], "pairs": pairs}
    )


def row(slowdown: float, spread: float | None) -> SlowdownRow:
    predicted = Estimate(slowdown, slowdown - 0.01, slowdown + 0.01, 0.95)
    return SlowdownRow("r", "s", "stream", None, predicted, None, None, spread, "")


@pytest.mark.parametrize(
    ("pairs", "half_width"), [({}, 0.04), ({"precision": 0.01}, 0.01), ({"precision": 0.2}, 0.04)]
)
def test_the_interval_is_as_narrow_as_requested_or_as_the_effect_is_large(
    pairs: dict[str, float], half_width: float
) -> None:
    (found,) = predicted_pairs(asked(**pairs), [row(1.04, 0.03)])
    assert (found.case, found.slowdown, found.spread) == ("stream", 1.04, 0.03)
    assert found.pairs_needed == pairs_needed(0.03, half_width)


def test_nothing_is_needed_for_no_slowdown_and_nothing_known_without_a_spread() -> None:
    (found,) = predicted_pairs(asked(), [row(0.995, 0.03)])
    assert found.pairs_needed is None
    assert predicted_pairs(asked(), [row(1.04, None)]) == []


def test_a_plan_shows_them(tmp_path: Path) -> None:
    model, campaign = tmp_path / "henri.json", tmp_path / "c.yaml"
    model.write_text(json.dumps(evaluate.load_published("henri").as_dict()))
    campaign.write_text("name: c\nworkloads: [{check: membench}]\narms: [off, on]\n")
    words = ["plan", str(campaign), "--machine", "localhost", "--model", str(model)]
    result = CliRunner().invoke(cli, [*words, "--run", str(slowdown_run(tmp_path)), "--json"])
    (found,) = json.loads(result.output)["predicted"]
    # A spread of a tenth of a percent hides nothing of an effect of several.
    assert (found["case"], found["pairs_needed"]) == ("membench", 6)


@pytest.mark.parametrize("option", ["--model", "--run"])
def test_a_model_needs_a_run_and_a_run_a_model(tmp_path: Path, option: str) -> None:
    words = ["plan", "quick", "--machine", "localhost", option, str(tmp_path)]
    error = CliRunner().invoke(cli, words).exception
    assert isinstance(error, InputError)
    assert str(error) == "--model, --run: only one found; allowed: both, or neither"
