"""Makes runs of membench, whose samples are a sweep: rates of cores and writers side by side."""

import json

from records.run import save_header
from scripts.rechain import rechain
from tests import made_writers
from tests.analysis.synthetic import header, sample


def made_header(numa_nodes=1, sockets=1):
    host = {"numa_nodes": [{"number": i} for i in range(numa_nodes)], "sockets": sockets}
    return header(machine="m", campaign="contention_model", facts={"host": host})


def made_sample(
    arm, pair, fom, cores, node=None, outcome="accepted", warmup=False, workload="membench"
):
    extra = {"cores": float(cores)} | ({} if node is None else {"node": float(node)})
    writer = made_writers.record(
        origin="a",
        target="a",
        message_b=64,
        rate_alone_b_s=4e9,
        rate_b_s=fom / 10,
        rate_min_b_s=fom / 10,
        bytes_b=1.0,
    )
    return sample(
        key=f"{cores}/{node}/{pair}/{arm}/{outcome}/{warmup}/{workload}",
        case=f"c{cores}",
        workload=workload,
        arm=arm,
        pair=pair,
        warmup=warmup,
        outcome=outcome,
        reason=None if outcome == "accepted" else "why",
        provenance="p",
        fom=fom,
        fom_unit="B/s",
        fom_better="higher",
        fom_extra=extra,
        nodes=["a"],
        origin_nodes=["a"],
        writers=[writer] if arm == "on" else [],
    )


def off_and_on(**more):
    return [made_sample(arm, 0, 5e9, 1, **more) for arm in ("off", "on")]


def write(folder, samples, target_record=None, **facts):
    """Write a run, with the record of the target's agent if there is one; return its folder."""
    if target_record is not None:
        (folder / "provenance").mkdir(parents=True)
        (folder / "provenance" / "p.json").write_text(json.dumps(target_record))
    (folder / "samples").mkdir(parents=True)
    save_header(folder, made_header(**facts))
    lines = [json.dumps(s.as_dict()) + "\n" for s in samples]
    (folder / "samples" / "c.jsonl").write_text("".join(lines))
    return rechain(folder)
