"""Tests of the Python module `nimc`, and of the notebook that shows how it is used."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nimc
from records.checkout import ROOT
from scripts.rechain import rechain
from tests.analysis.history.made import add_cycles, made_run
from tests.analysis.report.tables import add_table
from tests.analysis.synthetic import LAMMPS, STREAM, header, reject, samples, write_run

NOTEBOOK = ROOT / "docs/first-look.ipynb"


def test_a_run_is_four_frames(tmp_path: Path) -> None:
    run = made_run(tmp_path / "monday")
    add_cycles(run)
    loaded = nimc.load(str(run))
    assert loaded.samples.height == 20
    # Two treatments have six pairs each. Two ranks have counters in six runs.
    assert loaded.pairs.height == 12
    assert loaded.counters.height == 12
    figures = loaded.results.select("arm", "off_median", "on_median", "pairs", "verdict", "factors")
    assert figures.rows() == [
        ("on", 12.5, 25.0, 6, "control missing", "{}"),
        ("aa", 12.5, 12.5, 6, "baseline repeatability", "{}"),
    ]
    for frame in (loaded.samples, loaded.pairs, loaded.results, loaded.counters):
        named = frame.select("machine", "campaign", "run").unique()
        assert named.rows() == [("m", "nightly", "monday")]
    assert loaded.faults == []


def test_several_runs_are_one_frame_each(tmp_path: Path) -> None:
    without_effects = samples(replace(STREAM, effects={}), pairs=6)
    runs = [
        made_run(tmp_path / "monday"),
        write_run(tmp_path / "plain", without_effects, header(run="plain")),
        write_run(tmp_path / "short", samples(STREAM, pairs=4), header(run="short")),
        write_run(tmp_path / "empty", [], header(run="empty", finished_s=None)),
    ]
    loaded = nimc.load(runs)
    assert loaded.samples.group_by("run").len().sort("run").rows() == [
        ("monday", 20),
        ("plain", 7),
        ("short", 17),
    ]
    # Four pairs are too few for an interval, so there is no slowdown.
    shown = loaded.results.filter(arm="on").select("run", "slowdown").rows()
    assert [(run, value is None) for run, value in shown] == [("monday", False), ("short", True)]


def test_faults_are_refused_and_shown_if_asked(tmp_path: Path) -> None:
    run = made_run(tmp_path / "monday")
    path = run / "samples/melt.jsonl"
    path.write_text(path.read_text().replace('"workload": "melt"', '"workload": "x"', 1))
    rechain(run)
    with pytest.raises(nimc.InputError, match="not to be trusted"):
        nimc.load(run)
    loaded = nimc.load(run, force=True)
    assert len(loaded.faults) == 2
    with pytest.raises(nimc.InputError, match="an empty list"):
        nimc.load([])


def test_history_has_results_and_nights_of_what_can_be_used(tmp_path: Path) -> None:
    spoilt, _ = (
        add_table(made_run(tmp_path / name, day=day))
        for day, name in enumerate(("monday", "tuesday"))
    )
    spoilt.chmod(0o666)
    history = nimc.history(tmp_path, machine="m")
    assert history.results["run"].unique().to_list() == ["tuesday"]
    assert history.nights.filter(quantity="slowdown").height == 1
    assert history.left_out == [f"{spoilt}: can be written by others (mode 666)"]
    for runs, machine, reason in (
        (tmp_path / "other", None, "there is no such folder"),
        (tmp_path / "monday", None, "is a run; allowed: the folder that it is in"),
        ([], None, "^results: an empty list; allowed: a folder of runs, or several$"),
        (tmp_path, "n", "^machine: 'n' found; allowed, as these have reports: m$"),
    ):
        with pytest.raises(nimc.InputError, match=reason):
            nimc.history(runs, machine=machine)


def test_a_run_that_is_given_twice_is_read_once(tmp_path: Path) -> None:
    run = made_run(tmp_path / "monday")
    add_table(run)
    assert nimc.load([run, str(run)]).samples.height == 20
    assert nimc.history([tmp_path, tmp_path]).nights.height == nimc.history(tmp_path).nights.height


def code_cells(notebook: Path) -> list[str]:
    document = json.loads(notebook.read_text())
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in document["cells"]]
    assert len(set(ids)) == len(ids)
    cells = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    # The committed notebook has tables and a figure as outputs, and no error.
    assert kinds == {"execute_result", "display_data"}
    return ["".join(cell["source"]) for cell in cells]


def test_the_notebook_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs the code cells in order, as one program, in a folder with a folder of results."""
    results = tmp_path / "results"
    runs = samples(STREAM, pairs=8) + samples(LAMMPS, pairs=8)
    later = reject(runs[-1], "rejected", "foreign traffic")
    run = write_run(results / "night", [*runs[:-1], later], header(run="night", pairs_floor=6))
    add_table(run)
    (results / "latest").symlink_to("night")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec("\n".join(code_cells(NOTEBOOK)), names)
    # There are two cases with three treatments each. The figure has a line for each of the six
    # slowdowns, and the line at 1. Each case has one effect.
    assert (names["results"].height, names["slowdowns"].height) == (6, 2)
    assert len(names["axes"].lines) == 7
