"""Measures what a campaign costs: node-seconds on Slurm, and a part of the writers' rate.

The processes of a campaign may reduce the rate. Both costs are measured on a minicluster, with an
application that sleeps. Needs root and Slurm.
"""

import os
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from analysis.statistics.interval import median_interval
from bench import BenchRow, row_with_lower_limit, row_with_upper_limit
from bench import minicluster as mini
from records.acceptance import AcceptanceLimits
from records.checkout import ROOT
from records.errors import MachineError
from testbed.spec import Fabric
from tests.undisturbed import UNJUDGED

#: Number of blocks on Slurm. Two blocks run at a time, so that 20 take about 12 minutes.
_BLOCKS = int(os.environ.get("NIMC_BENCH_BLOCKS", "20"))
_PAIRS = 2
_RUN_S = float(os.environ.get("NIMC_BENCH_RUN_S", "15"))
#: Number of blocks in which the writers' rate is read.
_RATE_BLOCKS = 2
#: Number of pairs of turns in each of these blocks. The project's processes run in the first turn
#: of a pair, and are suspended in the second.
_TURN_PAIRS = 10
_TURN_S = 5
#: An emulated processor prints rows late, and bytes that it sends again are counted twice.
_EMULATED_LIMITS = AcceptanceLimits(
    min_share=0.001, counter_share=0.5, late_rows=10, pause_s=5, retries=0, **UNJUDGED
)
#: Time after the end of a job within which slurmctld reports to the accounting, seconds.
_ACCOUNTING_DELAY_S = 6.0


def run() -> list[BenchRow]:
    """Measure the cost of blocks over veth, and the loss of the writers' rate over rxe."""
    rows = []
    measurements: list[tuple[Fabric, Any]] = [("veth", _cost), ("rxe", _rate)]
    for fabric, measure in measurements:
        if reason := mini.why_no_minicluster(fabric):
            print(f"slurm over {fabric}: not measured: {reason}")
        else:
            rows += measure()
    return rows


def _accepted_samples(folder: Path) -> list[dict[str, Any]]:
    accepted = [sample for sample in mini.samples(folder) if sample["outcome"] == "accepted"]
    if not accepted:
        outputs = " ".join(path.read_text() for path in folder.glob("*.out"))
        raise MachineError(f"no run was accepted: {' '.join(outputs.split())[-300:]}")
    return accepted


def _cost() -> list[BenchRow]:
    """Measure the node-seconds that blocks use, for each node-second of their application.

    Two blocks run at a time on 4 nodes, each with one target and one origin.
    """
    with mini.minicluster("--nodes", "4", "--origins", "2") as folder:
        limits = AcceptanceLimits(min_share=0.001, retries=0, **UNJUDGED)
        plans = [
            mini.plan(
                folder,
                ["off", "on"],
                mini.sleeper(_RUN_S),
                {"devices": ("eth0",)},
                block=block,
                pairs=_PAIRS,
                limits=limits,
            )
            for block in range(_BLOCKS)
        ]
        jobs = [
            mini.submit(folder, f"job-{block}", 1, mini.conductor(plan))
            for block, plan in enumerate(plans)
        ]
        for job in jobs:
            job.wait()
        time.sleep(_ACCOUNTING_DELAY_S)
        accounting = subprocess.run(
            ["sacct", "-XnP", "-o", "elapsedraw,nnodes"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
            env=mini.environment(folder),
        ).stdout.split()
        samples = _accepted_samples(folder)
    # Each component of a heterogeneous job has a line with its elapsed seconds and number of nodes.
    components = [tuple(map(int, line.split("|"))) for line in accounting]
    used_node_s = sum(elapsed_s * nodes for elapsed_s, nodes in components)
    application_node_s = sum(
        sample["elapsed_s"] * len(sample["nodes"] + sample["origin_nodes"]) for sample in samples
    )
    blocks = f"{_BLOCKS} blocks of {2 * _PAIRS * _RUN_S:g} s of application"
    ratio = used_node_s / application_node_s
    overhead_s = (used_node_s - application_node_s) / len(components)
    return [
        row_with_upper_limit(f"node-seconds used / of application, {blocks}", ratio, "", 1.25),
        BenchRow("a block's time without its application", overhead_s, "s"),
    ]


#: A script that runs on a node while the application runs. It resumes and suspends the conductor
#: and the agents of the node by turns. It prints how many bytes the node's interface had sent one
#: second after the beginning of each turn, and at the end of the turn.
_TURNS_SCRIPT = r"""
begun={folder}/begun-{block}
if [ "$1" = target ]; then
  until pgrep -f 'sleep {run_s:g}' > /dev/null; do sleep 0.5; done
  echo $(($(date +%s) + 4)) > $begun.part && mv $begun.part $begun
fi
until [ -e $begun ]; do sleep 0.5; done
read -r turn_at < $begun
project_pids=$(pgrep -f 'conductor[.]agent|reframe_tests[.]conduct')
sent() {{ echo "$(date +%s.%N) $(cat /sys/class/net/eth0/statistics/tx_bytes)"; }}
wait_for() {{ now=$(date +%s); [ "$now" -ge "$1" ] || sleep $(($1 - now)); }}
for signal in $(yes CONT STOP | head -n {turn_pairs}); do
  wait_for $turn_at
  kill -s $signal $project_pids
  wait_for $((turn_at + 1))
  first=$(sent)
  turn_at=$((turn_at + {turn_s}))
  wait_for $turn_at
  echo "$signal $first $(sent)"
done
kill -s CONT $project_pids
"""


def _rate() -> list[BenchRow]:
    """Compare the rate of a writer while the project's processes run, and while they are suspended.

    Both are measured in one run, since rates on an emulated processor differ by a third between
    runs.
    """
    run_s = 2 * _TURN_S * _TURN_PAIRS + 10.0
    writes = {"injector": "perftest", "devices": ("rxe0",)}
    step = "srun --overlap --mpi=none --ntasks=1 --het-group="
    with mini.minicluster("--fabric", "rxe", "--nodes", "2", "--origins", "1") as folder:
        lines = []
        for block in range(_RATE_BLOCKS):
            plan = mini.plan(
                folder, ["on"], mini.sleeper(run_s), writes, block=block, limits=_EMULATED_LIMITS
            )
            script = folder / f"by-turns-{block}.sh"
            script.write_text(
                _TURNS_SCRIPT.format(
                    folder=folder,
                    block=block,
                    run_s=run_s,
                    turn_pairs=_TURN_PAIRS,
                    turn_s=_TURN_S,
                )
            )
            lines += [
                f"{step}0 sh {script} target > /dev/null &",
                f"{step}1 sh {script} origin > {folder}/sent-{block} &",
                mini.conductor(plan),
                "wait",
            ]
        mini.submit(folder, "job", 1, "\n".join(lines)).wait()
        rates_b_s = [
            _rate_of_turn_b_s(line)
            for path in sorted(folder.glob("sent-*"))
            for line in path.read_text().splitlines()
        ]
    running_b_s, suspended_b_s = rates_b_s[::2], rates_b_s[1::2]
    least_b_s = statistics.median(rates_b_s) / 10  # a writer that has ended writes less
    ratios = [
        running / suspended
        for running, suspended in zip(running_b_s, suspended_b_s, strict=True)
        if min(running, suspended) > least_b_s
    ]
    ratio = median_interval(ratios)
    if ratio is None:
        raise MachineError(f"writers' rate: {len(ratios)} pairs of turns; an interval needs 6")
    name = "writers' rate while agents and conductor run / are suspended"
    suspended_mb_s = statistics.median(suspended_b_s) / 1e6
    return [
        row_with_lower_limit(f"{name}, {len(ratios)} pairs of turns", ratio.value, "", 0.98),
        BenchRow("the same, lower end of its interval", ratio.low),
        BenchRow("the same, upper end", ratio.high),
        BenchRow("the rate while they are suspended, median", suspended_mb_s, "MB/s"),
    ]


def _rate_of_turn_b_s(line: str) -> float:
    """Return the rate in a turn, from the line `SIGNAL TIME BYTES TIME BYTES`."""
    begin_s, begin_b, end_s, end_b = map(float, line.split()[1:])
    return (end_b - begin_b) / (end_s - begin_s)
