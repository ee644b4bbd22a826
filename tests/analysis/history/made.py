"""Makes small campaign runs whose medians are known by hand. Nothing here was measured."""

from dataclasses import replace
from pathlib import Path

from records.run import Requirements
from records.sample import Sample
from tests.analysis.made_counters import counter_row, write_rows
from tests.analysis.synthetic import STARTED_S, Case, at_rate, header, reject, samples, write_run

#: Times of the arm `off`, seconds: from 10 to 40, with the median 12.5. Times of `on` are twice as
#: long.
OFF_S = (12.0, 10.0, 40.0, 11.0, 14.0, 13.0)
#: Rates of the writer in the arm `on`, bytes per second: median 3.5e9.
RATES_B_S = (2e10, 5e9, 4e9, 3e9, 2e9, 1e9)
#: Cycles of rank 0 in the arm `off`. Rank 1 has ten times as many.
CYCLES = (1e9, 2e9, 3e9, 4e9, 5e9, 6e10)
_CASE = Case(name="melt", unit="s", better="lower", base=10.0, effects={"on": 2.0, "aa": 1.0})
_DAY_S = 86_400.0
_ASKED = Requirements({"melt": ["off", "on", "aa"]}, min_share=0.01, retries=2)


def made_samples() -> list[Sample]:
    """Return the samples: a warm-up and six pairs.

    Before the first accepted run of `off`, there is a rejected one of twice the time.
    """
    runs = []
    for sample in samples(_CASE, pairs=6):
        if sample.pair < 0:
            runs.append(replace(sample, fom=99.0))
            continue
        # The repeated baseline must not look like a copy of the baseline.
        tiny_difference = 1e-15 * (-1) ** sample.pair
        fom = OFF_S[sample.pair] * {"off": 1.0, "on": 2.0, "aa": 1 + tiny_difference}[sample.arm]
        written = at_rate(sample, RATES_B_S[sample.pair], rate_alone_b_s=2.2e10)
        run = replace(written, fom=fom)
        if (sample.pair, sample.arm) == (0, "off"):
            runs.append(reject(replace(run, fom=24.0), "rejected", "foreign traffic"))
            run = replace(run, key="melt/0/0/off/1", attempt=1)
        runs.append(run)
    begun_s = runs[0].start_s
    return [replace(run, start_s=begun_s + 100 * n) for n, run in enumerate(runs)]


def made_run(folder: Path, *, day: int = 0) -> Path:
    """Write a run of machine `m` that started `day` days later than the others; return its folder.

    The run is named after `folder`.
    """
    started_s = STARTED_S + day * _DAY_S
    times_s = {"started_s": started_s, "finished_s": started_s + 300}
    names = {"run": folder.name, "machine": "m", "campaign": "nightly"}
    return write_run(folder, made_samples(), header(**names, **times_s, asked=_ASKED))


def add_cycles(run: Path) -> None:
    """Add counts of cycles of two ranks to each accepted run of `off`."""
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
