"""Synthetic runs: samples drawn from a model with known effects. Nothing here was measured.

A figure of merit is base * allocation * pair * effect * noise. The factors of allocation, pair and
noise are log-normal around 1. So the true slowdown of a treatment is its `effect`; the factor of
the pair cancels.
"""

import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from analysis.effects.result import Result, Verdict
from analysis.questions.question import Question, answer
from analysis.report.data import RunData, load_run
from analysis.samples.columns import read_samples
from records.arms import BASELINE, arm_and_levels, arm_of, natural_key, treatment_name
from records.calls import RunCommands
from records.groups import grouped
from records.run import Requirements, RunHeader, save_header
from records.sample import Better, Level, Outcome, Sample, TimetableRecord, WriterRecord
from scripts.rechain import rechain
from tests import made_writers

HOST = "synthetic-0"
#: When synthetic runs start, Unix time.
STARTED_S = 1_780_000_000.0
#: Text of the campaigns of synthetic runs.
TEXT = "# synthetic data, nothing was measured\n"
#: Record of the provenance of synthetic runs, and its digest, which is its name.
RECORD = '{"synthetic": true}'
PROVENANCE = hashlib.sha256(RECORD.encode()).hexdigest()
#: Name of a workload of `reframe_tests/` -> units of its figures, separated by blanks.
_UNITS = {
    **dict.fromkeys(("cns", "hpccg", "lammps", "lammps_scaling"), "s"),
    **dict.fromkeys(("lulesh", "minife", "snap"), "s"),
    **dict.fromkeys(("amg", "umt", "xsbench"), "1/s"),
    **dict.fromkeys(("membench", "stream"), "B/s"),
    "numa": "B/s s",
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One case and its true effects."""

    name: str
    unit: str
    better: Better
    #: True median of the treatment `off`, in `unit`.
    base: float
    #: Treatment -> true time divided by the time of `off`. `off` itself may be left out.
    effects: dict[str, float]
    #: Standard deviation of the logarithm of a run's own factor.
    noise: float = 0.01
    #: Standard deviation of the logarithm of a pair's factor.
    pair_noise: float = 0.03
    #: Standard deviation of the logarithm of a block's factor, which only effects have.
    block_noise: float = 0.0
    transport: str = "shared memory"
    origin: str = HOST
    notes: list[str] = field(default_factory=list)
    #: Treatment -> its levels of factors.
    factors: Mapping[str, Mapping[str, Level]] = field(default_factory=dict)
    #: Treatment -> its baseline if that is not `off`.
    baselines: Mapping[str, str] = field(default_factory=dict)


STREAM = Case(
    name="stream",
    unit="B/s",
    better="higher",
    base=14.2e9,
    effects={"on": 1.35, "spin": 1.08, "aa": 1.0},
    notes=["synthetic"],
)
LAMMPS = Case(
    name="lammps", unit="s", better="lower", base=8.4, effects={"on": 1.06, "spin": 1.05, "aa": 1.0}
)


#: Treatment -> time divided by the time of `off`. A reserved core costs 10 %, and reduces the
#: slowdown from 2 to 1.21 / 1.1. A tool costs 5 %, also with the core.
REMEDIES = {
    "on": 2.0,
    "on@rate=25%": 1.5,
    "aa": 1.0,
    "off@cores=1": 1.1,
    "on@cores=1": 1.21,
    "on@rate=25%,cores=1": 1.2,
    "aa@cores=1": 1.1,
    "off@tool=p": 1.05,
    "on@tool=p": 2.1,
    "off@cores=1,tool=p": 1.155,
    "on@cores=1,tool=p": 1.32,
}


def crossed(
    case: Case, application: Mapping[str, Level], writers: Mapping[str, Level] = {}
) -> Case:
    """Return the case with factors and baselines of its treatments.

    `application` and `writers` give the first level of each factor, which names of treatments leave
    out. A baseline has the same levels of the application as its treatment. Only effects have
    factors of the writers. If the rate is a factor, other treatments have a rate of 0.
    """
    zero: Mapping[str, Level] = {"rate": 0} if "rate" in writers else {}

    def levels(name: str) -> dict[str, Level]:
        writer_levels = writers if arm_of(name).role == "effect" else zero
        named = {
            key: int(level) if level.isdigit() else level
            for key, level in arm_and_levels(name).levels.items()
        }
        return {**application, **writer_levels, **named}

    def baseline(name: str) -> str:
        named = arm_and_levels(name).levels
        return treatment_name(
            BASELINE, {k: level for k, level in named.items() if k in application}
        )

    names = {BASELINE: 1.0, **case.effects}
    factors = {name: levels(name) for name in names}
    return replace(case, factors=factors, baselines={name: baseline(name) for name in names})


def remedies(
    better: Better = "lower", times: Mapping[str, float] = REMEDIES, core: str = "cores"
) -> Case:
    """Return a case of two remedies with known prices and gains.

    Its only random factor is that of the pair. `core` is the name of the factor of a reserved core.
    """
    unit = "s" if better == "lower" else "1/s"
    effects = {name.replace("cores", core): time for name, time in times.items()}
    case = Case(
        name="melt", unit=unit, better=better, base=10.0, effects=effects, noise=0.0, pair_noise=0.2
    )
    return crossed(case, {core: 0, "tool": "none"}, {"rate": "full"})


def samples(case: Case, *, blocks: int = 1, pairs: int = 10, seed: int = 1) -> list[Sample]:
    """Draw the samples of a case, all of which are accepted.

    Each block has a warm-up, then pairs whose runs are in random order.
    """
    rng = np.random.default_rng(seed)
    drawn: list[Sample] = []
    clock_s = _started_s(case.name)
    for block in range(blocks):
        block_factor = np.exp(rng.normal(0, case.block_noise))
        runs = [(-1, 0, "off")]
        for pair in range(pairs):
            order = rng.permutation(list({"off": 1.0, **case.effects}))
            runs += [(pair, position, str(arm)) for position, arm in enumerate(order)]
        pair_factor = np.exp(rng.normal(0, case.pair_noise, pairs + 1))
        for pair, position, arm in runs:
            role = arm_of(arm).role
            time_factor = case.effects.get(arm, 1.0) * (block_factor if role == "effect" else 1.0)
            time_factor *= float(pair_factor[pair] * np.exp(rng.normal(0, case.noise)))
            time_factor *= 1 + 1e-12 * len(drawn)  # no two runs agree to all digits
            if pair < 0:
                time_factor *= 1.2
            fom = case.base / time_factor if case.better == "higher" else case.base * time_factor
            # The time that a workload reports must be shorter than its run.
            timed = case.unit == "s" and _workload(case) in _UNITS
            elapsed_s = 1.1 * fom if timed else 6.0 * time_factor
            writers = _writers(case, arm, elapsed_s, rng)
            drawn.append(
                sample(
                    case=case.name,
                    workload=_workload(case),
                    arm=arm,
                    block=block,
                    pair=pair,
                    position=position,
                    warmup=pair < 0,
                    start_s=clock_s,
                    elapsed_s=elapsed_s,
                    fom=fom,
                    fom_unit=case.unit,
                    fom_better=case.better,
                    origin_nodes=[case.origin],
                    seed=seed,
                    fom_extra=_extra(_workload(case), fom),
                    writers=writers,
                    timetable=_timetable(arm),
                    notes=case.notes,
                    baseline=None if role == "baseline" else case.baselines.get(arm, BASELINE),
                    factors=dict(case.factors.get(arm, {})),
                )
            )
            clock_s += elapsed_s + 1.0
    return drawn


def _workload(case: Case) -> str:
    """Return the workload that a case is named after if both have the same unit, else `made`."""
    name = case.name.partition("@")[0]
    return name if case.unit in _UNITS.get(name, case.unit).split() else "made"


def _extra(workload: str, fom: float) -> dict[str, float]:
    """Return figures that a workload reports beside its figure of merit."""
    if workload == "umt":
        return {"cycles": 1.0, "unknowns": 1.0}
    if workload == "lulesh":
        return {"elements": 1e6, "iterations": 1.0, "zones_1_s": 1e6 / fom}
    if workload != "stream":
        return dict.fromkeys(("sweeps_s", "matvec_s", "sparsemv_s", "ddot_s"), fom / 2)
    average_s = 3e9 / fom
    least_s, most_s = 0.98 * average_s, 1.02 * average_s
    times_s = {"average_s": average_s, "minimum_s": least_s, "maximum_s": most_s}
    return {"array_b": 1e9, "best_b_s": 3e9 / least_s, **times_s}


def _timetable(arm: str) -> TimetableRecord | None:
    """Return the timetable of one writer that kept to it; None for arms without a timetable."""
    if not arm_of(arm).scheduled:
        return None
    return TimetableRecord(writers=1, length_s=1.0, tolerance_s=0.2, allowed_share=0.1)


def _started_s(case: str) -> float:
    """Return the start of a case. Cases do not overlap, and those of STREAM come last."""
    turn = 0 if case == STREAM.name else zlib.crc32(case.encode()) % 1000 + 1
    if case.startswith(STREAM.name):
        turn += 1001
    return STARTED_S + turn * 1e4


def _writers(
    case: Case, arm: str, elapsed_s: float, rng: np.random.Generator
) -> list[WriterRecord]:
    role = arm_of(arm).role
    if role in ("baseline", "floor"):
        return []
    if role == "control":
        return [made_writers.control(origin=case.origin, target=HOST)]
    level = str(case.factors.get(arm, {}).get("rate", "full"))
    share = float(level[:-1]) / 100 if level.endswith("%") else None
    alone = 8.1e9 * (share or 1.0)
    rate = alone * float(rng.uniform(0.93, 0.99))
    return [
        made_writers.record(
            injector="ucx" if case.transport == "shared memory" else "perftest",
            origin=case.origin,
            target=HOST,
            transport=case.transport,
            asked_b_s=alone if share else None,
            limited_by="software" if share else None,
            rate_alone_b_s=alone,
            rate_b_s=rate,
            rate_min_b_s=rate * 0.97,
            bytes_b=rate * elapsed_s,
            observed_share=1.0,
            unobserved_s=0.0,
            **_proof(case.transport),
        )
    ]


def _proof(transport: str) -> dict[str, Any]:
    """Return the proof of writes: marks in memory on one host, nothing between hosts."""
    if transport == "shared memory":
        return {"proof": "memory", "overwritten_share": 1.0}
    return {"proof": "unproven"}


def changed(runs: Iterable[Sample], change: Callable[[Sample], Sample], *arms: str) -> list[Sample]:
    """Return all runs; those of these arms are changed."""
    return [change(run) if run.arm in arms else run for run in runs]


def two_unit_samples() -> list[Sample]:
    """Make runs of two programs, one for each level, which report figures in different units."""
    times = {"on": 1.5, "off@load=idle": 1.0, "on@load=idle": 1.2}
    baselines = {"on@load=idle": "off@load=idle"}
    case = Case(
        name="x", unit="s", better="lower", base=1.0, effects=times, noise=0.0, baselines=baselines
    )
    rates: dict[str, Any] = {"fom_unit": "B/s", "fom_better": "higher"}
    idle = ("off@load=idle", "on@load=idle")
    return changed(samples(case, pairs=6), lambda run: replace(run, **rates), *idle)


def at_rate(sample: Sample, rate_b_s: float, **changes: Any) -> Sample:
    """Return the run with writers that wrote at this rate all the time."""
    bytes_b = rate_b_s * sample.elapsed_s
    rates = {"rate_b_s": rate_b_s, "rate_min_b_s": rate_b_s, "bytes_b": bytes_b}
    writers = [replace(writer, **rates, **changes) for writer in sample.writers]
    return replace(sample, writers=writers)


def on_hosts(sample: Sample, *hosts: str) -> Sample:
    """Return the run with these hosts as targets; its writers are on the first host."""
    first = hosts[0]
    writers = [replace(writer, origin=first, target=first) for writer in sample.writers]
    return replace(sample, nodes=list(hosts), origin_nodes=[first], writers=writers)


def reject(sample: Sample, outcome: Outcome, reason: str) -> Sample:
    """Return the run as if it had been rejected or had failed."""
    fom = sample.fom if outcome == "rejected" else None
    changes = {"outcome": outcome, "reason": reason, "fom": fom}
    return Sample(**{**vars(sample), **changes})


def commands(run: str = "run") -> RunCommands:
    """Return the commands that continue a run of the campaign `quick` on the machine `far`."""
    return RunCommands(Path(run), "quick", "far")


def header(**changes: object) -> RunHeader:
    """Return the header of a synthetic run."""
    fields: dict[str, object] = {
        "run": "synthetic-run",
        "campaign": "synthetic",
        "machine": "synthetic machine",
        "started_s": STARTED_S,
        "finished_s": STARTED_S + 300,
        "digest": "0" * 64,
        "campaign_text": TEXT,
        "pairs_floor": 6,
        "pairs_cap": 30,
        "precision": None,
        "asked": Requirements({}, min_share=0.5, retries=2),
        "facts": {"synthetic": True, "cpu": "none", "cores": 2, "memory_b": 8 << 30},
        "versions": {"nimc": "0"},
        "commit": None,
    }
    return RunHeader(**{**fields, **changes})  # type: ignore[arg-type]


def result(**changes: object) -> Result:
    """Return a result of STREAM beside writers, with few pairs and without any interval."""
    fields: dict[str, object] = {
        "case": "stream",
        "workload": "stream",
        "arm": "on",
        "role": "effect",
        "baseline": "off",
        "pairs": 6,
        "rejected": 0,
        "off_median": 1.0,
        "on_median": 1.0,
        "unit": "s",
        "better": "lower",
        "verdict": Verdict.INCONCLUSIVE,
        **dict.fromkeys(["slowdown", "noise_floor", "control"]),
        **dict.fromkeys(["writer_rate_alone_b_s", "writer_rate_b_s"]),
        "rejections": [],
        "notes": [],
    }
    return Result(**{**fields, **changes})  # type: ignore[arg-type]


def sample(**changes: object) -> Sample:
    """Return an accepted run of STREAM. Role and baseline follow from its arm."""
    role = arm_of(str(changes.get("arm", "off"))).role
    fields: dict[str, object] = {
        "case": "stream",
        "workload": "made",
        "arm": "off",
        "block": 0,
        "pair": 0,
        "position": 0,
        "attempt": 0,
        "warmup": False,
        "outcome": "accepted",
        "reason": None,
        "start_s": 0.0,
        "elapsed_s": 1.0,
        "fom": 1.0,
        "fom_unit": "s",
        "fom_better": "lower",
        "nodes": [HOST],
        "origin_nodes": [HOST],
        "provenance": PROVENANCE,
        "seed": 1,
        "role": role,
        "baseline": None if role == "baseline" else BASELINE,
        **changes,
    }
    key = "{case}/{block}/{pair}/{arm}/{attempt}".format(**fields)
    return Sample(**{"key": key, **fields})  # type: ignore[arg-type]


def loaded_run(
    run: Path,
    runs: list[Sample],
    head: RunHeader | None = None,
    record: object = None,
    *,
    force: bool = False,
) -> RunData:
    """Write a run as `write_run` does, and return its loaded data."""
    return load_run(write_run(run, runs, head, record), force=force)


def answered(question: Question, run: Path) -> pl.DataFrame:
    """Return the answer of a question for the run in this folder."""
    return answer(question, load_run(run))


def write_run(
    run: Path, runs: list[Sample], head: RunHeader | None = None, record: object = None
) -> Path:
    """Write samples and header as a campaign would, and return the run's folder.

    The header requests these samples, and covers their time. If a `record` is given, it is the
    provenance of all samples.
    """
    head = head or header()
    later_s = head.started_s - STARTED_S
    text = RECORD if record is None else json.dumps(record)
    sha = hashlib.sha256(text.encode()).hexdigest()
    if record is not None:
        runs = [replace(sample, provenance=sha) for sample in runs]
    moved = [replace(sample, start_s=sample.start_s + later_s) for sample in runs]
    (run / "samples").mkdir(parents=True)
    save_header(run, header_suited_to(moved, head))
    _write_samples(run / "samples", moved)
    if any(sample.provenance == sha for sample in runs):
        (run / "provenance").mkdir()
        (run / "provenance" / f"{sha}.json").write_text(text)
    return rechain(run)


def _write_samples(folder: Path, runs: list[Sample]) -> list[Path]:
    """Write a file for each case; return the paths in the order of the cases' names."""
    by_case = grouped((sample.case, sample) for sample in runs)
    paths = {case: folder / f"{case}.jsonl" for case in sorted(by_case, key=natural_key)}
    for case, path in paths.items():
        lines = (json.dumps(sample, default=vars) + "\n" for sample in by_case[case])
        path.write_text("".join(lines), encoding="utf-8")
    return list(paths.values())


def frame_of(runs: list[Sample]) -> pl.DataFrame:
    """Return the samples as the frame that a report reads."""
    with TemporaryDirectory() as folder:
        return read_samples(_write_samples(Path(folder), runs)).frame


def header_suited_to(runs: list[Sample], head: RunHeader) -> RunHeader:
    """Return the header with an end, a cap, cases and treatments that suit the samples."""
    counts = Counter((s.case, s.arm) for s in runs if s.outcome == "accepted" and s.pair >= 0)
    end_s = max((sample.start_s + sample.elapsed_s for sample in runs), default=0.0)
    cases = grouped((sample.case, sample.arm) for sample in runs)
    requested = {case: list(dict.fromkeys(arms)) for case, arms in cases.items()}
    return replace(
        head,
        finished_s=head.finished_s and max(head.finished_s, end_s, head.started_s),
        pairs_cap=max([head.pairs_cap, *counts.values()]),
        asked=head.asked if head.asked.cases else Requirements(requested, min_share=0.5, retries=2),
    )
