"""Made histories of machines for pages: 365 nights of 12 workloads on five machines.

Nights swing, have outliers, gaps and autocorrelation (`studies.alarms`); one machine loses
`LOSS` of STREAM in its last nights. Nothing was measured.
"""

import json
from dataclasses import replace
from datetime import timedelta

import numpy as np
import polars as pl

from analysis.history.alarms import Alarm, SeriesWatch
from analysis.pages.data import MachineHistory, PageNight
from studies.alarms import NOISES, SPREAD
from tests.analysis.history.nights_table import (
    START,
    night_rows,
    nights_table,
    runs_table,
    started_s,
)

NIGHTS = 365
#: Noise of each machine: independent, with gaps, with outliers, swinging, correlated.
_NOISES = [NOISES[each] for each in (0, 3, 8, 9, 5)]
#: How many of its last nights the first machine has lost this share.
_SHIFTED, LOSS = 25, 0.05
WORKLOADS = ("stream", *(f"workload{index}" for index in range(1, 12)))
#: Quantity -> arm, unit, better direction, and value without noise.
_KINDS = {
    "fom": ("off", "B/s", "higher", 1.6e11),
    "slowdown": ("on", "1", "lower", 1.2),
    "writer_rate": ("on", "B/s", "higher", 2.2e10),
}
FACTS = {
    "host": {"cpu_model": "made processor", "cores": 64, "memory_b": 1 << 38, "kernel": "5.14"},
    "site": {"nic": {"model": "made", "processing": "offload", "link_rate_b_s": 2.5e10}},
}


def made_histories(nights: int = NIGHTS, workloads: int = 12) -> list[MachineHistory]:
    """The machines with their last nights, without alarms and watches."""
    return [_made_history(index, nights, workloads) for index in range(len(_NOISES))]


def _made_history(index: int, nights: int, workloads: int) -> MachineHistory:
    machine = f"machine{index}"
    shape = (len(WORKLOADS) * len(_KINDS), NIGHTS)
    drawn = _NOISES[index].draw(np.random.default_rng(index), shape)[:, -nights:]
    ran = ~np.isnan(drawn[0])
    rows: list[dict[str, object]] = []
    for line, spreads in enumerate(drawn[: workloads * len(_KINDS)]):
        case, quantity = WORKLOADS[line // 3], list(_KINDS)[line % 3]
        arm, unit, better, base = _KINDS[quantity]
        values = base * np.exp((-1 if better == "higher" else 1) * SPREAD * spreads)
        if line == 0 and index == 0:
            values[-_SHIFTED:] /= 1 + LOSS
        own = {"machine": machine, "case": case, "quantity": quantity, "unit": unit}
        own |= {"better": better, "count": 10, "nodes": "n1,n2"}
        own |= {"verdict": "memory contention" if quantity == "slowdown" else None}
        # STREAM was also measured with writes, as Table II needs it.
        for treatment, by in ((arm, 1.0), *([("on", 1.2)] if line == 0 else [])):
            measured = zip((values / by).tolist(), ran, strict=True)
            rows += night_rows(
                [v if there else None for v, there in measured], **own, arm=treatment
            )
    has_interval = pl.col("quantity") != "writer_rate"
    ends = {"low": pl.col("value") * 0.99, "high": pl.col("value") * 1.01}
    table = nights_table(*rows).with_columns(
        pl.when(has_interval).then(value).alias(name) for name, value in ends.items()
    )
    made = {
        f"run{night:03}": json.dumps({"kernel": f"5.14.{night // 120}", "governor": "none"})
        for night in range(nights)
    }
    runs = runs_table(made, nodes="n1,n2").with_columns(
        machine=pl.lit(machine),
        finished_s=pl.col("started_s") + 7200,
        samples=pl.lit(480, pl.Int64),
        rejected=pl.lit(3, pl.Int64),
    )
    outcomes = [
        PageNight(START + timedelta(night), "nightly", "measured", "480 samples", run)
        if ran[night]
        else PageNight(START + timedelta(night), "nightly", "not run", "no node was free")
        for night, run in enumerate(made)
    ]
    return MachineHistory(
        machine=machine,
        runs=runs.filter(pl.Series(ran)),
        nights=table,
        known_s=started_s(nights) - 7200,
        outcomes=outcomes,
        facts=FACTS,
    )


def emulated(history: MachineHistory) -> MachineHistory:
    """The machine as one host that emulates RDMA."""
    return replace(history, emulated=["writers went through shared memory on one host"])


def made_alarm(night: str, **changes: object) -> Alarm:
    """An alarm of 5 % in a figure of merit in seconds."""
    fields: dict[str, object] = {
        **{"machine": "hpc", "campaign": "nightly", "case": "stream", "arm": "on"},
        **{"quantity": "fom", "unit": "s", "night": night, "since": night, "run": "r", "runs": []},
        **{"nodes": [], "ratio": 1.05, "ratio_low": 1.02, "ratio_high": 1.08, "reference": 1.0},
        **{"detectable": 0.02, **changes},
    }
    return Alarm(**fields)  # type: ignore[arg-type]


def made_watch(**changes: object) -> SeriesWatch:
    """The watch of the same series."""
    fields: dict[str, object] = {
        **{"machine": "hpc", "campaign": "nightly", "case": "stream", "arm": "on"},
        **{"quantity": "fom", "unit": "s", "first": "2025-01-06", "last": "2025-01-07"},
        **{"nights": 2, "baseline_nights": 40, "level": 10.0, "spread": 0.01, "score": 0.0},
        **{"limit": 6.0, "detectable": 0.021, "drift": 1.0, "changes": [], **changes},
    }
    return SeriesWatch(**fields)  # type: ignore[arg-type]
