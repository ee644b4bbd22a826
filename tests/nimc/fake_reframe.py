"""A stand-in for ReFrame: appends the samples that a session for the requested block would store.

The variable FAKE lists faults, separated by commas:

- `slow` makes each run take some time
- `held` waits after the warm-up until it is killed, `stuck` before the third pair
- `fail` exits with status 1 and writes a report, `die` prints a line and exits
- `reject` rejects all runs of the arm `on`, `scarce` accepts them in every sixth pair only
- `torn` is killed while it writes a line, in the third pair
- `child` leaves a process behind
- `none` ends the block without a run
- `wide` varies the figures of runs at half the rate
- `faint` makes runs of `on` 2 % slower than `off`, and all figures vary by 2.5 %
- `unread` ends before the check has read the runs
- `layout=L` halves the figures of all other layouts that are compared
- `failing=L` lets all runs of a layout fail
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from conductor.block.store import Store
from records.arms import ARMS, BASELINE
from records.block_plan import UNREAD_FILE, BlockPlan
from records.sample import Sample, WriterRecord
from records.treatment import Treatment
from reframe_tests import workload
from tests import made_writers
from tests.nimc.blocks import block_of


def faults() -> list[str]:
    return os.environ.get("FAKE", "").split(",")


def main(words: Sequence[str]) -> int:
    """Run one session; return its exit status, or a negative number of a signal."""
    plan = block_of(words)
    logs = Path(plan.nimc_dir) / "logs" / plan.case / str(plan.block)
    print(*words, flush=True)
    if "child" in faults():
        subprocess.Popen(["sleep", "300"], start_new_session=True, env={})
    if "die" in faults() or f"no-{plan.case}" in faults():
        print("ERROR: no such system: 'x'", file=sys.stderr)
        return 1
    if "none" not in faults() and not measure(plan):
        return -signal.SIGKILL
    if "fail" in faults():
        block = {"state": "application_failed", "reason": "exit status 3: out of paper"}
        (logs / "block.json").write_text(json.dumps(block))
        return 1
    if logs.is_dir():
        (logs / "block.json").write_text(json.dumps({"state": "done"}))  # as the conductor does
    return 0


def measure(plan: BlockPlan) -> bool:
    """Append the samples of a block; return whether the block was completed."""
    run = Path(plan.nimc_dir)
    unread = (
        run / "logs" / plan.case / str(plan.block) / UNREAD_FILE if "unread" in faults() else None
    )
    store = Store(run, plan.case, unread)
    if not plan.pairs:
        if not unread:
            append_unread(run / "logs" / plan.case / str(plan.block) / UNREAD_FILE, store)
        return True
    treatments = plan.treatments
    store.append(replace(scaled(crossed(plan, treatments[0], -1), 1.0), warmup=True))
    while "held" in faults():
        time.sleep(1)
    before = store.count_pairs()
    for pair in range(plan.pairs):
        while "stuck" in faults() and pair == 2:
            time.sleep(1)
        for position, treatment in enumerate(plan.order(before + pair)):
            if "slow" in faults():
                time.sleep(0.05)
            result = replace(crossed(plan, treatment, pair), position=position)
            result = scaled(result, 1 + 1e-13 * (100 * (before + pair) + position))
            for attempt in range(1 if result.outcome == "accepted" else plan.limits.retries + 1):
                key = f"{result.key[:-1]}{attempt}"
                store.append(replace(result, key=key, attempt=attempt, start_s=time.time()))
        if "torn" in faults() and pair == 2:
            path = run / "samples" / f"{plan.case}.jsonl"
            with path.open("ab") as file:
                file.write(b'{"key": "half')
            return False
    return True


def append_unread(unread: Path, store: Store) -> None:
    """Append the samples that an earlier session left unread, as the real check does."""
    for line in unread.read_text().splitlines():
        store.append(TypeAdapter(Sample).validate_json(line))
    unread.unlink()


def scaled(sample: Sample, factor: float) -> Sample:
    """Return the sample with its figure multiplied, and STREAM's further figures."""
    if sample.fom is None:
        return sample
    if sample.workload != "stream":
        return replace(sample, fom=sample.fom * factor)
    fom, array_b = sample.fom * factor, 1e5
    times_s = dict.fromkeys(("minimum_s", "average_s", "maximum_s"), 3 * array_b / fom)
    return replace(sample, fom=fom, fom_extra={"array_b": array_b, "best_b_s": fom, **times_s})


def limited(writer: WriterRecord, share: float) -> WriterRecord:
    """Return the writer, limited to a share of the rate that it reaches without an application."""
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


def crossed(plan: BlockPlan, treatment: Treatment, pair: int) -> Sample:
    """Return the sample of a treatment. Its figure is that of its arm, changed by the faults."""
    record = replace(
        sample(plan, treatment.arm, pair), arm=treatment.name, factors=treatment.factors
    )
    if "wide" in faults() and treatment.factors.get("rate") == "50%" and record.fom:
        record = replace(record, fom=record.fom * (1 + pair % 2))
    fastest = [fault.removeprefix("layout=") for fault in faults() if fault.startswith("layout=")]
    if record.fom and fastest and treatment.factors.get("layout", fastest[0]) != fastest[0]:
        record = replace(record, fom=record.fom / 2)
    if f"failing={treatment.factors.get('layout')}" in faults():
        record = replace(
            record, fom=None, outcome="application_failed", reason="exit status 1: out of memory"
        )
    if "faint" in faults() and record.fom:
        slower = 0.98 * 2 if treatment.arm == "on" else 1.0
        drawn = random.Random(f"{treatment.name} {plan.block} {pair}").gauss(1, 0.025)
        record = replace(record, fom=record.fom * slower * drawn)
    rate = str(treatment.factors.get("rate"))
    if rate.endswith("%"):
        share = float(rate[:-1]) / 100
        record = replace(record, writers=[limited(writer, share) for writer in record.writers])
    key = record.key.replace(f"/{treatment.arm}/", f"/{treatment.name}/")
    return replace(record, key=key, role=treatment.role, baseline=treatment.baseline)


def sample(plan: BlockPlan, arm: str, pair: int) -> Sample:
    """Return the sample of an arm without factors."""
    row = ARMS[arm]
    store = Store(Path(plan.nimc_dir), plan.case)
    provenance = store.keep_provenance({"made_by": "a stand-in"})
    rejected = arm == "on" and ("reject" in faults() or ("scarce" in faults() and pair % 6 > 0))
    seen = {"proof": "memory", "observed_share": 1.0, "unobserved_s": 0.0, "overwritten_share": 1.0}
    writers = [made_writers.record(**seen)] if arm == "on" else []
    if row.role == "control":
        writers = [made_writers.control()]
    result = Sample(
        key=f"{plan.case}/{plan.block}/{pair}/{arm}/0",
        case=plan.case,
        workload="stream",
        arm=arm,
        block=plan.block,
        pair=pair,
        position=0,
        attempt=0,
        warmup=False,
        outcome="rejected" if rejected else "accepted",
        reason="writer 0 wrote at 3 %" if rejected else None,
        start_s=time.time(),
        elapsed_s=1e-3,
        fom=1e10 / (2 if arm == "on" else 1),
        fom_unit="B/s",
        fom_better="higher",
        nodes=["h"],
        origin_nodes=["h"],
        provenance=provenance,
        seed=plan.seed,
        writers=writers,
        role=row.role,
        baseline=None if row.role == "baseline" else BASELINE,
    )
    if plan.workload not in workload.workload_names():  # a third-party check
        return replace(result, workload=plan.workload)
    if not plan.case.startswith("lammps"):
        return result
    time_s = 2e-4 if arm == "on" else 1e-4
    return replace(result, workload="lammps", fom=time_s, fom_unit="s", fom_better="lower")


if __name__ == "__main__":
    status = main(sys.argv[1:])
    if status < 0:
        os.kill(os.getpid(), -status)
    sys.exit(status)
