"""Makes a run with a free core, with known true times."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.report.data import RunData
from records.sample import NodeConditions
from tests.analysis.synthetic import HOST, Case, crossed, header, loaded_run, samples

#: Time with a free core divided by time with all cores: the price of 6.4 % in figure 6c.
CORE_PRICE = 1.064
#: Treatment -> time divided by the time of `off`. With a free core, writes of the arm `daly` cost
#: nothing, those of `constant` 10 %.
TIMES = {
    "daly": 1.5,
    "constant": 1.2,
    "aa": 1.0,
    "off@reserved_cores=1": CORE_PRICE,
    "aa@reserved_cores=1": CORE_PRICE,
    "daly@reserved_cores=1": CORE_PRICE,
    "constant@reserved_cores=1": 1.1 * CORE_PRICE,
}

#: Device -> CPUs -> number of its interrupts; CPU 7 is the free one.
INTERRUPTS = {"mlx5_0": {"7": 3, "0-7": 1}, "eth0": {"0": 2}}


def free_core_run(
    folder: Path,
    times: Mapping[str, float] = TIMES,
    interrupts: Mapping[str, Any] = INTERRUPTS,
    noise: float = 0.001,
    scales: Sequence[int] = (4,),
    first_level: int = 0,
) -> RunData:
    """Return a run in which treatments whose names have no level reserve `first_level` cores."""
    cases = [
        Case(
            name=f"lammps_scaling@{nodes}",
            unit="s",
            better="lower",
            base=10.0,
            effects=dict(times),
            noise=noise,
            origin="other",
        )
        for nodes in scales
    ]
    runs = [
        replace(
            sample,
            conditions=[
                NodeConditions(
                    node=HOST, over_s=1.0, free_cpus="7" * (sample.factors["reserved_cores"] != 0)
                )
            ],
        )
        for case in cases
        for sample in samples(
            crossed(replace(case, transport="InfiniBand"), {"reserved_cores": first_level}),
            pairs=12,
        )
    ]
    record = {"nodes": {HOST: {"interrupts": interrupts}}}
    head = header(facts={"site": {"device": "mlx5_0:1"}})
    return loaded_run(folder / "run", runs, head, record)
