"""A test of the whole way from the files of a tool to Table IV of the paper.

The files have made counts in the real format of `perf stat -j`, since no machine with hardware
counters was available. The real parser of the tool reads the files.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from analysis.questions.question import answer
from analysis.report.data import load_run
from analysis.subjects.correlations import CASE_CORRELATIONS, TIME
from analysis.subjects.paired_roles import MEMORY_STALLS, MISSES
from analysis.subjects.role_changes import CHANGES
from reframe_tests import conduct
from tests.analysis.made_counters import CASES, RANKS, counts, with_tool
from tests.analysis.synthetic import samples, write_run
from tests.conductor.block_plans import PLAN

TOOL = "perf_stat:memory"
LIKWID = Path(__file__).parents[2] / "captures" / "likwid" / "memory"


def perf_files(folder: Path, rows: list[dict]) -> Path:
    """Write the files that `perf stat -j` and its wrapper leave for one run."""
    folder.mkdir(parents=True)
    for rank in range(RANKS):
        own = [row for row in rows if row["rank"] == rank]
        events = ["task-clock", *(row["event"] for row in own)]
        values = [1.0, *(row["value"] for row in own)]
        lines = [
            f'{{"counter-value" : "{value:f}", "unit" : "", "event" : "{event}",'
            ' "event-runtime" : 1000, "pcnt-running" : 100.00, }'
            for event, value in zip(events, values, strict=True)
        ]
        (folder / f"rank-{rank}.json").write_text("# started\n\n" + "\n".join(lines) + "\n")
        (folder / f"rank-{rank}.events").write_text(",".join(events[1:]) + " \n")
    return folder


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The data of a run of six workloads; the tool's parser has read the counts from files."""
    root = tmp_path_factory.mktemp("table_iv")
    read_counters = conduct.readers(replace(PLAN, read_by_check=True)).counters
    runs = {case.name: with_tool(samples(case, pairs=6)) for case in CASES}
    run = write_run(root / "run", [sample for own in runs.values() for sample in own])
    (run / "counters").mkdir()
    for case in CASES:
        lines = []
        for number, sample in enumerate(runs[case.name]):
            folder = perf_files(root / case.name / str(number), list(counts(sample, case.base)))
            rows = read_counters(TOOL, folder, RANKS)
            lines += [{"key": sample.key, "tool": TOOL, **asdict(row)} for row in rows]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (run / "counters" / f"{case.name}.jsonl").write_text(text)
    return load_run(run)


def test_each_cell_of_table_iv_has_six_points_and_r_agrees_with_the_made_counts(measured):
    across = {
        (row["treatment"], row["of"], row["role"]): row
        for row in answer(CASE_CORRELATIONS, measured).filter(source="measured").to_dicts()
    }
    roles = [(TIME, role) for role in (MEMORY_STALLS, *MISSES)] + [
        (MEMORY_STALLS, role) for role in MISSES
    ]
    for cell in [(arm, *pair) for arm in ("off", "on") for pair in roles]:
        assert across[cell]["points"] == 6
        assert None not in (across[cell]["r"], across[cell]["p"])
    changes = answer(CHANGES, measured).filter(treatment="on")
    assert changes.select("case", "role").n_unique() == 6 * 6  # figure 4 has six roles
    # The expected value uses medians over the runs of a workload. They come from the generator of
    # the made counts and not from the files.
    points = []
    for case in CASES:
        own = [sample for sample in with_tool(samples(case, pairs=6)) if not sample.warmup]
        runs = [
            (sample.fom, sum(r["value"] for r in counts(sample, case.base) if r["event"] == event))
            for event in ["cycle_activity.stalls_l3_miss"]
            for sample in own
            if sample.arm == "on"
        ]
        points.append(np.median(np.array(runs), axis=0))
    expected = np.corrcoef(np.array(points).T)[0, 1]
    assert across["on", TIME, MEMORY_STALLS]["r"] == pytest.approx(expected, abs=1e-9)
