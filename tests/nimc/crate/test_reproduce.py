"""A packed run is repeated: the new run has the same plan and order, and is compared with it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from analysis.compare.sides import compare_sides
from analysis.report.data import RunData
from nimc.crate.archive import read_zip
from nimc.crate.reproduce import outcome_of
from nimc.crate.schemas import FOLDER
from tests.analysis.synthetic import LAMMPS, STREAM, Case, header, loaded_run, samples
from tests.commands import Command, Nimc
from tests.in_process import call
from tests.nimc.crate.conftest import reseal
from tests.nimc.documented import assert_documented

#: So many pairs decide that emulated writes slow `SLOW` down by half.
PAIRS = 40
SLOW = replace(STREAM, effects={"on": 1.5, "spin": 1.02, "aa": 1.0}, noise=0.005)
NOISY = replace(SLOW, noise=0.3)
_NOT_COMPARABLE = "cannot be compared"


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., RunData]:
    """Returns a function that gives a made run of a case, which is made only once."""
    runs: dict[str, RunData] = {}

    def run(case: Case, pairs: int, seed: int) -> RunData:
        key = repr((case, pairs, seed))
        if key not in runs:
            folder = tmp_path_factory.mktemp("runs") / f"run-{seed}"
            run_samples = samples(case, pairs=pairs, seed=seed)
            head = header(run=folder.name, pairs_cap=60)
            runs[key] = loaded_run(folder, run_samples, head)
        return runs[key]

    return run


@pytest.mark.parametrize(
    ("packed", "new", "pairs", "outcome", "why"),
    [
        (SLOW, SLOW, PAIRS, "reproduced", "reproduced"),
        # 1.8 / 1.5 is 1.2, and 1.2 / 1.5 is 0.8.
        (SLOW, replace(SLOW, effects={**SLOW.effects, "on": 1.8}), PAIRS, "differs", "by +2"),
        (SLOW, replace(SLOW, effects={**SLOW.effects, "on": 1.2}), PAIRS, "differs", "by \u221219"),
        (
            SLOW,
            replace(SLOW, transport="soft-RoCE"),
            PAIRS,
            _NOT_COMPARABLE,
            "shared memory -> soft-RoCE",
        ),
        (SLOW, LAMMPS, PAIRS, _NOT_COMPARABLE, "was not measured here"),
        (SLOW, SLOW, 5, _NOT_COMPARABLE, "'too few pairs' packed"),
        (NOISY, NOISY, 6, "no difference shown", "inconclusive"),
    ],
)
def test_a_repetition_is_judged_and_says_why(
    run_of: Callable[..., RunData], packed: Case, new: Case, pairs: int, outcome: str, why: str
) -> None:
    sides = ([run_of(packed, pairs, 1)], [run_of(new, pairs, 2)])
    judged, (reason,) = outcome_of(compare_sides(*sides))
    assert judged == outcome
    assert why in reason


def test_a_run_without_an_effect_cannot_be_compared(run_of: Callable[..., RunData]) -> None:
    silent = replace(SLOW, effects={"aa": 1.0})
    outcome, reasons = outcome_of(compare_sides([run_of(silent, 6, 1)], [run_of(silent, 6, 2)]))
    assert (outcome, reasons) == (_NOT_COMPARABLE, ["the packed run has no effect"])


def test_one_effect_that_differs_decides_the_outcome(tmp_path: Path) -> None:
    """STREAM is slowed down more than in the packed run. LAMMPS was not measured again."""
    more = replace(SLOW, effects={**SLOW.effects, "on": 1.8})
    runs = []
    for name, cases, seed in (("packed", (SLOW, LAMMPS), 1), ("new", (more,), 2)):
        run_samples = [sample for case in cases for sample in samples(case, pairs=PAIRS, seed=seed)]
        runs.append(loaded_run(tmp_path / name, run_samples, header(run=name, pairs_cap=60)))
    outcome, reasons = outcome_of(compare_sides(runs[:1], runs[1:]))
    assert outcome == "differs"
    assert sorted(reason.rpartition(": ")[2] for reason in reasons) == [_NOT_COMPARABLE, "differs"]


def test_packed_results_with_another_figure_are_reported_as_different(
    crate: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is said of this host's machine, which is not used."""
    monkeypatch.delenv("NIMC_MACHINE", raising=False)
    monkeypatch.setattr("nimc.readiness.reframe_config.default_machine", lambda: "minicluster")
    document = command.json("reproduce", crate, "--analysis-only")
    assert command.err == ""
    assert document["files"] == {"report.html": "the same", "results.json": "the same"}
    files = read_zip(crate.read_bytes())
    results = json.loads(files["report/results.json"])
    results["runs"][0]["results"][0]["slowdown"] *= 1.001
    files["report/results.json"] = (json.dumps(results, indent=1) + "\n").encode()
    reseal(crate, files)
    document = command.json("reproduce", crate, "--analysis-only", code=1)
    assert document["files"] == {"report.html": "the same", "results.json": "differs"}


def order(run: Path) -> list[str]:
    lines = (run / "samples" / "stream.jsonl").read_text().splitlines()
    return [json.loads(line)["arm"] for line in lines]


@pytest.mark.slow
def test_the_plan_is_repeated_in_its_order(nimc: Nimc) -> None:
    """More pairs than the campaign has were requested. The crate is named by a link."""
    assert nimc.run("--pairs", "8")[0] == 0
    packed = nimc.the_run()
    assert call(["pack", packed, "-o", "x.zip"], nimc.folder)[0] == 0
    (nimc.folder / "latest.zip").symlink_to("x.zip")
    assert call(["verify", "latest.zip"], nimc.folder)[0] == 0
    options = ("--machine", "localhost", "--results", "again")
    words = ["reproduce", "latest.zip", *options, "--json"]
    status, out, err = call(words, nimc.folder, nimc.environment())
    document = json.loads(out)
    assert_documented("reproduce", document)
    schema = json.loads((FOLDER / "comparison.json").read_text())
    assert document["comparisons"]
    for row in document["comparisons"]:
        jsonschema.validate(row, schema)
    new = nimc.folder / "again" / Path(document["run"]).name
    assert status == (0 if document["outcome"] == "reproduced" else 1), err
    assert order(new) == order(packed)
    was, now = (json.loads((run / "run.json").read_text()) for run in (packed, new))
    assert now["reproduces"] == {"run": was["run"], "digest": was["digest"]}
    assert (now["seed"], now["pairs_cap"], was["pairs_cap"]) == (was["seed"], 8, 8)
    assert call(["verify", new])[0] == 0
