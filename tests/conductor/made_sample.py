"""A sample with every field that a store writes."""

from records.sample import Sample

SAMPLE = Sample(
    key="stream/0/0/off/0",
    case="stream",
    workload="stream",
    arm="off",
    block=0,
    pair=0,
    position=0,
    attempt=0,
    warmup=False,
    outcome="accepted",
    reason=None,
    start_s=1.0,
    elapsed_s=2.0,
    fom=3.0e9,
    fom_unit="B/s",
    fom_better="higher",
    nodes=["n1"],
    origin_nodes=["n2"],
    provenance="0" * 64,
    seed=1,
    role="baseline",
)
