"""A made run between two nodes, with device counters and a level of the rate. Nothing was measured.

What a conductor would have written of it, all files included: `run.json` as `nimc.run.folder` makes
it, two blocks with warm-ups and lead-ins, counts of the nodes, provenance, outputs, and what
conductor and ReFrame recorded of the blocks.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np

from nimc.base.checkout import commit
from nimc.base.marked_yaml import parse
from nimc.campaign.schema import Campaign
from nimc.machine.site import Machine
from nimc.records.order import pair_order, run_seed
from nimc.records.run import RunHeader, digest_of
from nimc.records.sample import NodeConditions, Sample, WriterRecord
from nimc.run.folder import requirements_of, resolved
from tests.analysis.integrity.completed import REFRAME, completed
from tests.analysis.integrity.files import Json, Run
from tests.analysis.synthetic import STARTED_S, sample

TARGET, ORIGIN = "n1", "n2"
CAVEAT, NOTE = "made for a test", "a made note"
TEXT = """\
name: between
workloads:
  - {check: stream}
  - {check: lammps}
arms: [off, on, aa]
factors: {rate: [0, 25%, full]}
pairs: {floor: 6, cap: 12, block: 6}
verify: {min_share: 0.5}
"""
_COUNTER = "rdma:mlx5_0/1"
#: Treatment -> time / time of `off`, share of the full rate, and baseline.
_ARMS: dict[str, tuple[float, float, str | None]] = {
    "off": (1.0, 0.0, None),
    "on@rate=25%": (1.1, 0.25, "off"),
    "on": (1.4, 1.0, "off"),
    "aa": (1.0, 0.0, "off"),
}
_ALONE_B_S = 12e9
#: What a device counts of so many bytes: the headers of their packets as well.
_HEADERS = 1.02
_PAIRS, _BLOCK = 12, 6
_MACHINE = Machine.model_validate(
    {
        **{"name": "made", "description": "two nodes that do not exist", "injector": "perftest"},
        **{"origins": {"policy": "same_job"}, "device": "mlx5_0", "caveats": [CAVEAT]},
    }
)

_PORT = {"number": 1, "state": "ACTIVE", "link_layer": "InfiniBand", "rate_b_s": 12.5e9}


def made_between(folder: Path) -> Path:
    """Writes it; returns its folder."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(STARTED_S))
    header = _header(f"between-made-{stamp}")
    run = Run(header.as_dict(), samples={}, counts={}, provenance={"": _provenance(header)})
    clock_s, rng = STARTED_S + 10.0, np.random.default_rng(1)
    for case in ("stream", "lammps"):
        for block in range(_PAIRS // _BLOCK):
            samples = _block(case, block, header, clock_s, rng)
            end_s = samples[-1].start_s + samples[-1].elapsed_s + 2.0
            run.samples.setdefault(case, []).extend(each.as_dict() for each in samples)
            counts = (count for each in samples for count in _counts(each))
            run.counts.setdefault(case, []).extend(counts)
            times = {"started_s": clock_s, "finished_s": end_s}
            recorded = {"state": "done", "reason": None, **times, "pid": 1}
            run.logs[f"logs/{case}/{block}/block.json"] = recorded
            clock_s = end_s + 20.0
    run.header["finished_s"] = clock_s
    run.rehash()
    return completed(run.write(folder / header.run), [NOTE])


def _header(name: str) -> RunHeader:
    campaign = Campaign.model_validate(parse(TEXT, Path("between.yaml")).data)
    # As `cases.expand` leaves it: the factors are those of the cases.
    cases = [each.but({"factors": campaign.factors}) for each in campaign.workloads]
    expanded = campaign.model_copy(update={"workloads": cases, "factors": {}})
    asked = resolved(expanded, _MACHINE, "login")
    found = digest_of(asked)
    return RunHeader(
        run=name,
        campaign="between",
        machine="made",
        started_s=STARTED_S,
        finished_s=None,
        digest=found,
        campaign_text=TEXT,
        pairs_floor=6,
        pairs_cap=12,
        precision=None,
        asked=requirements_of(expanded, _MACHINE),
        resolved=asked,
        facts={"host": {"hostname": "login"}, "site": _MACHINE.model_dump(mode="json")},
        versions={"nimc": "0", "reframe-hpc": REFRAME},
        commit=commit(),
        seed=run_seed(found, name),
    )


def _provenance(header: RunHeader) -> dict[str, Any]:
    device = {"name": "mlx5_0", "transport": "InfiniBand", "firmware": "1", "ports": [_PORT]}
    facts = {"cpu_model": "none", "processor": "none", "sockets": 1, "rdma": [device]}
    facts["absent_counters"] = {"RDMA": "an RDMA device with hw_counters"}
    return {
        "check": "made",
        "reframe": REFRAME,
        "commit": header.commit,
        "machine": _MACHINE.model_dump(mode="json"),
        "nodes": {name: {"hostname": name, **facts} for name in (TARGET, ORIGIN)},
        "seed": header.seed,
    }


def _block(
    case: str, block: int, header: RunHeader, clock_s: float, rng: np.random.Generator
) -> list[Sample]:
    """A warm-up and six pairs; times follow one another with lead-ins of about 4 s."""
    assert header.seed is not None
    baselines = {name: baseline for name, (_, _, baseline) in _ARMS.items()}
    runs = [(-1, 0, "off")]
    for pair in range(_BLOCK):
        names = pair_order(baselines, header.seed, case, block * _BLOCK + pair)
        runs += [(pair, position, name) for position, name in enumerate(names)]
    found: list[Sample] = []
    for pair, position, arm in runs:
        slow, share, baseline = _ARMS[arm]
        elapsed_s = 5.0 * slow * float(np.exp(rng.normal(0, 0.01)))
        before_s = found[-1].start_s + found[-1].elapsed_s if found else None
        start_s = clock_s + 8.0 if before_s is None else before_s + 4.0 + float(rng.uniform(0, 0.1))
        fom, extra = _figures(case, elapsed_s)
        writers = [_writer(share, elapsed_s, rng)] if share else []
        found.append(
            sample(
                case=case,
                workload=case,
                arm=arm,
                block=block,
                pair=pair,
                position=position,
                warmup=pair < 0,
                start_s=start_s,
                elapsed_s=elapsed_s,
                fom=fom,
                fom_unit="B/s" if case == "stream" else "s",
                fom_better="higher" if case == "stream" else "lower",
                nodes=[TARGET],
                origin_nodes=[ORIGIN],
                provenance="",
                seed=header.seed,
                fom_extra=extra,
                writers=writers,
                notes=[CAVEAT, NOTE],
                baseline=baseline,
                factors={"rate": {0.0: 0, 0.25: "25%", 1.0: "full"}[share]},
                lead_in_s=None if before_s is None else start_s - before_s,
                conditions=[_conditions(elapsed_s, writers, rng)],
            )
        )
    return found


def _figures(case: str, elapsed_s: float) -> tuple[float, dict[str, float]]:
    """STREAM makes ten triads in its run, LAMMPS is 0.4 s longer than its loop."""
    if case == "lammps":
        return elapsed_s - 0.4, {"ranks": 1.0, "steps": 100.0, "atoms": 32000.0, "cpu_share": 0.99}
    average_s = round(elapsed_s / 40, 6)
    times_s = {"average_s": average_s, "minimum_s": average_s - 1e-3, "maximum_s": average_s + 1e-3}
    best_b_s = 3e9 / times_s["minimum_s"]
    return 3e9 / average_s, {"array_b": 1e9, "best_b_s": round(best_b_s, -5), **times_s}


def _conditions(
    elapsed_s: float, writers: list[WriterRecord], rng: np.random.Generator
) -> NodeConditions:
    """Little disturbance; the device passed what was counted of the writers, or a few bytes."""
    rates_b_s = [
        each.counted_b / each.counted_s for each in writers if each.counted_b and each.counted_s
    ]
    return NodeConditions(
        TARGET,
        elapsed_s + 0.1,
        foreign_cpus=float(rng.uniform(0.01, 0.05)),
        received_b_s=sum(rates_b_s, 1e3 if not writers else 0.0),
        sent_b_s=1e3,
        counter=_COUNTER,
    )


def _writer(share: float, elapsed_s: float, rng: np.random.Generator) -> WriterRecord:
    rate_b_s = _ALONE_B_S * share * float(rng.uniform(0.96, 0.99))
    return WriterRecord(
        injector="perftest",
        origin=ORIGIN,
        target=TARGET,
        transport="InfiniBand",
        message_b=65536,
        asked_b_s=None if share == 1 else share * _ALONE_B_S,
        limited_by=None if share == 1 else "software",
        rate_alone_b_s=share * _ALONE_B_S,
        rate_b_s=rate_b_s,
        rate_min_b_s=rate_b_s * 0.98,
        rate_before_b_s=rate_b_s * 1.01,
        bytes_b=rate_b_s * elapsed_s * 0.9,
        observed_share=0.9,
        unobserved_s=0.2,
        counted_b=rate_b_s * (elapsed_s + 0.1) * _HEADERS,
        counted_s=elapsed_s + 0.1,
        counted_alone_b_s=share * _ALONE_B_S * _HEADERS,
        counter=_COUNTER,
        proof="device",
    )


def _counts(sample: Sample) -> list[Json]:
    """What the node counted in a run."""
    events = (("context-switches", round(1e3 * sample.elapsed_s), "count"), ("irq-time", 0.1, "s"))
    return [
        {"key": sample.key, "tool": "node", "rank": 0, "event": event, "value": value}
        | {"unit": unit, "state": "counted", "running_share": None}
        for event, value, unit in events
    ]
