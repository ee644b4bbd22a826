"""Counters of tools on the page: medians a treatment, and what was not counted."""

import json
import re
from pathlib import Path

from analysis.report.data import load_run
from analysis.report.make import make_reports, write_data
from analysis.subjects.counters import counters_view
from tests.analysis.synthetic import STREAM, samples, write_run


def made(folder: Path) -> Path:
    return write_run(folder / "run", samples(STREAM, pairs=6))


def counted(run: Path) -> Path:
    """`run` with counters of two ranks on each sample of its case's first two pairs."""
    (file, *_) = sorted((run / "samples").glob("*.jsonl"))
    rows = []
    for sample in map(json.loads, file.read_text().splitlines()):
        for rank in (0, 1):
            count = 100.0 if sample["arm"] == "off" else 150.0
            base = {"key": sample["key"], "tool": "perf_stat", "rank": rank, "running_share": 1.0}
            rows += [
                {**base, "event": "faults", "value": count, "unit": "count", "state": "counted"},
                {**base, "event": "task-clock", "value": 0.5, "unit": "s", "state": "multiplexed"},
                {
                    **base,
                    "event": "cycles",
                    "value": None,
                    "unit": "count",
                    "state": "not supported",
                },
            ]
    (run / "counters").mkdir()
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (run / "counters" / file.name).write_text(text)
    return run


def test_sums_over_ranks_and_what_limits_them(tmp_path):
    run = load_run(counted(made(tmp_path)))
    case = str(run.results[0].case)
    view = counters_view(run, case)
    assert view
    assert view.treatments[:2] == ["off", "on"]
    told = {row.event: (row.values[:2], row.states) for row in view.rows}
    assert told == {
        "faults": (["200", "300"], ""),
        "task-clock": (["1.000 s", "1.000 s"], "multiplexed"),
        "cycles": (["-", "-"], "not supported"),
    }


def test_a_run_without_tools_has_no_table(tmp_path):
    run = load_run(made(tmp_path))
    assert counters_view(run, run.results[0].case) is None


def test_the_page_and_the_data_beside_it_have_them(tmp_path):
    (report,) = make_reports([counted(made(tmp_path))])
    text = report.page.read_text()
    assert re.search(r"not supported</td>", text)
    assert "counters.parquet" in [path.name for path in write_data(tmp_path, report.runs)]
