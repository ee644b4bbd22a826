"""A repeated run is judged against the packed one, and repeats its plan in its order."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from analysis.compare.sides import compare_sides
from analysis.report.data import load_run
from nimc.crate.reproduce import Reproduction, facts_of_both, judge
from nimc.crate.schemas import FOLDER
from nimc.crate.zipped import unzipped
from nimc.run.session import NIMC
from tests.analysis.synthetic import LAMMPS, STREAM, Case, header, samples, write_run
from tests.nimc import nimc_without_figures
from tests.nimc.conftest import Command, Nimc, call
from tests.nimc.crate.conftest import reseal
from tests.nimc.documented import assert_documented

#: Decided with so many pairs: emulated writes make it half as slow again.
PAIRS = 40
SLOW = replace(STREAM, effects={"on": 1.5, "spin": 1.02, "aa": 1.0}, noise=0.005)


def judged(folder: Path, packed: Case, new: Case, pairs: int = PAIRS) -> Reproduction:
    runs = []
    for name, case, seed in (("packed", packed, 1), ("new", new, 2)):
        made = samples(case, pairs=pairs, seed=seed)
        runs.append(load_run(write_run(folder / name, made, header(run=name, pairs_cap=60))))
    return judge(compare_sides(runs[:1], runs[1:]))


def test_the_same_effect_is_reproduced(tmp_path: Path) -> None:
    found = judged(tmp_path, SLOW, SLOW)
    assert (found.outcome, len(found.reasons)) == ("reproduced", 1)


def test_another_effect_differs_and_by_how_much_is_said(tmp_path: Path) -> None:
    found = judged(tmp_path, SLOW, replace(SLOW, effects={**SLOW.effects, "on": 1.8}))
    assert found.outcome == "differs"
    assert "by +2" in found.reasons[0]  # 1.8 / 1.5 is 1.2


@pytest.mark.parametrize(
    ("new", "pairs", "why"),
    [
        (replace(SLOW, transport="soft-RoCE"), PAIRS, "dose differs"),
        (LAMMPS, PAIRS, "was not measured here"),
        (SLOW, 5, "'too few pairs' packed"),
        (replace(SLOW, noise=0.3), 6, "inconclusive"),
    ],
)
def test_what_cannot_be_compared_has_a_reason(
    tmp_path: Path, new: Case, pairs: int, why: str
) -> None:
    packed = SLOW if pairs != 6 else new
    found = judged(tmp_path, packed, new, pairs)
    assert found.outcome == "cannot be compared"
    assert why in found.reasons[0]


def test_facts_of_both_machines_are_listed_alike_or_not() -> None:
    packed = header(facts={"host": {"cpu_model": "A", "cores": 64}}, versions={"nimc": "1"})
    here = header(facts={"host": {"cpu_model": "B", "cores": 64}}, versions={"mpich": "5"})
    found = {each.what: (each.reference, each.this) for each in facts_of_both(packed, here)}
    assert found["CPU model"] == ("A", "B")
    assert found["cores"] == ("64", "64")
    assert found["version of nimc"] == ("1", "unknown")
    assert found["version of mpich"] == ("unknown", "5")


def test_the_analysis_is_the_same_byte_by_byte(crate: Path, command: Command) -> None:
    document = command.json("reproduce", crate, "--analysis-only")
    assert document["files"] == {"report.html": "the same", "results.json": "the same"}
    files = unzipped(crate.read_bytes())
    name = "report/results.json"
    files[name] = files[name].replace(b'"pairs": 8', b'"pairs": 9')
    reseal(crate, files)
    document = command.json("reproduce", crate, "--analysis-only", code=1)
    assert document["files"] == {"report.html": "the same", "results.json": "differs"}


def test_figures_may_differ_in_their_last_digits(crate: Path, command: Command) -> None:
    """Processors may sum in another order."""
    files = unzipped(crate.read_bytes())
    results = json.loads(files["report/results.json"])
    results["runs"][0]["results"][0]["slowdown"] *= 1 + 1e-14
    files["report/results.json"] = (json.dumps(results, indent=1) + "\n").encode()
    reseal(crate, files)
    document = command.json("reproduce", crate, "--analysis-only")
    assert document["files"]["results.json"] == "the same to nine digits"


def order(run: Path) -> list[str]:
    lines = (run / "samples" / "stream.jsonl").read_text().splitlines()
    return [json.loads(line)["arm"] for line in lines]


def test_the_plan_is_repeated_in_its_order(nimc: Nimc) -> None:
    assert nimc.run()[0] == 0
    packed = nimc.the_run()
    assert call(["pack", packed, "-o", "x.zip"], nimc.folder)[0] == 0
    place = ("--machine", "localhost", "--results", "again")
    words = ["reproduce", "x.zip", *place, "--json"]
    process = nimc_without_figures.start(words, nimc.folder, nimc.environment(), NIMC)
    out, err = process.communicate(timeout=300)
    document = json.loads(out)
    assert_documented("reproduce", document)
    schema = json.loads((FOLDER / "comparison.json").read_text())
    assert document["comparisons"]
    for row in document["comparisons"]:
        jsonschema.validate(row, schema)
    new = nimc.folder / "again" / Path(document["run"]).name
    assert process.returncode == (0 if document["outcome"] == "reproduced" else 1), err
    assert order(new) == order(packed)
    was, now = (json.loads((run / "run.json").read_text()) for run in (packed, new))
    assert now["reproduces"] == {"run": was["run"], "digest": was["digest"]}
    assert now["seed"] == was["seed"]
    facts = {each["what"]: each for each in document["facts"]}
    assert facts["machine"]["reference"] == facts["machine"]["this"] == "localhost"
    assert call(["verify", new])[0] == 0
