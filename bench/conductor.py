"""Measures the cost of the conductor: STREAM under it and by hand, and its time between runs."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from analysis.statistics.interval import median_interval
from bench import BenchRow, cost_of, row_with_upper_limit
from records.block_plan import BlockPlan
from records.checkout import ROOT
from records.machine import site
from reframe_tests import stream
from tests.conductor.treatments import treatments

#: Number of pairs of a run under the conductor and a run by hand. The ratios of single pairs differ
#: by several per cent. The median of 30 pairs is known to about one per cent.
_PAIRS = 30
#: A check whose application does nothing.
_NOTHING = """
import reframe as rfm
import reframe.utility.sanity as sn
@rfm.simple_test
class nothing(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    executable = 'true'
    sanity_patterns = sn.assert_true(1)
"""


def run() -> list[BenchRow]:
    """Compare the same binary on the same cores, started in both ways, in alternating order."""
    app_cpus, origin_cpus = site.load("localhost").split_cores()
    with tempfile.TemporaryDirectory() as folder:
        binary = _compile(Path(folder))
        ratios, gaps_s = [], []
        for pair in range(_PAIRS):
            by_hand_first = pair % 2 == 1
            if by_hand_first:
                by_hand_b_s = _triad_by_hand_b_s(binary, app_cpus)
            conducted_b_s, gap_s = _run_conductor(binary, Path(folder), pair, app_cpus, origin_cpus)
            if not by_hand_first:
                by_hand_b_s = _triad_by_hand_b_s(binary, app_cpus)
            ratios.append(conducted_b_s / by_hand_b_s)
            gaps_s.append(gap_s)
    ratio = median_interval(ratios)
    assert ratio
    aim_met = 0.99 <= ratio.value <= 1.01
    return [
        BenchRow(
            "STREAM triad, conducted / by hand", ratio.value, aim="0.99 to 1.01", aim_met=aim_met
        ),
        BenchRow("the same, lower end of its interval", ratio.low),
        BenchRow("the same, upper end", ratio.high),
        row_with_upper_limit("conductor's own time a run", statistics.median(gaps_s), "s", 0.15),
        BenchRow("ReFrame's own time a case", _reframe_case_s(), "s"),
    ]


def _compile(folder: Path) -> Path:
    binary = folder / "stream"
    options = ["-O3", "-march=native", "-fopenmp", "-DSTREAM_ARRAY_SIZE=16777216", "-DNTIMES=10"]
    subprocess.run(["cc", *options, "-o", binary, stream.SOURCE], check=True)
    return binary


def _openmp_variables(cpus: list[int]) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(len(cpus)), "OMP_PROC_BIND": "true", "OMP_PLACES": "cores"}


def _triad_by_hand_b_s(binary: Path, cpus: list[int]) -> float:
    """Return the triad of one run by hand, bytes per second."""
    completed = subprocess.run(
        ["taskset", "-c", ",".join(map(str, cpus)), binary],
        env={**os.environ, **_openmp_variables(cpus)},
        capture_output=True,
        text=True,
        check=True,
    )
    return stream.WORKLOAD.parse(completed.stdout).value


def _run_conductor(
    binary: Path, folder: Path, block: int, app_cpus: list[int], origin_cpus: list[int]
) -> tuple[float, float]:
    """Return the triad of a run under the conductor, and the time between two runs."""
    plan = BlockPlan(
        case="stream",
        workload="stream",
        block=block,
        seed=1,
        treatments=treatments(
            ["off"], [str(binary)], environment=_openmp_variables(app_cpus), cpus=app_cpus
        ),
        pairs=2,
        warmups=0,
        nimc_dir=str(folder / "run"),
        origin_cpus=origin_cpus,
    )
    plan.save(folder / "plan.json")
    subprocess.run(
        [sys.executable, "-m", "reframe_tests.conduct", folder / "plan.json"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    lines = (folder / "run/samples/stream.jsonl").read_text().splitlines()
    first, second = (json.loads(line) for line in lines[-2:])
    gap_s = second["start_s"] - first["start_s"] - first["elapsed_s"]
    return first["fom"], gap_s


def _reframe_case_s() -> float:
    """Return the time of a ReFrame session with one case that does nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "nothing.py"
        path.write_text(_NOTHING)
        arguments = ["-C", ROOT / "configs" / "localhost.py", "-c", path, "-r", "--prefix", folder]
        command = [str(Path(sys.executable).parent / "reframe"), *map(str, arguments)]
        return cost_of(
            lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        ).wall_s
