"""Overhead of a campaign on Slurm, and of the project's processes on the rate of writers.

Both on a minicluster, with an application that sleeps. Needs root and Slurm.
"""

import os
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from analysis.statistics.interval import median_interval
from bench import BenchRow, at_least, below
from bench import minicluster as mini
from records.acceptance import AcceptanceLimits
from records.errors import MachineError
from testbed.spec import Fabric
from tests.undisturbed import UNJUDGED

#: Two blocks at a time: about 12 minutes for 20.
_BLOCKS = int(os.environ.get("NIMC_BENCH_BLOCKS", "20"))
_PAIRS = 2
_RUN_S = float(os.environ.get("NIMC_BENCH_RUN_S", "15"))
#: Blocks in which the writers' rate is read, pairs of turns in each, and a turn's length.
_ROUNDS = 2
_CYCLES = 10
_TURN_S = 5
#: An emulated processor prints rows late, and what it sends again is counted twice.
_EMULATED = AcceptanceLimits(
    min_share=0.001, counter_share=0.5, late_rows=10, pause_s=5, retries=0, **UNJUDGED
)
#: slurmctld may report the accounting of a job this long after its end.
_BOOKED_S = 6.0


def run() -> list[BenchRow]:
    """Node-seconds a node-second of application over veth; rate of writers over rxe."""
    rows = []
    fabrics: list[tuple[Fabric, Any]] = [("veth", _cost), ("rxe", _rate)]
    for fabric, measure in fabrics:
        if reason := mini.missing_on_host(fabric):
            print(f"slurm over {fabric}: not measured: {reason}")
        else:
            rows += measure()
    return rows


def _accepted(folder: Path) -> list[dict[str, Any]]:
    kept = [sample for sample in mini.samples(folder) if sample["outcome"] == "accepted"]
    if not kept:
        output = " ".join(" ".join(p.read_text() for p in folder.glob("*.out")).split())
        raise MachineError(f"no run was accepted: {output[-300:]}")
    return kept


def _cost() -> list[BenchRow]:
    """Two blocks at a time on 4 nodes, each with one target and one origin."""
    with mini.minicluster("--nodes", "4", "--origins", "2") as folder:
        limits = AcceptanceLimits(min_share=0.001, retries=0, **UNJUDGED)
        writes = {"devices": ("eth0",)}
        more: dict[str, Any] = {"pairs": _PAIRS, "limits": limits}
        plans = [
            mini.plan(folder, ["off", "on"], mini.sleeper(_RUN_S), writes, block=block, **more)
            for block in range(_BLOCKS)
        ]
        jobs = [
            mini.submit(folder, f"job-{block}", 1, mini.conductor(plan))
            for block, plan in enumerate(plans)
        ]
        for job in jobs:
            job.wait()
        time.sleep(_BOOKED_S)
        booked = subprocess.run(
            ["sacct", "-XnP", "-o", "elapsedraw,nnodes"],
            check=True, capture_output=True, text=True, env=mini.environment(folder),
        ).stdout.split()  # fmt: skip
        samples = _accepted(folder)
    components = [tuple(map(int, line.split("|"))) for line in booked]
    used = sum(elapsed_s * nodes for elapsed_s, nodes in components)
    everywhere = sum(s["elapsed_s"] * len(s["nodes"] + s["origin_nodes"]) for s in samples)
    runs = f"{_BLOCKS} blocks of {2 * _PAIRS * _RUN_S:g} s of application"
    own_s = (used - everywhere) / len(components)
    return [
        below(f"node-seconds used / of application, {runs}", used / everywhere, "", 1.25),
        BenchRow("a block's time without its application", own_s, "s"),
    ]


#: Suspends the conductor and the agents of its node by turns while the application runs; prints
#: what its interface had sent after the first second of each turn, and at its end.
_BY_TURNS = r"""
begun={folder}/begun-{block}
if [ "$1" = target ]; then
  until pgrep -f 'sleep {run_s:g}' > /dev/null; do sleep 0.5; done
  echo $(($(date +%s) + 4)) > $begun.part && mv $begun.part $begun
fi
until [ -e $begun ]; do sleep 0.5; done
read -r at < $begun
own=$(pgrep -f 'conductor[.]agent|reframe_tests[.]conduct')
sent() {{ echo "$(date +%s.%N) $(cat /sys/class/net/eth0/statistics/tx_bytes)"; }}
wait_for() {{ now=$(date +%s); [ "$now" -ge "$1" ] || sleep $(($1 - now)); }}
for signal in $(yes CONT STOP | head -n {cycles}); do
  wait_for $at
  kill -s $signal $own
  wait_for $((at + 1))
  first=$(sent)
  at=$((at + {turn_s}))
  wait_for $at
  echo "$signal $first $(sent)"
done
kill -s CONT $own
"""


def _rate() -> list[BenchRow]:
    """Return the share of its rate that a writer loses to our processes, suspended by turns.

    A ratio within one run: between runs an emulated processor's rates differ by a third.
    """
    run_s = 2 * _TURN_S * _CYCLES + 10.0
    writes = {"injector": "perftest", "devices": ("rxe0",)}
    step = "srun --overlap --mpi=none --ntasks=1 --het-group="
    with mini.minicluster("--fabric", "rxe", "--nodes", "2", "--origins", "1") as folder:
        lines = []
        for block in range(_ROUNDS):
            plan = mini.plan(
                folder, ["on"], mini.sleeper(run_s), writes, block=block, limits=_EMULATED
            )
            script = folder / f"by-turns-{block}.sh"
            script.write_text(
                _BY_TURNS.format(
                    folder=folder, block=block, run_s=run_s, cycles=_CYCLES, turn_s=_TURN_S
                )
            )
            lines += [
                f"{step}0 sh {script} target > /dev/null &",
                f"{step}1 sh {script} origin > {folder}/sent-{block} &",
                mini.conductor(plan),
                "wait",
            ]
        mini.submit(folder, "job", 1, "\n".join(lines)).wait()
        turns = [_turn(line) for path in sorted(folder.glob("sent-*")) for line in path.open()]
    usual_b_s = statistics.median(turns)
    ratios = [
        own / without
        for own, without in zip(turns[::2], turns[1::2], strict=True)
        if min(own, without) > usual_b_s / 10  # a writer that ended writes nothing
    ]
    ratio = median_interval(ratios)
    if ratio is None:
        raise MachineError(f"writers' rate: {len(ratios)} turns, an interval needs 6")
    name = "writers' rate while agents and conductor run / are suspended"
    stopped_mb_s = statistics.median(turns[1::2]) / 1e6
    return [
        at_least(f"{name}, {len(ratios)} turns", ratio.value, "", 0.98),
        BenchRow("the same, lower end of its interval", ratio.low),
        BenchRow("the same, upper end", ratio.high),
        BenchRow("the rate while they are suspended, median", stopped_mb_s, "MB/s"),
    ]


def _turn(line: str) -> float:
    """Bytes a second of one turn: `SIGNAL TIME BYTES TIME BYTES`."""
    from_s, from_b, to_s, to_b = map(float, line.split()[1:])
    return (to_b - from_b) / (to_s - from_s)
