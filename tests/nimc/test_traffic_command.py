"""`nimc traffic` from monitoring files to a table."""

import hashlib
import json
from pathlib import Path

import jsonschema

from nimc.crate.schemas import FOLDER
from tests.commands import Command
from tests.records.traffic.made import PLAIN


def test_a_trace_is_made_and_shown(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(PLAIN)
    trace = tmp_path / "t.parquet"
    document = command.json("traffic", "import", tmp_path / "a.csv", "-o", trace)
    assert (document["nodes"], document["seconds"]) == (2, 15)
    source = {"name": "a.csv", "format": "CSV", "metrics": ["bytes"]}
    source["sha256"] = hashlib.sha256(PLAIN.encode()).hexdigest()
    assert document["sources"] == [source]
    shown = command.json("traffic", "show", trace, "--above", "900B/s")
    jsonschema.validate(shown, json.loads((FOLDER / "traffic.json").read_text()))
    assert shown["machine"]["duty"] == 2 / 15
    text = command("traffic", "show", trace)
    assert max(map(len, text.splitlines())) <= 80
    assert "1 gap, 0 resets; their seconds" in " ".join(text.split())


def test_what_is_no_trace_is_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(PLAIN)
    command("traffic", "show", tmp_path / "a.csv", code=2)
    assert "a.csv: not a trace" in command.err
    (tmp_path / "link").symlink_to(tmp_path / "a.csv")
    command("traffic", "import", tmp_path / "a.csv", "-o", tmp_path / "x" / "t.parquet", code=3)
    assert not (tmp_path / "x").exists()
