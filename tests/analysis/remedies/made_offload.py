"""Makes runs with counts of the processor time that the system spends on writes."""

from dataclasses import replace
from itertools import chain

import numpy as np

from tests.analysis.made_counters import counter_row, write_rows
from tests.analysis.synthetic import Case, samples, write_run

#: Share of a core that a node without traffic spends on interrupts and on kernel threads.
BACKGROUND = {"irq-time": 0.01, "softirq-time": 0.05, "kernel-threads-time": 0.02}
ALL = (*BACKGROUND, "writers-time")


def rows(sample, target_s_gb, origin_s_gb, without, rng):
    """Yield the counts of two targets and an origin.

    Each target has half of the targets' softirq time. `without` names counters that are missing.
    """
    gb = sum(writer.rate_b_s for writer in sample.writers) * sample.elapsed_s / 1e9
    for tool, ranks, s_gb in (("node", 2, target_s_gb), ("origin", 1, origin_s_gb)):
        for rank in range(ranks):
            for event in sorted(set(ALL) - set(without)):
                value = BACKGROUND.get(event, 0.0) * sample.elapsed_s * rng.uniform(0.9, 1.1)
                if event == "softirq-time":
                    value += s_gb * gb / ranks * rng.uniform(0.95, 1.05)
                yield counter_row(sample.key, event, value, tool=tool, rank=rank, unit="s")


def made_run(folder, target_s_gb, origin_s_gb=0.0, *, pairs=10, without=(), origin="origin-0"):
    case = Case(
        name="melt",
        unit="s",
        better="lower",
        base=9.0,
        effects={"on": 2.0, "aa": 1.0},
        transport="InfiniBand",
        origin=origin,
    )
    runs = [replace(sample, nodes=["synthetic-0", "t1"]) for sample in samples(case, pairs=pairs)]
    run, rng = write_run(folder / "run", runs), np.random.default_rng(3)
    counted = (rows(run, target_s_gb, origin_s_gb, without, rng) for run in runs)
    write_rows(run, "melt", chain.from_iterable(counted))
    return run
