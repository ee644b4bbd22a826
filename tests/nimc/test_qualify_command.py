"""`nimc qualify` on made runs: what is printed, stored, and known to later runs."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema

from nimc.campaign.prepare import prepare
from nimc.crate.schemas import FOLDER
from nimc.run.folder import new_header, open_run
from records.checkout import ROOT
from records.run import RunHeader, load_header
from tests.analysis.subjects.made_qualification import Fault, made_run
from tests.analysis.synthetic import HOST, rechain
from tests.commands import Command

OFF = Fault(offsets_s={HOST: 0.0, "origin-0": 3600.0})


def of_machine_m() -> RunHeader:
    """The header of another campaign's run."""
    return replace(new_header(prepare(ROOT / "campaigns/quick.yaml", "localhost")), machine="m")


def test_it_is_printed_and_stored_and_later_runs_name_it(tmp_path: Path, command: Command) -> None:
    run = made_run(tmp_path / "run")
    document = command.json("qualify", run)
    assert document["verdict"] == "qualified"
    schema = json.loads((FOLDER / "qualification.json").read_text())
    jsonschema.validate(document, schema)
    stored = tmp_path / "qualified/m.json"
    assert json.loads(stored.read_text()) == document
    asked = of_machine_m()
    with open_run(tmp_path, asked) as folder:
        known = load_header(folder.path).facts["qualified"]
    assert (known["run"], known["holds_for"]) == (document["run"], document["holds_for"])
    stored.chmod(0o666)  # somebody else may have written it
    with open_run(tmp_path, asked, fresh=True) as folder:
        assert "qualified" not in load_header(folder.path).facts


def test_a_refused_claim_is_status_one_and_qualifies_nothing(
    tmp_path: Path, command: Command
) -> None:
    run = made_run(tmp_path / "run", OFF)
    out = command("qualify", run, code=1)
    assert max(map(len, out.partition("\nstored: ")[0].splitlines())) <= 80
    (line,) = [line for line in out.splitlines() if line.startswith("clocks")]
    assert "refused" in line
    claims = command.json("qualify", run, code=1)["claims"]
    assert {claim["name"]: claim["state"] for claim in claims}["clocks"] == "refused"
    with open_run(tmp_path, of_machine_m()) as folder:
        assert "qualified" not in load_header(folder.path).facts


def test_its_page_has_the_claims(tmp_path: Path, command: Command) -> None:
    run = made_run(tmp_path / "run", OFF)
    command("report", run)
    page = (run / "report/report.html").read_text()
    assert "seconds 3.6e+03; allowed 0.1" in page
    assert "not qualified" in page


def test_runs_of_others_and_edited_ones_are_not_judged(tmp_path: Path, command: Command) -> None:
    run = made_run(tmp_path / "run")
    command("qualify", rechain(run))
    samples = run / "samples/memory.jsonl"
    samples.write_text(samples.read_text().replace('"foreign_cpus": 0.02', '"foreign_cpus": 0.01'))
    command("qualify", run, code=2)
    assert "chain: this line was changed" in command.err
    assert command.err.count("\n") == 1
    other = made_run(tmp_path / "other")
    header = json.loads((other / "run.json").read_text())
    text = header["campaign_text"].replace("qualify", "night")
    header |= {"campaign": "night", "campaign_text": text}
    (other / "run.json").write_text(json.dumps(header))
    command("qualify", rechain(other), code=2)
    assert "night found; allowed: qualify" in command.err


def test_a_run_without_any_sample_shows_nothing(tmp_path: Path, command: Command) -> None:
    run = made_run(tmp_path / "run")
    for path in [*(run / "samples").iterdir(), *(run / "counters").iterdir()]:
        path.unlink()
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | {"finished_s": None, "head": None}))
    found = command.json("qualify", run, code=1)
    states = {each["name"]: each["state"] for each in found["claims"]}
    assert states.pop("clocks") == "allowed"  # from the block's own record
    assert {*states.values()} == {"not shown"}
