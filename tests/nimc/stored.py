"""Made runs of STREAM, stored by the conductor's code, with counts and outputs.

Nothing in them was measured.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from conductor.block.store import Store
from conductor.judge.series import ENDING, Series, save
from conductor.judge.series_figures import node_conditions, writer_records
from conductor.readings import RateRow
from records.acceptance import AcceptanceLimits
from records.chain import walk_run
from records.run import Requirements, RunHeader, save_header
from records.sample import Sample
from tests.analysis.integrity.outputs import output_of
from tests.analysis.integrity.sound import ARMS, HEADER, sound_samples
from tests.analysis.synthetic import RECORD, STREAM, header_suited_to
from tests.conductor.made_series import node, writer

#: Number of elements of an array, of 8 bytes each. Triad reads two arrays and writes one.
_ELEMENTS = 1_000_000
_TRIAD_B = 24.0 * _ELEMENTS


def with_figures(sample: Sample) -> Sample:
    """Return the sample with all figures of an output of STREAM. Its own figure hardly changes."""
    assert sample.fom
    average_s = _TRIAD_B / float(sample.fom)
    extra = {
        "best_b_s": round(2 * float(sample.fom) / 1e6) * 1e6,
        "average_s": average_s,
        "minimum_s": average_s / 2,
        "maximum_s": average_s * 2,
        "array_b": 8.0 * _ELEMENTS,
    }
    return replace(sample, fom=_TRIAD_B / average_s, fom_extra=extra)


def counter_rows(sample: Sample) -> list[dict[str, Any]]:
    """Return two made counts of a node, in the form of lines of the file of counters."""
    fixed = {"tool": "node", "rank": 0, "unit": "s", "state": "counted", "running_share": None}
    return [
        {"key": sample.key, "event": event, "value": 0.25, **fixed}
        for event in ("irq-time", "softirq-time")
    ]


def series_of(sample: Sample) -> Series:
    """Return the series of writers that always had the sample's rates, in rows of one second."""
    seconds = range(-3, int(sample.elapsed_s) + 4)
    return Series(
        nodes=[node()],
        writers=[
            writer(
                [
                    RateRow(
                        sample.start_s + second, sample.start_s + second + 1, record.rate_b_s or 0.5
                    )
                    for second in seconds
                ],
                number=number,
                injector=record.injector,
                transport=record.transport,
                alone_b_s=record.rate_alone_b_s,
                fields={"index": number, "target": record.target, "message_b": record.message_b},
            )
            for number, record in enumerate(sample.writers)
        ],
    )


def store_run(run: Path, samples: Iterable[Sample], head: RunHeader) -> Path:
    """Store a finished run; returns its folder."""
    run.mkdir(parents=True)
    save_header(run, head)
    store = Store(run, STREAM.name)
    for sample in map(with_figures, samples):
        series, window_s = series_of(sample), (sample.start_s, sample.start_s + sample.elapsed_s)
        judged = replace(
            sample,
            writers=writer_records(series, window_s),
            conditions=[node_conditions(target) for target in series.nodes],
        )
        logs = run / "logs" / judged.case / str(judged.block)
        logs.mkdir(parents=True, exist_ok=True)
        output = logs / f"{judged.pair}-{judged.arm}-{judged.attempt}.out"
        output.write_text(output_of(judged.as_dict()))
        judged_by = output.with_suffix(ENDING)
        save(series, AcceptanceLimits(), judged_by)
        store.append(judged, counter_rows(judged), [output, judged_by])
        (logs / "reframe.json").write_text("{}")
    (run / "provenance" / f"{judged.provenance}.json").write_text(RECORD)
    save_header(run, replace(head, head=walk_run(run).head))
    return run


def stored_run(folder: Path) -> Path:
    """Store a sound run of 26 samples; return its folder."""
    samples = sound_samples(STREAM)
    requirements = Requirements({STREAM.name: ARMS}, min_share=0.5, retries=2)
    head = header_suited_to(samples, replace(HEADER, asked=requirements))
    return store_run(folder / HEADER.run, samples, head)
