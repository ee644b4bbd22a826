"""A repeated run is judged against the packed one, and repeats its plan in its order."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from analysis.compare.sides import compare_sides
from analysis.report.data import load_run
from nimc.crate.reproduce import judge
from nimc.crate.schemas import FOLDER
from nimc.crate.zipped import unzipped
from tests.analysis.synthetic import LAMMPS, STREAM, Case, header, samples, write_run
from tests.commands import Command, Nimc, call
from tests.nimc.crate.conftest import reseal
from tests.nimc.documented import assert_documented

#: Decided with so many pairs: emulated writes make it half as slow again.
PAIRS = 40
SLOW = replace(STREAM, effects={"on": 1.5, "spin": 1.02, "aa": 1.0}, noise=0.005)
NOISY = replace(SLOW, noise=0.3)
_NOT = "cannot be compared"


@pytest.mark.parametrize(
    ("packed", "new", "pairs", "outcome", "why"),
    [
        (SLOW, SLOW, PAIRS, "reproduced", "reproduced"),
        # 1.8 / 1.5 is 1.2, and 1.2 / 1.5 is 0.8.
        (SLOW, replace(SLOW, effects={**SLOW.effects, "on": 1.8}), PAIRS, "differs", "by +2"),
        (SLOW, replace(SLOW, effects={**SLOW.effects, "on": 1.2}), PAIRS, "differs", "by \u221219"),
        (SLOW, replace(SLOW, transport="soft-RoCE"), PAIRS, _NOT, "dose differs"),
        (SLOW, LAMMPS, PAIRS, _NOT, "was not measured here"),
        (SLOW, SLOW, 5, _NOT, "'too few pairs' packed"),
        (NOISY, NOISY, 6, "no difference shown", "inconclusive"),
    ],
)
def test_a_repetition_is_judged_and_says_why(
    tmp_path: Path, packed: Case, new: Case, pairs: int, outcome: str, why: str
) -> None:
    runs = []
    for name, case, seed in (("packed", packed, 1), ("new", new, 2)):
        made = samples(case, pairs=pairs, seed=seed)
        runs.append(load_run(write_run(tmp_path / name, made, header(run=name, pairs_cap=60))))
    found = judge(compare_sides(runs[:1], runs[1:]))
    assert found.outcome == outcome
    assert len(found.reasons) == 1
    assert why in found.reasons[0]


def test_a_run_without_an_effect_shows_nothing(tmp_path: Path) -> None:
    silent = samples(replace(SLOW, effects={"aa": 1.0}), pairs=6)
    runs = [load_run(write_run(tmp_path / each, silent, header(run=each))) for each in "ab"]
    found = judge(compare_sides(runs[:1], runs[1:]))
    assert (found.outcome, len(found.reasons)) == (_NOT, 1)


def test_one_effect_that_differs_decides_whatever_others_say(tmp_path: Path) -> None:
    """STREAM is slowed more than in the packed run, LAMMPS was not measured again."""
    more = replace(SLOW, effects={**SLOW.effects, "on": 1.8})
    runs = []
    for name, cases, seed in (("packed", (SLOW, LAMMPS), 1), ("new", (more,), 2)):
        made = [each for case in cases for each in samples(case, pairs=PAIRS, seed=seed)]
        runs.append(load_run(write_run(tmp_path / name, made, header(run=name, pairs_cap=60))))
    found = judge(compare_sides(runs[:1], runs[1:]))
    assert found.outcome == "differs"
    assert sorted(reason.rpartition(": ")[2] for reason in found.reasons) == [_NOT, "differs"]


@pytest.mark.parametrize(
    ("factor", "code", "said"),
    # Processors may sum in another order.
    [(1, 0, "the same"), (1 + 1e-14, 0, "the same to nine digits"), (1.001, 1, "differs")],
)
def test_the_analysis_is_the_same_but_for_last_digits(
    crate: Path, command: Command, factor: float, code: int, said: str
) -> None:
    files = unzipped(crate.read_bytes())
    results = json.loads(files["report/results.json"])
    results["runs"][0]["results"][0]["slowdown"] *= factor
    files["report/results.json"] = (json.dumps(results, indent=1) + "\n").encode()
    reseal(crate, files)
    found = command.json("reproduce", crate, "--analysis-only", code=code)
    assert found["files"] == {"report.html": "the same", "results.json": said}


def order(run: Path) -> list[str]:
    lines = (run / "samples" / "stream.jsonl").read_text().splitlines()
    return [json.loads(line)["arm"] for line in lines]


def test_the_plan_is_repeated_in_its_order(nimc: Nimc) -> None:
    assert nimc.run()[0] == 0
    packed = nimc.the_run()
    assert call(["pack", packed, "-o", "x.zip"], nimc.folder)[0] == 0
    place = ("--machine", "localhost", "--results", "again")
    words = ["reproduce", "x.zip", *place, "--json"]
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
    assert now["seed"] == was["seed"]
    assert call(["verify", new])[0] == 0
