"""Tiny runs whose medians are known by hand, and stores of them. Nothing here was measured."""

from dataclasses import replace
from pathlib import Path

from records.run import Requirements
from records.sample import Sample
from tests.analysis.made_counters import counter_row, write_rows
from tests.analysis.synthetic import STARTED_S, Case, at_rate, header, reject, samples, write_run

#: Times under `off`, seconds: median 12.5, from 10 to 40. Under `on` each is twice as long.
OFF_S = (12.0, 10.0, 40.0, 11.0, 14.0, 13.0)
#: Rates of the writer under `on`, bytes per second: median 3.5e9.
RATES_B_S = (2e10, 5e9, 4e9, 3e9, 2e9, 1e9)
#: Cycles of rank 0 under `off`; rank 1 has ten times as many.
CYCLES = (1e9, 2e9, 3e9, 4e9, 5e9, 6e10)
_CASE = Case(name="melt", unit="s", better="lower", base=10.0, effects={"on": 2.0, "aa": 1.0})
_DAY_S = 86_400.0
_ASKED = Requirements({"melt": ["off", "on", "aa"]}, min_share=0.01, retries=2)


def made_samples() -> list[Sample]:
    """A warm-up, and a rejected run of twice the time before the first `off`."""
    runs = []
    for sample in samples(_CASE, pairs=6):
        if sample.pair < 0:
            runs.append(replace(sample, fom=99.0))
            continue
        copied = 1e-15 * (-1) ** sample.pair  # the baseline repeated is no copy of it
        fom = OFF_S[sample.pair] * {"off": 1.0, "on": 2.0, "aa": 1 + copied}[sample.arm]
        written = at_rate(sample, RATES_B_S[sample.pair], rate_alone_b_s=2.2e10)
        whole = replace(written, fom=fom)
        if (sample.pair, sample.arm) == (0, "off"):
            runs.append(reject(replace(whole, fom=24.0), "rejected", "foreign traffic"))
            again = "melt/0/0/off/1"
            whole = replace(whole, key=again, attempt=1)
        runs.append(whole)
    begun_s = runs[0].start_s
    return [replace(run, start_s=begun_s + 100 * n) for n, run in enumerate(runs)]


def made_run(folder: Path, *, day: int = 0) -> Path:
    """A run of machine `m` that started so many days later; `folder` is named like it."""
    started_s = STARTED_S + day * _DAY_S
    times_s = {"started_s": started_s, "finished_s": started_s + 300}
    names = {"run": folder.name, "machine": "m", "campaign": "nightly"}
    return write_run(folder, made_samples(), header(**names, **times_s, asked=_ASKED))


def add_cycles(run: Path) -> None:
    """Counts of two ranks in each `off` that counts."""
    rows = (
        counter_row(
            sample.key,
            "cycles",
            CYCLES[sample.pair] * (10 if rank else 1),
            tool="perf_stat:memory",
            rank=rank,
        )
        for sample in made_samples()
        if sample.arm == "off" and sample.pair >= 0 and sample.outcome == "accepted"
        for rank in (0, 1)
    )
    write_rows(run, "melt", rows)
