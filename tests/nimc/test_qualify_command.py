"""`nimc qualify` on made runs: what is printed, and its exit codes."""

import json
from pathlib import Path

from tests.analysis.subjects.made_qualification import Fault, made_run
from tests.analysis.synthetic import HOST, rechain
from tests.commands import Command

OFF = Fault(offsets_s={HOST: 0.0, "origin-0": 3600.0})


def test_a_refused_claim_is_status_one(tmp_path: Path, command: Command) -> None:
    assert command.json("qualify", made_run(tmp_path / "clean"))["verdict"] == "qualified"
    run = made_run(tmp_path / "run", OFF)
    out = command("qualify", run, code=1)
    assert max(map(len, out.splitlines())) <= 80
    (line,) = [line for line in out.splitlines() if line.startswith("clocks")]
    assert "refused" in line
    claims = command.json("qualify", run, code=1)["claims"]
    assert {claim["claim"]: claim["word"] for claim in claims}["clocks"] == "refused"


def test_runs_of_others_and_edited_ones_are_not_judged(tmp_path: Path, command: Command) -> None:
    run = made_run(tmp_path / "run")
    samples = run / "samples/memory.jsonl"
    samples.write_text(samples.read_text().replace('"foreign_cpus": 0.02', '"foreign_cpus": 0.01'))
    command("qualify", run, code=2)
    assert "chain: this line was changed" in command.err
    other = made_run(tmp_path / "other")
    header = json.loads((other / "run.json").read_text())
    text = header["campaign_text"].replace("qualify", "night")
    header |= {"campaign": "night", "campaign_text": text}
    (other / "run.json").write_text(json.dumps(header))
    command("qualify", rechain(other), code=2)
    assert "campaign 'night'; allowed: qualify" in command.err


def test_a_run_without_any_sample_shows_nothing(tmp_path: Path, command: Command) -> None:
    run = made_run(tmp_path / "run")
    for path in [*(run / "samples").iterdir(), *(run / "counters").iterdir()]:
        path.unlink()
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | {"finished_s": None, "head": None}))
    claims = command.json("qualify", run, code=1)["claims"]
    states = {claim["claim"]: claim["word"] for claim in claims}
    assert states.pop("clocks") == "allowed"  # from the block's own record
    assert {*states.values()} == {"not shown"}
