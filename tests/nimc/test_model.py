"""`nimc model` as a user calls it."""

import json

import pytest
from click.testing import CliRunner

from analysis.contention import evaluate
from nimc.base.errors import InputError
from nimc.cli import model
from nimc.cli.model import model_command
from studies.made_sweeps import sweep
from tests.analysis.contention.test_from_run import made_sample, write
from tests.analysis.contention.test_slowdown import slowdown_run

HENRI = evaluate.load_published("henri").as_dict()


def run(*words):
    return CliRunner().invoke(model_command, [str(word) for word in words])


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
    path.write_text(json.dumps(evaluate.load_published("henri-subnuma").as_dict()))
    document = json.loads(run("predict", "--model", path, "--json").output)
    assert len(document["placements"]) == 16
    table = run("predict", "--model", path, "--comp-node", 2, "--comm-node", 2).output
    assert "11310.7" in table  # n = 12: 14391.4 - 3080.7


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "give --platform NAME or --model FILE"),
        (("--platform", "henri", "--comp-node", 7), "--comp-node 7: henri has NUMA nodes 0 to 1"),
        (("--platform", "nowhere"), "allowed: billy"),
    ],
)
def test_predict_mistakes(words, text):
    error = run("predict", *words).exception
    assert isinstance(error, InputError)
    assert text in str(error)


def test_a_mistake_in_a_model_file_is_named(tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(HENRI | {"numa_nodes": 0}))
    error = run("predict", "--model", path).exception
    assert isinstance(error, InputError)
    assert str(error).startswith(f"{path}: numa_nodes: 0 found; allowed: ")


def test_a_rate_may_be_a_whole_number_of_any_length(tmp_path):
    """10^19 B/s does not fit a machine's integer; as a float it is 10^13 MB/s."""
    path = tmp_path / "model.json"
    local = HENRI["local"] | {"b_comm_seq_b_s": 10**19}
    path.write_text(json.dumps(HENRI | {"local": local}))
    done = run("predict", "--model", path, "--json")
    points = json.loads(done.output)["placements"][0]["points"]
    assert {point["comm_alone_mb_s"] for point in points} == {1e13}


@pytest.fixture
def sweep_file(tmp_path):
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(sweep(evaluate.load_published("henri"), 0, 0.01).as_dict()))
    return path


def test_fit_writes_a_model_that_predict_reads(tmp_path, sweep_file):
    model = tmp_path / "fitted.json"
    words = ("fit", sweep_file, "--folds", 2)
    document = json.loads(run(*words, "-o", model, "--json").output)
    assert document == json.loads(model.read_text())
    assert document["kind"] == "paper"
    assert document["remote"]["b_comp_seq_b_s"] == pytest.approx(4455.2e6, rel=0.01)
    assert document["published"] is False
    rows = json.loads(run("predict", "--model", model, "--json").output)["placements"]
    assert len(rows) == 4


@pytest.fixture
def improved_file(tmp_path):
    """An improved model of computations in two groups of four cores, 4, 8, 8, 7 GB/s each."""
    rates = [4, 8, 8, 7, 11, 15, 15, 14]
    path = tmp_path / "groups.csv"
    lines = [f"{n},0,0,{rate}e9" for n, rate in enumerate(rates, 1)]
    path.write_text("\n".join(["n,comp_node,comm_node,comp_alone_b_s", *lines, ""]))
    model = tmp_path / "groups.json"
    words = ("--kind", "improved", "--groups", 4, "--order", "compact", "--folds", 3)
    table = run("fit", path, *words, "-o", model).output
    assert "improved model" in table
    assert "one for each group" in " ".join(table.split())
    return model


def test_models_of_both_kinds_are_used_alike(tmp_path, improved_file):
    document = json.loads(run("predict", "--model", improved_file, "--json").output)
    assert document["kind"] == "improved"
    (placement,) = document["placements"]
    alone = [point["comp_alone_mb_s"] for point in placement["points"]]
    assert alone == pytest.approx([4e3, 8e3, 8e3, 7e3, 11e3, 15e3, 15e3, 14e3], rel=0.05)
    # Two cores of each of two groups: 8 + 8.
    words = ("predict", "--model", improved_file, "--order", "spread")
    (placement,) = json.loads(run(*words, "--json").output)["placements"]
    assert placement["points"][3]["comp_alone_mb_s"] == pytest.approx(16e3, rel=0.05)
    bands = placement["bands"]
    assert bands["held_out"] == "numbers of cores"
    assert bands["comp_alone"]["points"] == 6
    table = run(*words).output
    assert "predicted spread: " in table
    assert " +-" in table
    page = tmp_path / "groups.html"
    run("plot", "--model", improved_file, "--sweep", improved_file.with_suffix(".csv"), "-o", page)
    assert "improved model" in page.read_text()
    assert "Error bands, local: " in page.read_text()
    # Nothing was measured together, so there is nothing to recommend.
    error = run("recommend", "--model", improved_file).exception
    assert "nothing can be predicted" in str(error)


def test_an_order_needs_groups():
    error = run("predict", "--platform", "henri", "--order", "spread").exception
    assert isinstance(error, InputError)
    assert "--order spread: henri has one capacity" in str(error)


def test_a_run_with_integrity_faults_is_refused(tmp_path):
    run_folder = slowdown_run(tmp_path)
    assert run("fit", run_folder).exit_code == 0
    path = run_folder / "samples/membench.jsonl"
    path.write_text(path.read_text().replace('"pair": 3', '"pair": 4'))
    error = run("fit", run_folder).exception
    assert isinstance(error, InputError)
    assert "not to be trusted" in str(error)


def test_facts_that_are_given_overrule_a_run_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(model, "require_sound", lambda _: None)  # its samples have no provenance
    samples = [made_sample(arm, 0, 5e9, 1, node=2) for arm in ("off", "on")]
    run_folder = write(tmp_path, samples, numa_nodes=4, sockets=2)
    words = (run_folder, "--comm-node", 2)
    error = run("fit", *words).exception  # node 2 is the other socket's: nothing on node 0
    assert "comp_node 0, comm_node 0: no point" in str(error)
    error = run("fit", *words, "--numa-nodes", 2).exception
    assert isinstance(error, InputError)
    assert "allowed: below 2, the machine's NUMA nodes" in str(error)
    page = tmp_path / "m.html"
    plot = ("plot", "--platform", "henri-subnuma", "--sweep", *words, "-o", page)
    assert str(page) in run(*plot).output


def test_a_file_has_no_need_for_the_node_of_the_buffers(sweep_file):
    error = run("fit", sweep_file, "--comm-node", 0).exception
    assert "--comm-node: " in str(error)


def test_evaluate_both_models(sweep_file):
    document = json.loads(run("evaluate", sweep_file, "--folds", 2, "--json").output)
    assert list(document["errors"]) == [
        "paper",
        "paper, cores held out",
        "paper, placements held out",
        "improved",
        "improved, cores held out",
        "improved, placements held out",
    ]
    assert document["errors"]["paper"]["comm_all_percent"] < 2
    placed = {(row["comp_node"], row["comm_node"]): row for row in document["placements"]}
    assert set(placed) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert [at for at, row in placed.items() if row["sample"]] == [(0, 0), (1, 1)]


def test_evaluate_a_given_model(sweep_file):
    table = run("evaluate", sweep_file, "--platform", "dahu").output
    _, header, *lines = table.split("\n\n")[0].splitlines()
    assert header.split() == ["given", "model", "published,", "Table", "2"]
    # Table 2's row of dahu.
    figures = ["2.76", "2.38", "2.57", "2.00", "3.85", "2.92", "2.74", "-"]
    assert [line.split()[-1] for line in lines] == figures


@pytest.mark.parametrize("words", [("fit",), ("evaluate",), ("predict", "--model")])
def test_a_file_that_is_not_there_is_wrong_input(tmp_path, words):
    path = tmp_path / "none.json"
    error = run(*words, path).exception
    assert isinstance(error, InputError)
    assert str(error) == f"{path}: does not exist"


def test_recommend():
    words = ("recommend", "--platform", "henri", "--cores", 18)
    assert "compute with 17 cores, put communication buffers on NUMA node 1" in run(*words).output
    document = json.loads(run(*words, "--per-core", "2GB/s", "--json").output)
    assert document["best"]["n"] == 18
    error = run(*words, "--traffic", "fast").exception
    assert isinstance(error, InputError)
    assert "--traffic" in str(error)


def test_a_name_in_a_model_file_does_not_command_the_terminal(tmp_path):
    path = tmp_path / "model.json"
    made = HENRI | {
        "name": "\x1b[31mred",
        "notes": ["\x1b[2Jgone"],
    }
    path.write_text(json.dumps(made))
    for words in (("predict",), ("recommend",)):
        done = CliRunner().invoke(model_command, [*words, "--model", str(path)], color=True)
        assert "\\x1b[2Jgone" in done.output
        assert "\x1b" not in done.output


def test_rates_with_three_bands_are_one_line_each(tmp_path):
    band = {"width": 0.05, "mean": 0.02, "points": 20}
    rates = dict.fromkeys(("comp_par", "comm_par", "comp_alone"), band)
    bands = {"local": {"held_out": "numbers of cores", **rates}}
    path = tmp_path / "model.json"
    path.write_text(json.dumps(HENRI | {"bands": bands}))
    words = ("predict", "--model", path, "--comp-node", 0, "--comm-node", 0)
    # henri, n = 14, as above; 5 % of each rate but that of communications alone.
    row = "14 62375.6 +- 3118.8 62375.6 +- 3118.8 11047.4 +- 552.4 11481.1"
    assert row.split() in [line.split() for line in run(*words).output.splitlines()]
