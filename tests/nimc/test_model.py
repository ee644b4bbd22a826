"""`nimc model`: its commands fit the contention model, predict, plot, advise and evaluate.

Computations and communications on placements (NUMA nodes of both) share the memory bandwidth.
"""

import json
from dataclasses import asdict, replace

import pytest

from analysis.contention import evaluate
from analysis.contention.sweep import Point
from nimc.cli import model
from tests.analysis.contention.made_samples import made_sample, write
from tests.analysis.contention.made_sweeps import noisy_sweep
from tests.analysis.synthetic import Case, samples, write_run

HENRI = evaluate.load_published("henri").as_dict()
ON_HENRI = ("--platform", "henri")
LOCAL = ("--comp-node", 0, "--comm-node", 0)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Returns the folder in which commands run. It has a made sweep of the machine henri."""
    document = noisy_sweep(evaluate.load_published("henri"), 0, 0.01).as_dict()
    (tmp_path / "sweep.json").write_text(json.dumps(document))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model_file(folder):
    """Returns a function that writes a model of henri with changes, and returns its path."""

    def written(**changes):
        path = folder / "model.json"
        path.write_text(json.dumps(HENRI | changes))
        return path

    return written


def test_predicted_rates_by_hand(command):
    document = command.json("model", "predict", *ON_HENRI, *LOCAL)
    (placement,) = document["placements"]
    assert (placement["comp_node"], placement["comm_node"]) == (0, 0)
    assert [point["n"] for point in placement["points"]] == list(range(1, 19))
    # By equations 3 and 4 for henri with n = 14: 14 * 4455.4 and 73423.0 - 62375.6.
    assert placement["points"][13]["comp_mb_s"] == pytest.approx(62375.6)
    assert placement["points"][13]["comm_mb_s"] == pytest.approx(11047.4)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("predict", "--model", "faulty.json"), "faulty.json: numa_nodes: 0 found; allowed: "),
        (("fit", "sweep.json", "--comm-node", 0), "--comm-node: "),
        (("fit", "sweep.json", "--kernel", "copy"), "--kernel: sweep.json is of one kernel"),
    ],
)
def test_a_mistake_is_one_line_that_begins_with_its_location(
    command, folder, model_file, words, text
):
    model_file(numa_nodes=0).rename(folder / "faulty.json")
    assert command.refused("model", *words).startswith(text)


@pytest.mark.slow
def test_fit_writes_a_model_that_predict_reads(command, folder):
    fitted = folder / "fitted.json"
    document = command.json("model", "fit", "sweep.json", "-o", fitted)
    assert document == json.loads(fitted.read_text())
    assert document["published"] is False
    assert document["remote"]["b_comp_seq_b_s"] == pytest.approx(4455.2e6, rel=0.01)
    assert len(command.json("model", "predict", "--model", fitted)["placements"]) == 4


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "sweep.json"),
        ("plot", "--model", "model.json", "--sweep", "sweep.json"),
        ("plot", "--model", "sweep.json"),
    ],
)
def test_an_output_never_replaces_an_input(command, folder, model_file, words):
    model_file().rename(folder / "model.json")
    before = (folder / "sweep.json").read_bytes()
    # A link to the input is the input, too.
    (folder / "link.json").hardlink_to(folder / "sweep.json")
    for name in ("sweep.json", "link.json"):
        assert command.refused("model", *words, "-o", name).startswith(f"--output: {name} ")
    assert (folder / "sweep.json").read_bytes() == before


@pytest.fixture
def fitted_file(command, folder):
    """Returns a model fitted to computations without communications.

    They have 4 GB/s a core, and at most 15 GB/s.
    """
    path, fitted = folder / "measured.json", folder / "alone.json"
    rates = enumerate([4e9, 8e9, 12e9, 15e9, 15e9, 15e9, 15e9, 15e9], 1)
    points = [
        asdict(Point(n=n, comp_node=0, comm_node=0, comp_alone_b_s=rate)) for n, rate in rates
    ]
    path.write_text(json.dumps({"schema": 1, "points": points}))
    command("model", "fit", path, "-o", fitted)
    return fitted


def test_a_fitted_model_is_predicted_with_and_drawn(command, fitted_file):
    predict = ("model", "predict", "--model", fitted_file)
    (placement,) = command.json(*predict)["placements"]
    predicted = [point["comp_alone_mb_s"] for point in placement["points"]]
    assert predicted == pytest.approx([4e3, 8e3, 12e3, 15e3, 15e3, 15e3, 15e3, 15e3], rel=0.01)
    page, measured = fitted_file.with_suffix(".html"), fitted_file.with_name("measured.json")
    command("model", "plot", "--model", fitted_file, "--sweep", measured, "-o", page)
    assert "equations, fitted to measurements" in page.read_text()


def membench_run(folder):
    run_samples = samples(
        Case(
            name="membench", unit="B/s", better="higher", base=1e9, effects={"on": 1.3}, noise=0.001
        ),
        pairs=6,
    )
    extra = {"cores": 18.0, "node": 0.0, "window_s": 1.0}
    return write_run(folder / "run", [replace(sample, fom_extra=extra) for sample in run_samples])


def test_a_run_with_integrity_faults_is_refused(command, folder):
    run = membench_run(folder)
    command("model", "fit", run)
    path = run / "samples/membench.jsonl"
    path.write_text(path.read_text().replace('"pair": 3', '"pair": 4'))
    command("model", "fit", run, code=2)
    assert "not to be trusted" in command.err


def test_the_numa_node_of_the_buffers_of_a_run_is_given_by_an_option(command, folder, monkeypatch):
    monkeypatch.setattr(model, "require_sound", lambda _: None)  # these samples have no provenance
    samples = [made_sample(arm, 0, 5e9, 1, node=2) for arm in ("off", "on")]
    words = (write(folder, samples, numa_nodes=4, sockets=2), "--comm-node", 2)
    assert command.refused("model", "fit", words[0], "--comm-node", 7) == (
        "--comm-node: 7 found; allowed: 0, 1, 2, 3"
    )
    command("model", "fit", *words, code=2)  # node 2 is on the other socket; node 0 has no point
    assert "comp_node 0, comm_node 0: no point" in command.err


def test_advice_marks_the_placements_that_were_measured(command, model_file):
    words = ("model", "advise", "--model", model_file(published=False), "--cores", 14)
    document = command.json(*words, "--sweep", "sweep.json")
    assert all(row["measured"] for row in document["placements"])
    document = command.json(*words)
    measured = {(r["comp_node"], r["comm_node"]): r["measured"] for r in document["placements"]}
    assert measured == {(0, 0): True, (1, 1): True, (0, 1): False, (1, 0): False}
    # These are the rates of `predict`: 62375.6 and 11047.4 MB/s.
    local = next(row for row in document["placements"] if not row["comp_node"] + row["comm_node"])
    assert [local["comp_b_s"], local["comm_b_s"]] == pytest.approx([62375.6e6, 11047.4e6])
    lines = command(*words).splitlines()
    assert {line.split()[-1] for line in lines if line.startswith("node")} == {
        "measured",
        "predicted",
    }
    text = " ".join(" ".join(lines).split())
    for sentence in document["sentences"]:
        assert sentence in text
    assert command.refused(*words[:-1], 19).startswith("--cores: 19 found; allowed: 1 to 18")


@pytest.mark.slow
def test_evaluate_fits_a_model_and_shows_its_errors(command):
    document = command.json("model", "evaluate", "sweep.json")
    assert list(document["errors"]) == ["fitted", "cores held out", "placements held out"]
    assert document["errors"]["fitted"]["comm_all_percent"] < 2
    placed = {(row["comp_node"], row["comm_node"]): row for row in document["placements"]}
    assert set(placed) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert [nodes for nodes, row in placed.items() if row["sample"]] == [(0, 0), (1, 1)]


def test_evaluate_shows_the_caveats_of_a_given_model(command, model_file):
    words = ("model", "evaluate", "sweep.json", "--model", model_file(notes=["emulation"]))
    assert command.json(*words)["notes"] == ["emulation"]


def test_no_file_of_a_run_is_replaced_by_a_model(command, folder):
    run = membench_run(folder)
    for name in ("run.json", "samples/membench.jsonl"):
        before = (run / name).read_bytes()
        line = command.refused("model", "fit", run, "-o", run / name)
        assert line.startswith(f"--output: {run / name} is read by this command")
        assert (run / name).read_bytes() == before


def test_a_folder_that_is_missing_is_named_before_the_fit(command, folder):
    line = command.refused("model", "fit", "sweep.json", "-o", folder / "no" / "m.json")
    assert line.startswith(f"--output: {folder}/no/m.json: allowed: a file in a folder")


def test_evaluate_shows_the_errors_of_a_given_model(command):
    table = command("model", "evaluate", "sweep.json", "--platform", "dahu")
    _, header, *lines = table.split("\n\n")[0].splitlines()
    assert header.split() == ["given", "model", "published,", "Table", "2"]
    # This is the row of dahu in Table 2.
    figures = ["2.76", "2.38", "2.57", "2.00", "3.85", "2.92", "2.74", "-"]
    assert [line.split()[-1] for line in lines] == figures


def test_control_sequences_in_a_model_file_are_not_sent_to_the_terminal(command, model_file):
    path = model_file(name="\x1b[31mred", notes=["\x1b[2Jgone"])
    assert "\\x1b[2Jgone" in command("model", "predict", "--model", path)
    assert "\x1b" not in command.out
