"""`nimc qualify` on made runs: what is printed, kept, and known to later runs."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from nimc.base.checkout import ROOT
from nimc.campaign.prepare import prepare
from nimc.crate.schemas import FOLDER
from nimc.records.run import RunHeader, load_header
from nimc.run.folder import new_header, open_run
from tests.analysis.subjects.made_qualification import Fault, device, made_run, node
from tests.analysis.synthetic import rechain
from tests.nimc.conftest import Command, Nimc
from tests.nimc.nimc_without_figures import render

ABSENT = Fault(origin=node(device(name="mlx5_1")))


def of_machine_m() -> RunHeader:
    """The header of another campaign's run."""
    return replace(new_header(prepare(ROOT / "campaigns/quick.yaml", "localhost")), machine="m")


def test_it_is_printed_and_kept_and_later_runs_name_it(tmp_path: Path, command: Command) -> None:
    run = made_run(tmp_path / "run")
    document = command.json("qualify", "m", "--run", run)
    assert document["verdict"] == "qualified"
    schema = json.loads((FOLDER / "qualification.json").read_text())
    jsonschema.validate(document, schema)
    kept = tmp_path / "qualified/m.json"
    assert json.loads(kept.read_text()) == document
    asked = of_machine_m()
    with open_run(tmp_path, asked) as folder:
        known = load_header(folder.path).facts["qualified"]
    assert (known["run"], known["holds_for"]) == (document["run"], document["holds_for"])
    kept.chmod(0o666)  # somebody else may have written it
    with open_run(tmp_path, asked, fresh=True) as folder:
        assert "qualified" not in load_header(folder.path).facts


def test_a_refused_claim_is_status_one_and_qualifies_nothing(
    tmp_path: Path, command: Command
) -> None:
    run = made_run(tmp_path / "run", ABSENT)
    out = command("qualify", "m", "--run", run, code=1)
    assert max(map(len, out.partition("\nrun: ")[0].splitlines())) <= 80
    (line,) = [line for line in out.splitlines() if line.startswith("devices")]
    assert "refused" in line
    rows = csv.DictReader(io.StringIO(command("qualify", "m", "--run", run, "--csv", code=1)))
    assert {row["name"]: row["state"] for row in rows}["devices"] == "refused"
    with open_run(tmp_path, of_machine_m()) as folder:
        assert "qualified" not in load_header(folder.path).facts


def test_its_page_has_the_claims(tmp_path: Path, command: Command) -> None:
    run = made_run(tmp_path / "run", ABSENT)
    command("report", run)
    page = (run / "report/report.html").read_text()
    assert "origin-0 has no mlx5_0" in page
    assert "not qualified" in page


def test_runs_of_others_and_edited_ones_are_not_judged(tmp_path: Path, command: Command) -> None:
    run = made_run(tmp_path / "run")
    for machine in ("other", "m/../../x"):
        command("qualify", machine, "--run", run, code=2)
        assert "qualify on m found" in command.err
    command("qualify", "m", "--run", rechain(run))
    samples = run / "samples/memory.jsonl"
    samples.write_text(samples.read_text().replace('"foreign_cpus": 0.02', '"foreign_cpus": 0.01'))
    command("qualify", "m", "--run", run, code=2)
    assert "chain: this line was changed" in command.err
    assert command.err.count("\n") == 1


def test_a_run_without_any_sample_names_the_device_that_is_absent(
    tmp_path: Path, command: Command
) -> None:
    run = made_run(tmp_path / "run", ABSENT)
    for path in [*(run / "samples").iterdir(), *(run / "counters").iterdir()]:
        path.unlink()
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | {"finished_s": None, "head": None}))
    found = command.json("qualify", "m", "--run", run, code=1)
    states = {each["name"]: each["state"] for each in found["claims"]}
    assert states["devices"] == "refused"
    others = {state for name, state in states.items() if name not in ("devices", "records")}
    assert others == {"not shown", "allowed"}
    assert found["verdict"] == "not qualified"


@pytest.mark.parametrize(("fake", "code"), [("", 1), ("none", 3), ("fail", 1)])
def test_it_measures_with_a_stand_in_and_concludes(
    nimc: Nimc, command: Command, monkeypatch: pytest.MonkeyPatch, fake: str, code: int
) -> None:
    """Emulated writes are refused; where nothing was measured, the failure is what counts."""
    monkeypatch.setenv("NIMC_REFRAME", str(nimc.folder / "reframe"))
    monkeypatch.setenv("FAKE", fake)
    monkeypatch.setattr("analysis.report.page.render", render)
    found = command.json("qualify", "localhost", "--results", nimc.results, code=code)
    states = {each["name"]: each["state"] for each in found["claims"]}
    assert states["counter of writes"] == ("not shown" if fake == "none" else "refused")
    assert (load_header(nimc.results / found["run"]).finished_s is None) == bool(fake)
    kept = json.loads((nimc.results / "qualified/localhost.json").read_text())
    assert kept["verdict"] == "not qualified"
