"""Made histories of machines for pages: 365 nights of 12 workloads on five machines.

Nights swing, have outliers, gaps and autocorrelation (`studies.alarms`); one machine loses
`LOSS` of STREAM from night `SHIFTED` on. Nothing was measured.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import polars as pl

from analysis.history.alarms import Alarm, SeriesWatch
from analysis.history.tables import NIGHTS as NIGHT_COLUMNS
from analysis.history.tables import RUNS as RUN_COLUMNS
from analysis.pages.data import MachineHistory, PageNight
from studies.alarms import NOISES, SPREAD

START = date(2025, 1, 1)
NIGHTS = 365
QUANTITIES = ("fom", "slowdown", "writer_rate")
#: Noise of each machine: independent, with gaps, with outliers, swinging, correlated.
_NOISES = [NOISES[each] for each in (0, 3, 8, 9, 5)]
#: The machine with a planted loss, its first night, and the loss as a share.
SHIFTED_MACHINE, SHIFTED, LOSS = "machine0", 340, 0.05
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
    """The machines, without alarms and watches."""
    return [
        made_history(index, nights=nights, workloads=workloads) for index in range(len(_NOISES))
    ]


def made_history(index: int, *, nights: int = NIGHTS, workloads: int = 12) -> MachineHistory:
    """One machine with its last nights; its noise is that of `_NOISES[index]`."""
    machine = f"machine{index}"
    shape = (len(WORKLOADS) * len(QUANTITIES), NIGHTS)
    values = _NOISES[index].draw(np.random.default_rng(index), shape)[:, -nights:]
    first = START + timedelta(NIGHTS - nights)
    measured = np.flatnonzero(~np.isnan(values[0]))
    days = [first + timedelta(int(each)) for each in measured]
    shifted = np.array([machine == SHIFTED_MACHINE and (d - START).days >= SHIFTED for d in days])
    frames = [
        _series(machine, WORKLOADS[line // 3], QUANTITIES[line % 3], days, values[line, measured])
        for line in range(3 * workloads)
    ]
    hit = pl.Series(np.tile(shifted, 3 * workloads))
    table = pl.concat(frames).with_columns(
        pl.when(hit & (pl.col("case") == "stream") & (pl.col("quantity") == "fom"))
        .then(pl.col("value", "low", "high") / (1 + LOSS))
        .otherwise(pl.col("value", "low", "high"))
        .name.keep()
    )
    # STREAM was also measured with writes, as Table II needs it.
    stream = table.filter(pl.col("case") == "stream", pl.col("quantity") == "fom")
    on = stream.with_columns(
        arm=pl.lit("on"), **{name: pl.col(name) / 1.2 for name in ("value", "low", "high")}
    )
    return MachineHistory(
        machine=machine,
        runs=_runs(machine, days),
        nights=pl.concat([table, on]).select(list(NIGHT_COLUMNS)),
        known_s=((first - date(1970, 1, 1)).days + nights) * 86400.0,
        outcomes=list(_outcomes(first, nights, days)),
        facts=FACTS,
    )


def emulated(history: MachineHistory) -> MachineHistory:
    """The machine as one host that emulates RDMA."""
    return replace(history, emulated=["writers went through shared memory on one host"])


def _series(
    machine: str, case: str, quantity: str, days: list[date], spreads: np.ndarray
) -> pl.DataFrame:
    arm, unit, better, base = _KINDS[quantity]
    sign = -1 if better == "higher" else 1
    value = base * np.exp(sign * SPREAD * spreads)
    none = pl.lit(None, pl.Float64)
    verdict = pl.lit("memory contention" if quantity == "slowdown" else None, pl.String)
    own = {"machine": machine, "campaign": "nightly", "case": case, "arm": arm}
    frame = pl.DataFrame({"night": days, "value": value}).with_columns(
        *(pl.lit(text).alias(name) for name, text in own.items()),
        run=pl.format("nightly-{}", pl.col("night")),
        started_s=pl.col("night").cast(pl.Datetime).dt.epoch("s").cast(pl.Float64) + 7200,
        quantity=pl.lit(quantity),
        unit=pl.lit(unit),
        better=pl.lit(better),
        low=none if quantity == "writer_rate" else pl.col("value") * 0.99,
        high=none if quantity == "writer_rate" else pl.col("value") * 1.01,
        count=pl.lit(10, pl.Int64),
        verdict=verdict,
        nodes=pl.lit("n1,n2"),
    )
    return frame.select(list(NIGHT_COLUMNS))


def _runs(machine: str, days: list[date]) -> pl.DataFrame:
    rows = [
        dict.fromkeys(RUN_COLUMNS)
        | {
            "machine": machine,
            "campaign": "nightly",
            "run": f"nightly-{day}",
            "started_s": (day - date(1970, 1, 1)).days * 86400.0 + 7200,
            "finished_s": (day - date(1970, 1, 1)).days * 86400.0 + 14400,
            "samples": 480,
            "rejected": 3,
            "made": json.dumps({"kernel": f"5.14.{(day - START).days // 120}", "governor": "none"}),
            "nodes": "n1,n2",
        }
        for day in days
    ]
    return pl.DataFrame(rows, schema=RUN_COLUMNS)


def _outcomes(first: date, nights: int, days: list[date]) -> Iterator[PageNight]:
    for index in range(nights):
        day = first + timedelta(index)
        if day in days:
            yield PageNight(day, "nightly", "measured", "480 samples", f"nightly-{day}")
        else:
            yield PageNight(day, "nightly", "not run", "no node was free")


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
