"""Stands in for ReFrame: appends the samples that a session of the asked block would leave.

What it does wrong is asked for in FAKE, words with commas between: `slow` takes its time, `held`
waits after its warm-up until it is ended, `fail` ends with status 1 and a report, `die` says a line
and ends, `reject` keeps no run of the arm `on`, `torn` leaves half a line and is gone, `child`
leaves a process behind, `none` runs nothing, `wide` varies the figures of runs at half the rate,
`loss=N` halves all figures while the results folder has at most N runs.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from conductor.conductor import Store
from records.arms import ARMS, BASELINE
from records.order import pair_order
from records.sample import Sample, WriterRecord
from reframe_tests import workload
from reframe_tests.crossing import Crossed, cross, read_cells, read_factors

FAULTS = os.environ.get("FAKE", "").split(",")


def main() -> int:
    words = sys.argv[1:]
    named = [word.partition(".") for flag, word in pairwise(words) if flag == "-S"]
    settings = dict(setting.split("=", 1) for _, _, setting in named)
    settings["check"] = named[0][0]
    logs = Path(settings["nimc_dir"]) / "logs" / settings["case"] / settings["block"]
    print(*words, flush=True)
    if "child" in FAULTS:
        subprocess.Popen(["sleep", "300"], start_new_session=True, env={})
    if "die" in FAULTS:
        print("ERROR: no such system: 'x'", file=sys.stderr)
        return 1
    if "none" not in FAULTS:
        measure(settings)
    if "fail" in FAULTS:
        block = {"state": "application_failed", "reason": "exit status 3: out of paper"}
        (logs / "block.json").write_text(json.dumps(block))
        return 1
    return 0


def measure(settings: dict[str, str]) -> None:
    store = Store(Path(settings["nimc_dir"]), settings["case"])
    treatments = cross(
        settings["arms"].split(","),
        read_factors(settings.get("factors", "{}")),
        read_cells(settings.get("exclude", "[]"), "exclude"),
        read_cells(settings.get("only", "[]"), "only"),
    )
    store.append(replace(reported(crossed(settings, treatments[0], -1), 1.0), warmup=True))
    while "held" in FAULTS:
        time.sleep(1)
    named = {each.name: each for each in treatments}
    share = 0.5 if is_lossy(settings) else 1.0
    baselines = {each.name: each.baseline for each in treatments}
    tries = int(settings["retries"]) + 1
    before = store.pairs_made()
    for pair in range(int(settings["pairs"])):
        order = pair_order(baselines, int(settings["seed"]), settings["case"], before + pair)
        for position, name in enumerate(order):
            if "slow" in FAULTS:
                time.sleep(0.05)
            made = replace(crossed(settings, named[name], pair), position=position)
            made = reported(made, share * (1 + 1e-13 * (100 * (before + pair) + position)))
            for attempt in range(1 if made.outcome == "kept" else tries):
                key = f"{made.key[:-1]}{attempt}"
                store.append(replace(made, key=key, attempt=attempt, start_s=time.time()))
        if "torn" in FAULTS and pair == 2:
            path = Path(settings["nimc_dir"]) / "samples" / f"{settings['case']}.jsonl"
            with path.open("ab") as file:
                file.write(b'{"key": "half')
            os.kill(os.getpid(), signal.SIGKILL)


def is_lossy(settings: dict[str, str]) -> bool:
    """Whether the fault `loss=N` holds for this run."""
    most = [int(fault.removeprefix("loss=")) for fault in FAULTS if fault.startswith("loss=")]
    runs = Path(settings["nimc_dir"]).absolute().parent.glob("[!.]*/run.json")
    folders = {file.parent.resolve() for file in runs}  # `latest` is a link
    return bool(most) and len(folders) <= most[0]


def reported(sample: Sample, by: float) -> Sample:
    """The sample with `by` times its figure, and what STREAM reports beside it."""
    if sample.fom is None:
        return sample
    if sample.workload != "stream":
        return replace(sample, fom=sample.fom * by)
    fom, array_b = sample.fom * by, 1e5
    times_s = dict.fromkeys(("minimum_s", "average_s", "maximum_s"), 3 * array_b / fom)
    return replace(sample, fom=fom, fom_extra={"array_b": array_b, "best_b_s": fom, **times_s})


def limited(writer: WriterRecord, share: float) -> WriterRecord:
    """The writer at a share of its rate alone."""
    asked_b_s = share * writer.rate_alone_b_s
    return replace(
        writer,
        asked_b_s=asked_b_s,
        limited_by="agent",
        rate_alone_b_s=asked_b_s,
        rate_b_s=asked_b_s,
        rate_min_b_s=asked_b_s,
        bytes_b=asked_b_s * 1e-3,
    )


def crossed(settings: dict[str, str], each: Crossed, pair: int) -> Sample:
    """The sample of a treatment; its figure is that of its arm."""
    record = replace(sample(settings, each.arm, pair), arm=each.name, factors=each.factors)
    if "wide" in FAULTS and each.factors.get("rate") == "50%" and record.fom:
        record = replace(record, fom=record.fom * (1 + pair % 2))
    rate = str(each.factors.get("rate"))
    if rate.endswith("%"):
        share = float(rate[:-1]) / 100
        record = replace(record, writers=[limited(writer, share) for writer in record.writers])
    key = record.key.replace(f"/{each.arm}/", f"/{each.name}/")
    return replace(record, key=key, role=each.role, baseline=each.baseline)


def sample(settings: dict[str, str], arm: str, pair: int) -> Sample:
    """A sample of an arm without factors."""
    row = ARMS[arm]
    store = Store(Path(settings["nimc_dir"]), settings["case"])
    provenance = store.keep_provenance({"made_by": "a stand-in"})
    rejected = arm == "on" and "reject" in FAULTS
    record = WriterRecord("ucx", "h", "h", "shared memory", 65536, None, 2e9, 1e9, 1e9, 1e6)
    seen = {"observed_share": 1.0, "unobserved_s": 0.0, "overwritten_share": 1.0}
    writers = [replace(record, proof="memory", **seen)]
    made = Sample(
        key=f"{settings['case']}/{settings['block']}/{pair}/{arm}/0",
        case=settings["case"],
        workload="stream",
        arm=arm,
        block=int(settings["block"]),
        pair=pair,
        position=0,
        attempt=0,
        warmup=False,
        outcome="rejected" if rejected else "kept",
        reason="writer 0 wrote at 3%" if rejected else None,
        start_s=time.time(),
        elapsed_s=1e-3,
        fom=1e10 / (2 if arm == "on" else 1),
        fom_unit="B/s",
        fom_better="higher",
        nodes=["h"],
        origin_nodes=["h"],
        provenance=provenance,
        seed=int(settings["seed"]),
        writers=writers if arm == "on" else [],
        role=row.role,
        baseline=None if row.role == "baseline" else BASELINE,
    )
    if settings.get("check", "stream") not in workload.names():  # a check of others
        return replace(made, workload=settings["check"])
    if not settings["case"].startswith("lammps"):
        return made
    time_s = 2e-4 if arm == "on" else 1e-4
    return replace(made, workload="lammps", fom=time_s, fom_unit="s", fom_better="lower")


if __name__ == "__main__":
    sys.exit(main())
