"""`nimc model` as a user calls it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from analysis.contention import published
from analysis.errors import InputError
from campaigns.commands.model import command


def run(*words):
    return CliRunner().invoke(command, [str(word) for word in words])


def test_predict_json():
    result = run("predict", "--platform", "henri", "--comp-node", 0, "--comm-node", 0, "--json")
    document = json.loads(result.output)
    (placement,) = document["placements"]
    assert (placement["comp_node"], placement["comm_node"]) == (0, 0)
    assert [point["n"] for point in placement["points"]] == list(range(1, 19))
    # henri, n = 14: 14 * 4455.4 and 73423.0 - 62375.6 (equations 3 and 4)
    assert placement["points"][13]["comp_mb_s"] == pytest.approx(62375.6)
    assert placement["points"][13]["comm_mb_s"] == pytest.approx(11047.4)


def test_predict_every_placement_of_a_model_file(tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(published.load("henri-subnuma").as_dict()))
    document = json.loads(run("predict", "--model", path, "--json").output)
    assert len(document["placements"]) == 16
    table = run("predict", "--model", path, "--comp-node", 2, "--comm-node", 2).output
    assert "11310.7" in table  # n = 12: 14391.4 - 3080.7


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "give --platform NAME or --model FILE"),
        (("--platform", "henri", "--comp-node", 7), "--comp-node 7: henri has NUMA nodes 0 to 1"),
        (("--platform", "nowhere"), "published are"),
    ],
)
def test_predict_mistakes(words, text):
    error = run("predict", *words).exception
    assert isinstance(error, InputError)
    assert text in str(error)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": 2}, "not a model file"),
        ({"cores": None}, "model.json"),
        ({"local": {}}, "local: n_par_max is missing"),
        ({"local": published.load("henri").as_dict()["local"] | {"alpha": "x"}}, "alpha must be"),
    ],
)
def test_model_file_mistakes(tmp_path, change, text):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(published.load("henri").as_dict() | change))
    error = run("predict", "--model", path).exception
    assert isinstance(error, InputError)
    assert text in str(error)
